// Entry points of cuDNN.
#include "measure/mirror.hpp"

#include <map>
#include <mutex>
#include <vector>

namespace phantora::measure {
namespace {

// --- The backend API: graphs of descriptors that refer to one another ---

constexpr Library cudnn = Library::cudnn9;
using Descriptor = cudnnBackendDescriptor_t;  // a void*: not told apart by its type

Descriptor for_keys(Descriptor descriptor) { return handle_for_keys(descriptor); }

using CreateDescriptor = decltype(cudnnBackendCreateDescriptor);
using DestroyDescriptor = decltype(cudnnBackendDestroyDescriptor);
using SetAttribute = decltype(cudnnBackendSetAttribute);
using GetAttribute = decltype(cudnnBackendGetAttribute);
using FinalizeDescriptor = decltype(cudnnBackendFinalize);
using Execute = decltype(cudnnBackendExecute);

template <Name name, class F>
F* really() {
  return real<cudnn, name, F>();
}

/// Plans that a program makes one after the other, and runs none of meanwhile, are of engines that
/// will be tried out: of each, cudnn-frontend's time_sorted_plan(), which PyTorch calls, runs two
/// executions, the first to warm up. What these take is no time of a step: nothing keeps most of
/// the engines.
class Trials {
 public:
  void created(Descriptor plan) {
    const std::lock_guard lock{mutex_};
    left_[plan] = 0;
  }
  void destroyed(Descriptor plan) {
    const std::lock_guard lock{mutex_};
    left_.erase(plan);
    std::erase(waiting_, plan);
  }
  /// Of any descriptor.
  void finalized(Descriptor plan) {
    const std::lock_guard lock{mutex_};
    if (left_.contains(plan)) waiting_.push_back(plan);
  }
  /// Whether this execution tries the plan out.
  bool tries(Descriptor plan) {
    const std::lock_guard lock{mutex_};
    constexpr int executions = 2;
    if (waiting_.size() > 1) {
      for (Descriptor const one : waiting_) left_[one] = executions;
    }
    waiting_.clear();
    const auto found = left_.find(plan);
    if (found == left_.end() || found->second == 0) return false;
    --found->second;
    return true;
  }

 private:
  std::mutex mutex_;
  std::vector<Descriptor> waiting_;  ///< plans that were made since one was run
  std::map<Descriptor, int> left_;   ///< executions that try, of each plan
};
Trials& trials() {
  static Trials all;
  return all;
}

cudnnStatus_t create(cudnnBackendDescriptorType_t type, Descriptor* descriptor) {
  const cudnnStatus_t status =
      really<"cudnnBackendCreateDescriptor", CreateDescriptor>()(type, descriptor);
  if (status != CUDNN_STATUS_SUCCESS || depth > 0 || keys() == nullptr) return status;
  if (type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) trials().created(*descriptor);
  const Inside inside;
  Descriptor ours = nullptr;
  keyed<"cudnnBackendCreateDescriptor", CreateDescriptor>()(type, &ours);
  stands_for(*descriptor, ours);
  return status;
}

cudnnStatus_t destroy(Descriptor descriptor) {
  if (Descriptor const ours = for_keys(descriptor)) {
    keyed<"cudnnBackendDestroyDescriptor", DestroyDescriptor>()(ours);
    forget_handle_at(descriptor);
    trials().destroyed(descriptor);
  }
  return really<"cudnnBackendDestroyDescriptor", DestroyDescriptor>()(descriptor);
}

cudnnStatus_t set_attribute(Descriptor descriptor, cudnnBackendAttributeName_t name,
                            cudnnBackendAttributeType_t type, std::int64_t count,
                            const void* elements) {
  Descriptor const ours = for_keys(descriptor);
  if (ours != nullptr && depth == 0) {
    const Inside inside;
    auto* const set = keyed<"cudnnBackendSetAttribute", SetAttribute>();
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR && elements != nullptr) {
      const auto* const given = static_cast<const Descriptor*>(elements);
      std::vector<Descriptor> members;
      for (std::int64_t i = 0; i < count; ++i) members.push_back(for_keys(given[i]));
      set(ours, name, type, count, members.data());
    } else {
      set(ours, name, type, count, elements);
    }
  }
  return really<"cudnnBackendSetAttribute", SetAttribute>()(descriptor, name, type, count,
                                                            elements);
}

cudnnStatus_t finalize(Descriptor descriptor) {
  Descriptor const ours = for_keys(descriptor);
  if (ours != nullptr && depth == 0) {
    const Inside inside;
    keyed<"cudnnBackendFinalize", FinalizeDescriptor>()(ours);
  }
  const cudnnStatus_t status = really<"cudnnBackendFinalize", FinalizeDescriptor>()(descriptor);
  if (ours != nullptr && depth == 0 && status == CUDNN_STATUS_SUCCESS)
    trials().finalized(descriptor);
  return status;
}

/// Whether a configuration's engine uses tensor cores, by its notes; of the real ones or the keys'.
bool uses_tensor_cores(CreateDescriptor* make, GetAttribute* get, DestroyDescriptor* unmake,
                       Descriptor configuration) {
  Descriptor engine = nullptr;
  if (make(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) != CUDNN_STATUS_SUCCESS) return false;
  std::int64_t count = 0;
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT] = {};
  if (get(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
          static_cast<void*>(&engine)) != CUDNN_STATUS_SUCCESS ||
      get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
          CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes) != CUDNN_STATUS_SUCCESS)
    count = 0;
  unmake(engine);
  return std::find(notes, notes + count, CUDNN_NUMERICAL_NOTE_TENSOR_CORE) != notes + count;
}

/// Which of the stand-in's engines stands for each that the real heuristics offer: there are more
/// of these, and all that is priced apart is whether they use tensor cores.
void choose_engines(Descriptor heuristics, std::int64_t count, const Descriptor* given) {
  auto* const make = keyed<"cudnnBackendCreateDescriptor", CreateDescriptor>();
  auto* const get = keyed<"cudnnBackendGetAttribute", GetAttribute>();
  auto* const unmake = keyed<"cudnnBackendDestroyDescriptor", DestroyDescriptor>();
  constexpr std::int64_t most = 4;
  Descriptor offered[most] = {};
  for (Descriptor& one : offered) make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &one);
  const auto fetch = [&](Descriptor* places) {
    std::int64_t found = 0;
    get(for_keys(heuristics), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, most,
        &found, static_cast<void*>(places));
    return found;
  };
  const std::int64_t found = fetch(offered);
  bool with_tensor_cores[most] = {};
  for (std::int64_t i = 0; i < found; ++i)
    with_tensor_cores[i] = uses_tensor_cores(make, get, unmake, offered[i]);
  for (std::int64_t i = 0; i < count && found > 0; ++i) {
    const bool wanted =
        uses_tensor_cores(really<"cudnnBackendCreateDescriptor", CreateDescriptor>(),
                          really<"cudnnBackendGetAttribute", GetAttribute>(),
                          really<"cudnnBackendDestroyDescriptor", DestroyDescriptor>(), given[i]);
    const bool* const end = with_tensor_cores + found;
    const bool* const same = std::find<const bool*>(with_tensor_cores, end, wanted);
    // A descriptor of the keys becomes what lies at its place in the answer.
    Descriptor places[most];
    std::copy_n(offered, most, places);
    places[same == end ? 0 : same - with_tensor_cores] = for_keys(given[i]);
    fetch(places);
  }
  for (Descriptor const one : offered) unmake(one);
}

cudnnStatus_t get_attribute(Descriptor const descriptor, cudnnBackendAttributeName_t name,
                            cudnnBackendAttributeType_t type, std::int64_t requested,
                            std::int64_t* count, void* elements) {
  const cudnnStatus_t status = really<"cudnnBackendGetAttribute", GetAttribute>()(
      descriptor, name, type, requested, count, elements);
  Descriptor const ours = for_keys(descriptor);
  if (status != CUDNN_STATUS_SUCCESS || type != CUDNN_TYPE_BACKEND_DESCRIPTOR ||
      elements == nullptr || ours == nullptr || depth > 0)
    return status;
  const Inside inside;
  const auto* const given = static_cast<const Descriptor*>(elements);
  const std::int64_t filled = count != nullptr ? std::min(requested, *count) : requested;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    choose_engines(descriptor, filled, given);
    return status;
  }
  std::vector<Descriptor> members;
  for (std::int64_t i = 0; i < filled; ++i) members.push_back(for_keys(given[i]));
  std::int64_t found = 0;
  keyed<"cudnnBackendGetAttribute", GetAttribute>()(ours, name, type, filled, &found,
                                                    static_cast<void*>(members.data()));
  return status;
}

cudnnStatus_t execute(cudnnHandle_t handle, Descriptor plan, Descriptor pack) {
  auto* const run = really<"cudnnBackendExecute", Execute>();
  if (depth == 0 && trials().tries(plan)) {
    const Inside inside;
    const NotTheProgram trial;
    return run(handle, plan, pack);
  }
  return timed(
      [&] {
        keyed<"cudnnBackendExecute", Execute>()(translated(handle), for_keys(plan), for_keys(pack));
      },
      [&] { return run(handle, plan, pack); });
}

}  // namespace
}  // namespace phantora::measure

#define PHANTORA_MIRROR(name) PHANTORA_MIRROR_IN(cudnn9, "libcudnn.so.9", name, decltype(name))
#define PHANTORA_CUSTOM(name, function) \
  PHANTORA_ENTRY(cudnn9, "libcudnn.so.9", name, decltype(name), &phantora::measure::function)

PHANTORA_CUSTOM(cudnnBackendCreateDescriptor, create)
PHANTORA_CUSTOM(cudnnBackendDestroyDescriptor, destroy)
PHANTORA_CUSTOM(cudnnBackendSetAttribute, set_attribute)
PHANTORA_CUSTOM(cudnnBackendGetAttribute, get_attribute)
PHANTORA_CUSTOM(cudnnBackendFinalize, finalize)
PHANTORA_CUSTOM(cudnnBackendExecute, execute)

PHANTORA_MIRROR(cudnnCreate)
PHANTORA_MIRROR(cudnnDestroy)
PHANTORA_MIRROR(cudnnSetStream)

// --- The API of fixed functions ---

#define PHANTORA_DESCRIPTOR(Name)                \
  PHANTORA_MIRROR(cudnnCreate##Name##Descriptor) \
  PHANTORA_MIRROR(cudnnDestroy##Name##Descriptor)
PHANTORA_DESCRIPTOR(Tensor)
PHANTORA_DESCRIPTOR(Filter)
PHANTORA_DESCRIPTOR(Convolution)
PHANTORA_DESCRIPTOR(Pooling)
PHANTORA_DESCRIPTOR(Activation)
PHANTORA_DESCRIPTOR(Dropout)
PHANTORA_DESCRIPTOR(RNN)
PHANTORA_DESCRIPTOR(RNNData)
PHANTORA_MIRROR(cudnnSetTensorNdDescriptor)
PHANTORA_MIRROR(cudnnSetTensorNdDescriptorEx)
PHANTORA_MIRROR(cudnnSetTensor4dDescriptor)
PHANTORA_MIRROR(cudnnSetTensor4dDescriptorEx)
PHANTORA_MIRROR(cudnnSetFilterNdDescriptor)
PHANTORA_MIRROR(cudnnSetFilter4dDescriptor)
PHANTORA_MIRROR(cudnnSetConvolutionNdDescriptor)
PHANTORA_MIRROR(cudnnSetConvolution2dDescriptor)
PHANTORA_MIRROR(cudnnSetConvolutionGroupCount)
PHANTORA_MIRROR(cudnnSetConvolutionMathType)
PHANTORA_MIRROR(cudnnSetPoolingNdDescriptor)
PHANTORA_MIRROR(cudnnSetPooling2dDescriptor)
PHANTORA_MIRROR(cudnnSetActivationDescriptor)
PHANTORA_MIRROR(cudnnSetDropoutDescriptor)
PHANTORA_MIRROR(cudnnRestoreDropoutDescriptor)
PHANTORA_MIRROR(cudnnSetRNNDescriptor_v8)
PHANTORA_MIRROR(cudnnSetRNNDataDescriptor)

PHANTORA_MIRROR(cudnnConvolutionForward)
PHANTORA_MIRROR(cudnnConvolutionBiasActivationForward)
PHANTORA_MIRROR(cudnnConvolutionBackwardData)
PHANTORA_MIRROR(cudnnConvolutionBackwardFilter)
PHANTORA_MIRROR(cudnnBatchNormalizationForwardTrainingEx)
PHANTORA_MIRROR(cudnnBatchNormalizationForwardInference)
PHANTORA_MIRROR(cudnnBatchNormalizationBackwardEx)
PHANTORA_MIRROR(cudnnPoolingForward)
PHANTORA_MIRROR(cudnnPoolingBackward)
PHANTORA_MIRROR(cudnnActivationForward)
PHANTORA_MIRROR(cudnnSoftmaxForward)
PHANTORA_MIRROR(cudnnSoftmaxBackward)
PHANTORA_MIRROR(cudnnRNNForward)
PHANTORA_MIRROR(cudnnRNNBackwardData_v8)
PHANTORA_MIRROR(cudnnRNNBackwardWeights_v8)
