#include "cuda/cudnn/backend.hpp"

#include "cuda/cudnn/graph.hpp"
#include "cuda/cudnn/handle.hpp"
#include "cuda/cudnn/plan_text.hpp"
#include "cuda/library/operation.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>

using namespace phantora::cudnn;
namespace library = phantora::library;
namespace rank = phantora::rank;

namespace phantora::cudnn {

std::size_t size_of(cudnnBackendAttributeType_t type) noexcept {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
      return 8;
    case CUDNN_TYPE_FRACTION:  // numerator and denominator
      return 16;
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return sizeof(cudnnBackendDescriptor_t);
    default:  // enumerations, 32-bit integers and floats
      return type >= CUDNN_TYPE_HANDLE && type <= CUDNN_TYPE_OPERATIONGRAPH_MODE ? 4 : 0;
  }
}

Reference Descriptor::reference(cudnnBackendAttributeName_t name) const {
  const auto found = attributes.find(name);
  if (found == attributes.end() || found->second.descriptors.empty()) return nullptr;
  return found->second.descriptors.front();
}

std::vector<Reference> Descriptor::references(cudnnBackendAttributeName_t name) const {
  const auto found = attributes.find(name);
  return found == attributes.end() ? std::vector<Reference>{} : found->second.descriptors;
}

void Descriptor::put(cudnnBackendAttributeName_t name, std::vector<Reference> values) {
  attributes[name] = {CUDNN_TYPE_BACKEND_DESCRIPTOR,
                      static_cast<std::int64_t>(values.size()),
                      {},
                      std::move(values)};
}

namespace {

/// What a cudnnBackendDescriptor_t points to: the program's hold on a descriptor.
struct Hold {
  Reference descriptor;
};

Hold* hold_of(cudnnBackendDescriptor_t handle) { return static_cast<Hold*>(handle); }

Reference make(cudnnBackendDescriptorType_t type) {
  auto made = std::make_shared<Descriptor>();
  made->type = type;
  return made;
}

/// A graph, and what runs it.
struct Choice {
  Reference graph;
  Engine engine;
};
/// Without a graph if the descriptor is no engine of ours.
Choice choice_of(const Reference& engine) {
  const Reference graph = engine ? engine->reference(CUDNN_ATTR_ENGINE_OPERATION_GRAPH) : nullptr;
  if (!graph) return {};
  const std::vector<Engine> all = engines(*graph);
  const auto index = engine->get<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX).value_or(0);
  if (index < 0 || index >= static_cast<std::int64_t>(all.size())) return {};
  return {graph, all[static_cast<std::size_t>(index)]};
}

/// Completes an engine: which notes it carries.
void describe_engine(const Reference& engine_descriptor) {
  Descriptor& engine = *engine_descriptor;
  const Choice choice = choice_of(engine_descriptor);
  std::vector<cudnnBackendNumericalNote_t> notes;
  if (choice.graph && choice.engine.tensor_cores) notes.push_back(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  engine.put(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, notes);
  engine.put(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
             std::vector<cudnnBackendBehaviorNote_t>{});
  engine.put(CUDNN_ATTR_ENGINE_KNOB_INFO, std::vector<Reference>{});
  engine.finalized = true;
}

const Attribute no_descriptors{CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, {}, {}};

/// Completes a configuration of an engine: what it needs.
void describe_configuration(Descriptor& configuration) {
  const Choice choice = choice_of(configuration.reference(CUDNN_ATTR_ENGINECFG_ENGINE));
  if (!choice.graph) return;
  configuration.put(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                    std::vector<std::int64_t>{
                        static_cast<std::int64_t>(workspace_bytes(*choice.graph, choice.engine))});
  // Programs deselect engines that need more than the device has; ours needs none.
  configuration.put(CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED, CUDNN_TYPE_INT32,
                    std::vector<std::int32_t>{0});
  // One that the program made, of an engine by its number, says as much of itself as ours do.
  configuration.attributes.try_emplace(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, no_descriptors);
  configuration.attributes.try_emplace(CUDNN_ATTR_ENGINECFG_INTERMEDIATE_INFO, no_descriptors);
  configuration.finalized = true;
}

/// Answers a heuristics query: one configuration per engine. What needs most workspace is not among
/// those to fall back on: programs that try all ask for both.
void answer(Descriptor& heuristics) {
  const Reference graph = heuristics.reference(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  const bool fallback = heuristics.get<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE) ==
                        CUDNN_HEUR_MODE_FALLBACK;
  std::vector<Reference> results;
  const auto all = graph && supported(*graph) ? engines(*graph) : std::vector<Engine>{};
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (fallback && all[i].widest) continue;
    const Reference engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    engine->put(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, {graph});
    engine->put(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64,
                std::vector<std::int64_t>{static_cast<std::int64_t>(i)});
    describe_engine(engine);
    const Reference configuration = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    configuration->put(CUDNN_ATTR_ENGINECFG_ENGINE, {engine});
    describe_configuration(*configuration);
    results.push_back(configuration);
  }
  heuristics.put(CUDNN_ATTR_ENGINEHEUR_RESULTS, results);
}

/// The graph and the engine that a plan runs.
Choice choice_of(const Descriptor& plan) {
  const Reference configuration = plan.reference(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  return choice_of(configuration ? configuration->reference(CUDNN_ATTR_ENGINECFG_ENGINE)
                                 : Reference{});
}

// Host time of making a plan, in training steps on H200 hosts (test/data/first_use.jsonl): the
// first look for engines loads the library's tables; graphs of several operations are compiled; a
// single convolution loads a kernel when it first runs (about 70 plans of ResNet-50 took 118 to 173
// ms). The widest engine of a convolution stands for all that are tried: of 6,270 convolutions, a
// half took PyTorch 40 ms and less (lib/kernels/data/h200_sweep19.jsonl.gz).
struct PlanningCost {
  static constexpr std::chrono::microseconds first_search{14'700};
  static constexpr std::chrono::microseconds fused{40'200};
  static constexpr std::chrono::microseconds single{2'100};
  static constexpr std::chrono::microseconds trials{40'000};
};

std::chrono::microseconds planning_cost(const Choice& choice) {
  if (choice.engine.widest) return PlanningCost::trials;
  const bool fused = choice.graph->references(CUDNN_ATTR_OPERATIONGRAPH_OPS).size() > 1;
  return fused ? PlanningCost::fused : PlanningCost::single;
}

/// Few programs ask for a plan's text, so that it is written then.
void write_text(Descriptor& plan) {
  const Reference configuration = plan.reference(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  if (!configuration || plan.attributes.contains(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION)) {
    return;
  }
  const std::string text = text_of(configuration);
  plan.put(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
           std::vector<char>(text.c_str(), text.c_str() + text.size() + 1));
}

cudnnStatus_t finalize(const Reference& reference) {
  Descriptor& descriptor = *reference;
  switch (descriptor.type) {
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: {
      if (!supported(descriptor)) {
        rank::unsupported("cuDNN operation graph with an operation that is not known");
        return CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN;
      }
      descriptor.put(
          CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64,
          std::vector<std::int64_t>{static_cast<std::int64_t>(engines(descriptor).size())});
      break;
    }
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
      describe_engine(reference);
      break;
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
      describe_configuration(descriptor);
      break;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR: {
      static std::once_flag searched;
      std::call_once(searched, [] { rank::costs_more(PlanningCost::first_search); });
      answer(descriptor);
      break;
    }
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
      if (const auto text = descriptor.list<char>(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
          !text.empty()) {
        descriptor.put(
            CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
            {configuration_of(std::string{text.begin(), std::ranges::find(text, '\0')})});
      }
      const Choice choice = choice_of(descriptor);
      if (!choice.graph) return CUDNN_STATUS_BAD_PARAM;
      rank::costs_more(planning_cost(choice));
      if (choice.engine.widest) choice.graph->tried = true;
      descriptor.put(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                     std::vector<std::int64_t>{
                         static_cast<std::int64_t>(workspace_bytes(*choice.graph, choice.engine))});
      break;
    }
    default:
      break;
  }
  descriptor.finalized = true;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace phantora::cudnn

PHANTORA_EXPORT cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                           cudnnBackendDescriptor_t* handle) {
  return entry(Api::library_setup, [&] {
    if (!handle) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    *handle = new Hold{make(type)};
    return CUDNN_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t handle) {
  delete hold_of(handle);
  return CUDNN_STATUS_SUCCESS;
}

PHANTORA_EXPORT cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t handle,
                                                       cudnnBackendAttributeName_t name,
                                                       cudnnBackendAttributeType_t type,
                                                       std::int64_t count, const void* elements) {
  return entry(Api::library_setup, [&] {
    if (!handle || (count > 0 && !elements)) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    Descriptor& descriptor = *hold_of(handle)->descriptor;
    const std::size_t size = phantora::cudnn::size_of(type);
    if (descriptor.finalized || size == 0 || count < 0) return CUDNN_STATUS_BAD_PARAM;
    Attribute attribute{type, count, {}, {}};
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
      const auto* handles = static_cast<const cudnnBackendDescriptor_t*>(elements);
      for (std::int64_t i = 0; i < count; ++i) {
        if (!handles[i]) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
        attribute.descriptors.push_back(hold_of(handles[i])->descriptor);
      }
    } else {
      const auto* bytes = static_cast<const std::byte*>(elements);
      attribute.bytes.assign(bytes, bytes + static_cast<std::size_t>(count) * size);
    }
    descriptor.attributes[name] = std::move(attribute);
    return CUDNN_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const handle,
                                                       cudnnBackendAttributeName_t name,
                                                       cudnnBackendAttributeType_t type,
                                                       std::int64_t requested, std::int64_t* count,
                                                       void* elements) {
  return entry(Api::library_setup, [&] {
    if (!handle) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    Descriptor& descriptor = *hold_of(handle)->descriptor;
    if (!descriptor.finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    if (name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION) write_text(descriptor);
    const auto found = descriptor.attributes.find(name);
    if (found == descriptor.attributes.end()) {
      if (count) *count = 0;
      return CUDNN_STATUS_NOT_SUPPORTED;
    }
    const Attribute& attribute = found->second;
    if (attribute.type != type) return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
    if (count) *count = attribute.count;
    const std::int64_t given = elements ? std::min(requested, attribute.count) : 0;
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
      // The caller passes descriptors of its own, which become names of ours.
      const auto* handles = static_cast<const cudnnBackendDescriptor_t*>(elements);
      for (std::int64_t i = 0; i < given; ++i) {
        hold_of(handles[i])->descriptor = attribute.descriptors[static_cast<std::size_t>(i)];
      }
      if (count && elements) *count = given;
    } else if (given > 0) {
      std::memcpy(elements, attribute.bytes.data(),
                  static_cast<std::size_t>(given) * phantora::cudnn::size_of(type));
    }
    return CUDNN_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t handle) {
  return entry(Api::library_setup, [&] {
    if (!handle) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    return finalize(hold_of(handle)->descriptor);
  });
}

PHANTORA_EXPORT cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle,
                                                  cudnnBackendDescriptor_t plan,
                                                  cudnnBackendDescriptor_t variant_pack) {
  return entry(Api::cudnn_execute, [&] {
    if (!handle || !plan || !variant_pack) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    const Choice choice = choice_of(*hold_of(plan)->descriptor);
    if (!choice.graph) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    const Descriptor& pack = *hold_of(variant_pack)->descriptor;
    const auto ids = pack.list<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const auto addresses = pack.list<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    if (ids.size() != addresses.size()) return CUDNN_STATUS_BAD_PARAM;
    std::map<std::int64_t, void*> pointers;
    for (std::size_t i = 0; i < ids.size(); ++i) pointers[ids[i]] = addresses[i];
    const Execution run = execution(*choice.graph, choice.engine, pointers);
    for (const phantora::KernelQuery& query : run.queries)
      library::launch(stream_of(handle), query, run.outputs, run.inputs);
    for (const library::Output& output : run.outputs) {
      library::forget_later(stream_of(handle), output);
    }
    return CUDNN_STATUS_SUCCESS;
  });
}
