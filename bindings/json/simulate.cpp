#include "json/simulate.hpp"

#include <phantora/error.hpp>
#include <phantora/simulation/simulation.hpp>
#include <phantora/simulation/transformer_fields.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <vector>

namespace phantora::bindings {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void fail(std::string_view field, std::string_view expected) {
  throw ConfigError{"request: " + std::string{field} + ": expected " + std::string{expected}};
}

/// A JSON object of which each field is asked for by name, and none is left over.
class Fields {
 public:
  Fields(const Json& json, std::string name, std::span<const std::string_view> known)
      : json_{json}, name_{std::move(name)} {
    if (!json.is_object()) fail(name_, "an object");
    for (const auto& [key, value] : json.items())
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        std::string names;
        for (const std::string_view one : known)
          names += (names.empty() ? "" : ", ") + std::string{one};
        fail(path(key), "one of " + names);
      }
  }
  [[nodiscard]] std::string path(std::string_view key) const {
    return name_ == "object" ? std::string{key} : name_ + "." + std::string{key};
  }
  /// nullptr: the object does not have it.
  [[nodiscard]] const Json* find(std::string_view key) const {
    const auto found = json_.find(key);
    return found == json_.end() ? nullptr : &*found;
  }
  void read(std::string_view key, int& value) const {
    const Json* json = find(key);
    if (json == nullptr) return;
    if (!json->is_number_integer() || *json < std::numeric_limits<int>::min() ||
        *json > std::numeric_limits<int>::max())
      fail(path(key), "a whole number");
    value = json->get<int>();
  }
  void read(std::string_view key, bool& value) const {
    const Json* json = find(key);
    if (json == nullptr) return;
    if (!json->is_boolean()) fail(path(key), "true or false");
    value = json->get<bool>();
  }
  void read(std::string_view key, double& value) const {
    const Json* json = find(key);
    if (json == nullptr) return;
    if (!json->is_number()) fail(path(key), "a number");
    value = json->get<double>();
  }
  void read(std::string_view key, Bytes& value) const {
    const Json* json = find(key);
    if (json == nullptr) return;
    // Those beyond 2^63 are whole numbers too.
    if (!json->is_number_integer() || *json < 0 || *json > std::numeric_limits<std::int64_t>::max())
      fail(path(key), "bytes");
    value = Bytes{json->get<std::int64_t>()};
  }
  template <class Choice, std::size_t count>
  void read(std::string_view key, Choice& value, const ChoiceNames<Choice, count>& names) const {
    if (find(key) == nullptr) return;
    const std::optional<Choice> choice = choice_of(names, text(key));
    if (!choice) fail(path(key), one_of(names));
    value = *choice;
  }
  [[nodiscard]] const std::string& text(std::string_view key) const {
    const Json* json = find(key);
    if (json == nullptr || !json->is_string()) fail(path(key), "text");
    return json->get_ref<const std::string&>();
  }

 private:
  const Json& json_;
  std::string name_;
};

Workload transformer_steps(const Json& json) {
  TransformerShape shape;
  Parallelism parallelism;
  TrainingRecipe recipe;
  int steps = 1;
  const auto each = [&](auto visit) {
    for_each_field(shape, visit);
    for_each_field(parallelism, visit);
    for_each_field(recipe, visit);
    visit("steps", steps);
  };
  std::vector<std::string_view> names;
  each([&](const char* name, const auto&, const auto&...) { names.emplace_back(name); });
  const Fields fields{json, "transformer", names};
  each([&](const char* name, auto& value, const auto&... choices) {
    fields.read(name, value, choices...);
  });
  return training_steps(shape, parallelism, steps, recipe);
}

Workload workload(const Fields& request) {
  const Json* told = request.find("workload");
  const Json* path = request.find("workload_file");
  const Json* transformer = request.find("transformer");
  if ((told != nullptr) + (path != nullptr) + (transformer != nullptr) != 1)
    fail("workload", "one of workload, workload_file, transformer");
  if (told != nullptr) return Workload::from_json(told->dump(), "request: workload");
  if (path != nullptr) return Workload::load(request.text("workload_file"));
  return transformer_steps(*transformer);
}

std::optional<Bytes> memory(const Fields& request) {
  const Json* json = request.find("gpu_memory");
  if (json == nullptr) return {};
  if (!json->is_number_integer() || *json <= 0) fail("gpu_memory", "bytes, more than none");
  return Bytes{json->get<std::int64_t>()};
}

NcclVariables nccl(const Fields& request) {
  NcclVariables variables;
  const Json* json = request.find("nccl");
  if (json == nullptr) return variables;
  if (!json->is_object()) fail("nccl", "an object");
  for (const auto& [name, value] : json->items()) {
    if (!value.is_string()) fail("nccl." + name, "text");
    variables[name] = value.get<std::string>();
  }
  return variables;
}

std::vector<GpuIndex> gpus(const Fields& request) {
  std::vector<GpuIndex> gpus;
  const Json* json = request.find("gpus");
  if (json == nullptr) return gpus;
  const auto expected = "a list of numbers of GPUs";
  if (!json->is_array()) fail("gpus", expected);
  for (const Json& gpu : *json) {
    if (!gpu.is_number_integer() || gpu < 0 || gpu > std::numeric_limits<GpuIndex>::max())
      fail("gpus", expected);
    gpus.push_back(gpu.get<GpuIndex>());
  }
  return gpus;
}

bool wants_link_loads(const Fields& request) {
  const Json* json = request.find("link_loads");
  if (json != nullptr && !json->is_boolean()) fail("link_loads", "true or false");
  return json != nullptr && json->get<bool>();
}

}  // namespace

Cluster make_cluster(std::string_view spec, std::optional<Bytes> memory) {
  Cluster cluster = parse_cluster(spec);
  if (memory)
    for (Host& host : cluster.hosts) host.gpu_memory = memory;
  return cluster;
}

std::string simulate(std::string_view text) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {
    throw ConfigError{std::string{"request: "} + error.what()};
  }
  constexpr std::array<std::string_view, 8> known{"cluster",  "gpu_memory",    "nccl",
                                                  "workload", "workload_file", "transformer",
                                                  "gpus",     "link_loads"};
  const Fields request{json, "object", known};
  const Simulation simulation{make_cluster(request.text("cluster"), memory(request)),
                              {.nccl = nccl(request)}};
  const Workload job = workload(request);
  const std::vector<GpuIndex> placement = gpus(request);
  std::string report = to_json(simulation.run(job, placement), simulation.cluster());
  if (!wants_link_loads(request)) return report;

  Json loads = Json::array();
  for (const LinkLoad& load : simulation.link_loads(job, placement))
    loads.push_back({{"link", simulation.cluster().topology.name(load.link)},
                     {"bytes", load.bytes.count()},
                     {"time_ps", load.time.count()}});
  report.pop_back();  // the object's brace
  return report + ",\"link_loads\":" + loads.dump() + "}";
}

}  // namespace phantora::bindings
