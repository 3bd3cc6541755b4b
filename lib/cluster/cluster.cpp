#include "cluster/gpu_interconnect.hpp"

#include <phantora/cluster/cluster.hpp>
#include <phantora/cluster/topologies.hpp>
#include <phantora/error.hpp>
#include <phantora/kernels/gpu_model.hpp>
#include <phantora/quantity.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>

// Text that is no TOML is an error that names its place, in every build: without NDEBUG an
// assertion of toml++ 3.3's own would end the process at some of it.
#define TOML_ASSERT(expr) static_assert(true)
#include <toml++/toml.h>

namespace phantora {
namespace {

using namespace topologies;

std::string join(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

std::vector<std::string> known_models() {
  std::vector<std::string> models;
  for (const GpuInterconnect& it : gpu_interconnects()) models.emplace_back(it.model);
  return models;
}

/// Reads the fields of one TOML table, and complains about what is wrong with each.
class Fields {
 public:
  Fields(const toml::table& table, std::string name, std::string_view source)
      : table_{table}, name_{std::move(name)}, source_{source} {}

  [[nodiscard]] std::optional<std::int64_t> number(std::string_view key, std::int64_t least) {
    const toml::node* node = find(key);
    if (!node) return std::nullopt;
    const auto value = node->value_exact<std::int64_t>();
    if (!value || *value < least || *value > 1'000'000'000)
      throw wrong(*node, key, "a whole number of at least " + std::to_string(least));
    return value;
  }
  [[nodiscard]] std::optional<int> count(std::string_view key) {
    const auto value = number(key, 1);
    return value ? std::optional{static_cast<int>(*value)} : std::nullopt;
  }
  [[nodiscard]] std::optional<bool> boolean(std::string_view key) {
    const toml::node* node = find(key);
    if (!node) return std::nullopt;
    const auto value = node->value_exact<bool>();
    if (!value) throw wrong(*node, key, "true or false");
    return value;
  }
  [[nodiscard]] std::optional<double> real(std::string_view key) {
    const toml::node* node = find(key);
    if (!node) return std::nullopt;
    const auto value = node->value<double>();
    if (!value) throw wrong(*node, key, "a number");
    return value;
  }
  [[nodiscard]] std::optional<std::string> word(std::string_view key,
                                                const std::vector<std::string>& known = {}) {
    const toml::node* node = find(key);
    if (!node) return std::nullopt;
    auto value = node->value_exact<std::string>();
    if (!value || (!known.empty() && std::find(known.begin(), known.end(), *value) == known.end()))
      throw wrong(*node, key, known.empty() ? "text" : "one of " + join(known));
    return value;
  }
  template <class T>
  [[nodiscard]] std::optional<T> quantity(std::string_view key,
                                          std::optional<T> (*parse)(std::string_view),
                                          const char* example) {
    const toml::node* node = find(key);
    if (!node) return std::nullopt;
    const auto text = node->value_exact<std::string>();
    const auto value = text ? parse(*text) : std::nullopt;
    if (!value) throw wrong(*node, key, std::string{"a quantity such as "} + example);
    return value;
  }
  [[nodiscard]] std::vector<std::string> words(std::string_view key) {
    const toml::node* node = find(key);
    std::vector<std::string> out;
    if (!node) return out;
    const toml::array* array = node->as_array();
    if (!array) throw wrong(*node, key, "a list of names such as [\"leaf0\", \"spine0\"]");
    for (const toml::node& item : *array) {
      const auto value = item.value_exact<std::string>();
      if (!value) throw wrong(item, key, "names in quotes");
      out.push_back(*value);
    }
    return out;
  }
  [[nodiscard]] std::vector<int> numbers(std::string_view key) {
    const toml::node* node = find(key);
    std::vector<int> out;
    if (!node) return out;
    const toml::array* array = node->as_array();
    if (!array) throw wrong(*node, key, "a list of whole numbers such as [4, 4]");
    for (const toml::node& item : *array) {
      const auto value = item.value_exact<std::int64_t>();
      if (!value || *value < 1 || *value > 1'000'000)
        throw wrong(item, key, "whole numbers of at least 1");
      out.push_back(static_cast<int>(*value));
    }
    return out;
  }

  /// @throws ConfigError if a field was never asked for.
  void expect_no_others() const {
    for (const auto& [key, node] : table_)
      if (std::find(asked_.begin(), asked_.end(), key.str()) == asked_.end())
        throw ConfigError{place(node) + ": " + name_ + " has no field \"" + std::string{key.str()} +
                          "\" here; expected one of " + join(asked_)};
  }

  /// @throws ConfigError that puts `what`, from the depths of a generator, at this table.
  [[noreturn]] void fail(const std::string& what) const {
    throw ConfigError{place(table_) + ": " + name_ + ": " + what};
  }

 private:
  const toml::node* find(std::string_view key) {
    asked_.emplace_back(key);
    return table_.get(key);
  }
  [[nodiscard]] std::string place(const toml::node& node) const {
    const auto line = node.source().begin.line;
    return std::string{source_} + (line > 0 ? ":" + std::to_string(line) : "");
  }
  [[nodiscard]] ConfigError wrong(const toml::node& node, std::string_view key,
                                  const std::string& expected) const {
    std::ostringstream got;
    got << toml::node_view<const toml::node>{&node};
    return ConfigError{place(node) + ": " + name_ + "." + std::string{key} + " = " + got.str() +
                       ": expected " + expected};
  }

  const toml::table& table_;
  std::string name_;
  std::string_view source_;
  std::vector<std::string> asked_;
};

/// GPUs that a description defines; that of the table [gpu] itself has no key of its own there.
using OwnGpus = std::map<std::string, GpuModel, std::less<>>;
constexpr const char* unnamed_gpu = "gpu";

/// "9.0" as {9, 0}.
std::optional<std::pair<int, int>> parse_capability(std::string_view text) {
  std::pair<int, int> parts;
  const auto [dot, error] = std::from_chars(text.data(), text.data() + text.size(), parts.first);
  const char* const end = text.data() + text.size();
  if (error != std::errc{} || dot == end || *dot != '.') return std::nullopt;
  const auto [rest, wrong] = std::from_chars(dot + 1, end, parts.second);
  const bool meant = parts.first >= 5 && parts.first < 100 && parts.second >= 0 &&
                     parts.second <= 9 && rest == end && wrong == std::errc{};
  return meant ? std::optional{parts} : std::nullopt;
}

/// A GPU by its data sheet: what is not told is as the GPU has it that it is like.
GpuModel read_gpu(const toml::table& table, const std::string& key, std::string_view source) {
  Fields fields{table, key == unnamed_gpu ? "gpu" : "gpu." + key, source};
  const auto like = fields.word("like", known_models());
  GpuModel gpu = like ? gpu_model(*like) : GpuModel{};
  if (!like) {
    // Not on data sheets: the context's memory is the H200's, the slot PCIe's fifth generation.
    gpu.context_memory = gpu_model("h200").context_memory;
    gpu.pcie = 64_GBps;
  }
  // Nor is what it draws at those rates, unless its limit is told.
  gpu.tensor_power = gpu.memory_power = 0.0;
  gpu.key = key;
  gpu.name = fields.word("name").value_or(key);
  if (gpu.name.find('\n') != gpu.name.npos) fields.fail("name: expected one line");
  // Takes what is told; nothing told, nothing known of a like GPU and needed is an error.
  const auto take = [&]<class T>(T& into, const char* name, std::optional<T> told, bool needed) {
    if (told) into = *told;
    if (told ? needed && *told == T{} : needed && !like)
      fields.fail(std::string{name} + ": expected " +
                  (told ? "more than nothing" : "it, or like = a GPU whose figure holds"));
  };
  const auto bandwidth = [&](const char* name) {
    return fields.quantity(name, parse_bandwidth, "\"4.8TB/s\"");
  };
  const auto rate = [&](const char* name) {
    return fields.quantity(name, parse_flop_rate, "\"989TFLOPS\"");
  };
  std::pair capability{gpu.capability_major, gpu.capability_minor};
  take(capability, "capability", fields.quantity("capability", parse_capability, "\"9.0\""), true);
  std::tie(gpu.capability_major, gpu.capability_minor) = capability;
  take(gpu.sm_count, "sms", fields.count("sms"), true);
  take(gpu.clock_hz, "clock", fields.quantity("clock", parse_frequency, "\"1.98GHz\""), true);
  take(gpu.memory, "memory", fields.quantity("memory", parse_bytes, "\"141GB\""), true);
  take(gpu.memory_bandwidth, "memory_bandwidth", bandwidth("memory_bandwidth"), true);
  take(gpu.l2, "l2", fields.quantity("l2", parse_bytes, "\"60MiB\""), true);
  take(gpu.nvlink, "nvlink", bandwidth("nvlink"), false);
  take(gpu.pcie, "pcie", bandwidth("pcie"), false);
  if (gpu.pcie == Bandwidth{}) fields.fail("pcie: expected more than nothing");
  take(gpu.fp8, "fp8", rate("fp8"), false);
  take(gpu.half, "half", rate("half"), true);
  take(gpu.tf32, "tf32", rate("tf32"), false);
  take(gpu.fp32, "fp32", rate("fp32"), true);
  take(gpu.fp64, "fp64", rate("fp64"), false);
  if (const auto watts = fields.quantity("power_limit", parse_power, "\"500W\"")) {
    try {
      gpu = with_power_limit(gpu, like ? gpu_model(*like) : GpuModel{}, *watts);
    } catch (const ConfigError& problem) {
      fields.fail(problem.what());
    }
  }
  fields.expect_no_others();
  if (gpu.memory <= gpu.context_memory)
    fields.fail("memory: expected more than the " +
                std::to_string(gpu.context_memory.count() >> 20) + " MiB of a context");
  return gpu;
}

/// The tables [gpu.NAME], or the one table [gpu].
OwnGpus read_gpus(const toml::table& tables, std::string_view source) {
  OwnGpus gpus;
  const bool named = std::any_of(tables.begin(), tables.end(),
                                 [](const auto& entry) { return entry.second.is_table(); });
  if (!named && !tables.empty()) gpus.emplace(unnamed_gpu, read_gpu(tables, unnamed_gpu, source));
  if (!named) return gpus;
  for (const auto& [key, node] : tables) {
    const std::string name{key.str()};
    const auto refuse = [&, line = key.source().begin.line](const std::string& why) {
      return ConfigError{std::string{source} + ":" + std::to_string(line) + ": gpu." + name + ": " +
                         why};
    };
    if (!node.is_table()) throw refuse("expected a table [gpu." + name + "]");
    const auto models = known_models();
    if (name == unnamed_gpu || std::find(models.begin(), models.end(), name) != models.end())
      throw refuse("expected a name of its own; " + join(models) + " are taken, and " +
                   unnamed_gpu);
    if (!std::all_of(name.begin(), name.end(), [](char c) {
          return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                 c == '_' || c == '-';
        }))
      throw refuse("expected a name of letters, digits, _ and -");
    gpus.emplace(name, read_gpu(*node.as_table(), name, source));
  }
  return gpus;
}

HostGroup read_hosts(const toml::table& table, const OwnGpus& own, std::string_view source) {
  Fields fields{table, "hosts", source};
  HostGroup group;
  std::vector<std::string> models = known_models();
  for (const auto& [name, gpu] : own) models.push_back(name);
  if (own.contains(unnamed_gpu)) group.gpu_model = unnamed_gpu;
  group.gpu_model = fields.word("gpu", models).value_or(group.gpu_model);
  if (const auto found = own.find(group.gpu_model); found != own.end())
    group.own_gpu = found->second;
  group.hosts = fields.count("count").value_or(group.hosts);
  group.gpus_per_host = fields.count("gpus").value_or(group.gpus_per_host);
  group.gpu_memory = fields.quantity("memory", parse_bytes, "\"141GB\"");
  group.nvlink = fields.quantity("nvlink", parse_bandwidth, "\"450GB/s\"");
  group.nvlink_latency = fields.quantity("nvlink_latency", parse_duration, "\"468ns\"");
  group.nvlink_mesh = fields.boolean("nvlink_mesh").value_or(group.nvlink_mesh);
  group.pcie = fields.quantity("pcie", parse_bandwidth, "\"57.6GB/s\"");
  group.nic = fields.quantity("nic", parse_bandwidth, "\"400Gbps\"");
  group.gpus_per_nic = fields.count("gpus_per_nic");
  fields.expect_no_others();
  if (group.gpus_per_host > 72) fields.fail("gpus: expected at most 72 per host");
  if (group.gpu_memory == Bytes{}) fields.fail("memory: expected more than nothing");
  if (group.hosts > 65536) fields.fail("count: expected at most 65536 hosts");
  return group;
}

const std::vector<std::string> fabric_kinds{"rail_optimized", "leaf_spine", "fat_tree",
                                            "dragonfly",      "torus",      "single_switch"};

Fabric read_fabric(Fields& fields) {
  const std::string kind = fields.word("kind", fabric_kinds).value_or("rail_optimized");
  FabricLinks links;
  links.link = fields.quantity("link", parse_bandwidth, "\"400Gbps\"");
  links.latency = fields.quantity("latency", parse_duration, "\"180ns\"");
  Fabric fabric;
  if (kind == "rail_optimized") {
    RailOptimized it{links};
    it.hosts_per_pod = fields.count("hosts_per_pod").value_or(it.hosts_per_pod);
    it.oversubscription = fields.real("oversubscription").value_or(it.oversubscription);
    fabric = it;
  } else if (kind == "leaf_spine") {
    LeafSpine it{links};
    it.hosts_per_leaf = fields.count("hosts_per_leaf").value_or(it.hosts_per_leaf);
    it.oversubscription = fields.real("oversubscription").value_or(it.oversubscription);
    fabric = it;
  } else if (kind == "fat_tree") {
    FatTree it{links};
    it.k = fields.count("k").value_or(it.k);
    fabric = it;
  } else if (kind == "dragonfly") {
    Dragonfly it{links};
    it.routers_per_group = fields.count("routers_per_group").value_or(it.routers_per_group);
    it.nics_per_router = fields.count("nics_per_router").value_or(it.nics_per_router);
    it.links_per_pair = fields.count("links_per_pair").value_or(it.links_per_pair);
    fabric = it;
  } else if (kind == "torus") {
    Torus it{links};
    it.dimensions = fields.numbers("dimensions");
    fabric = it;
  } else {
    fabric = OneSwitch{links};
  }
  return fabric;
}

RoutingOptions read_routing(Fields& fields, std::string_view mode_key) {
  RoutingOptions options;
  const std::string mode = fields.word(mode_key, {"ecmp", "adaptive", "spray"}).value_or("ecmp");
  options.routing = mode == "spray"      ? Routing::spray
                    : mode == "adaptive" ? Routing::adaptive
                                         : Routing::ecmp;
  options.seed = static_cast<std::uint64_t>(fields.number("seed", 0).value_or(0));
  return options;
}

/// A virtual instant, written as the duration since the start.
std::optional<Time> read_time(Fields& fields, std::string_view key) {
  const auto since = fields.quantity(key, parse_duration, "\"10ms\"");
  return since ? std::optional{Time{*since}} : std::nullopt;
}

Failure read_failure(const toml::table& table, std::string_view source, const Topology& topology) {
  Fields fields{table, "failures", source};
  Failure failure;
  const auto at = read_time(fields, "at");
  if (!at) fields.fail("at: expected the instant of the failure, such as \"10ms\"");
  failure.at = *at;
  failure.until = read_time(fields, "until").value_or(never);
  if (failure.until <= failure.at) fields.fail("until: expected an instant after at");
  failure.speed = fields.real("speed").value_or(0);
  if (!(failure.speed >= 0 && failure.speed <= 1)) fields.fail("speed: expected 0 to 1");
  const auto node_called = [&](std::string_view key, const std::string& name) {
    const auto node = topology.find_node(name);
    if (!node)
      fields.fail(std::string{key} + ": there is no node \"" + name +
                  "\"; `phantora topology --format json` lists them");
    return *node;
  };
  const auto node = fields.word("node"), link = fields.word("link");
  const auto between = fields.words("between");
  if ((node ? 1 : 0) + (link ? 1 : 0) + (between.empty() ? 0 : 1) != 1)
    fields.fail("expected one of node, link and between");
  if (node) failure.links = topology.links_of(node_called("node", *node));
  if (link) {
    const auto found = topology.find_link(*link);
    if (!found)
      fields.fail("link: there is no link \"" + *link +
                  "\"; `phantora topology --format json` lists them");
    failure.links = {*found};
  }
  if (!between.empty()) {
    if (between.size() != 2) fields.fail("between: expected the names of two nodes");
    failure.links = topology.links_between(node_called("between", between[0]),
                                           node_called("between", between[1]));
  }
  if (failure.links.empty()) fields.fail("no link there to fail");
  fields.expect_no_others();
  return failure;
}

/// A table of that name; an empty one if there is none.
const toml::table& table_of(const toml::table& root, std::string_view key,
                            std::string_view source) {
  static const toml::table empty;
  const toml::node* node = root.get(key);
  if (!node) return empty;
  if (const toml::table* table = node->as_table()) return *table;
  throw ConfigError{std::string{source} + ":" + std::to_string(node->source().begin.line) + ": " +
                    std::string{key} + ": expected a table [" + std::string{key} + "]"};
}

toml::table parse_toml(std::string_view text, std::string_view source) {
  try {
    return toml::parse(text, source);
  } catch (const toml::parse_error& error) {
    throw ConfigError{std::string{source} + ":" + std::to_string(error.source().begin.line) + ": " +
                      std::string{error.description()}};
  }
}

Cluster parse_preset(std::string_view spec) {
  const auto fail = [&](const std::string& why) {
    return ConfigError{"cluster \"" + std::string{spec} + "\": " + why +
                       "; expected PRESET:HOSTSxGPUS such as h200:2x8, with PRESET one of " +
                       join(known_models()) +
                       ", perhaps +PRESET:HOSTSxGPUS, perhaps /FABRIC[,option=value...] with "
                       "FABRIC one of " +
                       join(fabric_kinds) + "; or the path of a .toml file"};
  };
  const std::size_t slash = std::min(spec.find('/'), spec.size());
  const std::string_view boxes = spec.substr(0, slash);
  const auto number = [&](std::string_view text, const std::string& what, int most) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < 1 || value > most)
      throw fail(what + " \"" + std::string{text} + "\" is not a number from 1 to " +
                 std::to_string(most));
    return value;
  };
  std::vector<HostGroup> groups;
  const auto models = known_models();
  for (std::size_t at = 0; at <= boxes.size();) {
    const std::size_t plus = std::min(boxes.find('+', at), boxes.size());
    const std::string_view box = boxes.substr(at, plus - at);
    const std::size_t colon = box.find(':'), x = box.find('x', colon == box.npos ? 0 : colon);
    if (colon == box.npos) throw fail("no colon after the preset");
    if (x == box.npos) throw fail("no x between hosts and GPUs");
    HostGroup group{.gpu_model = std::string{box.substr(0, colon)}};
    if (std::find(models.begin(), models.end(), group.gpu_model) == models.end())
      throw fail("unknown preset \"" + group.gpu_model + "\"");
    group.hosts = number(box.substr(colon + 1, x - colon - 1), "the number of hosts", 65536);
    group.gpus_per_host = number(box.substr(x + 1), "the number of GPUs per host", 8);
    groups.push_back(std::move(group));
    at = plus + 1;
  }

  // The options read as the lines of a [fabric] table.
  toml::table fabric;
  if (slash < spec.size()) {
    std::string_view rest = spec.substr(slash + 1);
    const std::size_t comma = std::min(rest.find(','), rest.size());
    fabric.insert("kind", std::string{rest.substr(0, comma)});
    std::string lines;
    for (rest.remove_prefix(comma); rest.starts_with(',');) {
      rest.remove_prefix(1);
      const std::size_t end = std::min(rest.find(','), rest.size());
      const std::string_view option = rest.substr(0, end);
      const std::size_t equals = option.find('=');
      if (equals == option.npos) throw fail("no = in the option \"" + std::string{option} + "\"");
      std::string key{option.substr(0, equals)}, value{option.substr(equals + 1)};
      double real = 0;
      std::int64_t whole = 0;
      const char *begin = value.data(), *stop = begin + value.size();
      if (key == "dimensions") {  // 4x4x2
        toml::array lengths;
        for (std::size_t at = 0; at <= value.size();) {
          const std::size_t next = std::min(value.find('x', at), value.size());
          lengths.push_back(
              number(std::string_view{value}.substr(at, next - at), "a dimension", 1'000'000));
          at = next + 1;
        }
        fabric.insert(key, std::move(lengths));
      } else if (std::from_chars(begin, stop, whole).ptr == stop) {
        fabric.insert(key, whole);
      } else if (std::from_chars(begin, stop, real).ptr == stop) {
        fabric.insert(key, real);
      } else {
        fabric.insert(key, value);
      }
      rest.remove_prefix(end);
    }
  }
  Fields fields{fabric, "fabric", spec};
  const Fabric kind = read_fabric(fields);
  const RoutingOptions routing = read_routing(fields, "routing");
  fields.expect_no_others();
  try {
    return make_cluster(groups, kind, routing);
  } catch (const ConfigError& error) {
    fields.fail(error.what());
  }
}

struct BandwidthChange {
  Time at;
  LinkId link;
  Bandwidth bandwidth;
};

/// What failures and repairs do, in order of time: of changes at one instant the last counts.
std::vector<BandwidthChange> bandwidth_changes(const Cluster& cluster) {
  std::vector<BandwidthChange> changes;
  for (const Failure& failure : cluster.failures) {
    for (const LinkId link : failure.links) {
      const Bandwidth whole = cluster.topology.bandwidth(link);
      changes.push_back({failure.at, link, whole * failure.speed});
      if (failure.until != never) changes.push_back({failure.until, link, whole});
    }
  }
  std::stable_sort(changes.begin(), changes.end(),
                   [](const auto& a, const auto& b) { return a.at < b.at; });
  return changes;
}

}  // namespace

const Host& Cluster::host_of(NodeId gpu) const {
  const auto has = [&](const Host& host) {
    return std::find(host.gpus.begin(), host.gpus.end(), gpu) != host.gpus.end();
  };
  // Generators number the GPUs host by host.
  const auto after = std::upper_bound(
      hosts.begin(), hosts.end(), gpu,
      [](NodeId g, const Host& host) { return host.gpus.empty() || g < host.gpus.front(); });
  if (after != hosts.begin() && has(*std::prev(after))) return *std::prev(after);
  const auto found = std::find_if(hosts.begin(), hosts.end(), has);
  PHANTORA_EXPECTS(found != hosts.end(), "a GPU of this cluster");
  return *found;
}

void schedule_failures(const Cluster& cluster, FlowNetwork& network) {
  for (const auto& [at, link, bandwidth] : bandwidth_changes(cluster))
    network.set_capacity(link, at, bandwidth);
}

std::vector<Bandwidth> bandwidths_at(const Cluster& cluster, Time at) {
  std::vector<Bandwidth> bandwidths;
  for (std::uint32_t l = 0; l < cluster.topology.link_count(); ++l)
    bandwidths.push_back(cluster.topology.bandwidth(LinkId{l}));
  for (const BandwidthChange& change : bandwidth_changes(cluster))
    if (change.at <= at) bandwidths[change.link.value] = change.bandwidth;
  return bandwidths;
}

Cluster parse_cluster_toml(std::string_view text, std::string_view source) {
  const toml::table root = parse_toml(text, source);
  for (const auto& [key, node] : root)
    if (key != "name" && key != "hosts" && key != "fabric" && key != "routing" &&
        key != "failures" && key != "gpu")
      throw ConfigError{std::string{source} + ":" + std::to_string(key.source().begin.line) +
                        ": unknown \"" + std::string{key.str()} +
                        "\"; expected name, [[hosts]], [fabric], [routing], [[failures]], [gpu] "
                        "or [gpu.NAME]"};
  const auto tables = [&](const char* key) {
    const toml::node* node = root.get(key);
    const toml::array* array = node ? node->as_array() : nullptr;
    if (!array || array->empty() || !array->is_homogeneous(toml::node_type::table))
      throw ConfigError{std::string{source} +
                        (node ? ":" + std::to_string(node->source().begin.line) : "") + ": " + key +
                        ": expected one or more tables [[" + key + "]]"};
    return array;
  };
  const OwnGpus own = read_gpus(table_of(root, "gpu", source), source);
  std::vector<HostGroup> groups;
  for (const toml::node& table : *tables("hosts"))
    groups.push_back(read_hosts(*table.as_table(), own, source));
  Fields fields{table_of(root, "fabric", source), "fabric", source};
  const Fabric fabric = read_fabric(fields);
  fields.expect_no_others();
  Fields routing_fields{table_of(root, "routing", source), "routing", source};
  const RoutingOptions routing = read_routing(routing_fields, "mode");
  routing_fields.expect_no_others();
  Cluster cluster = [&] {
    try {
      return make_cluster(groups, fabric, routing);
    } catch (const TopologyError& error) {
      fields.fail(error.what());
    } catch (const ConfigError& error) {
      fields.fail(error.what());
    }
  }();
  cluster.name = Fields{root, "cluster", source}.word("name").value_or(std::string{source});
  if (root.contains("failures"))
    for (const toml::node& table : *tables("failures"))
      cluster.failures.push_back(read_failure(*table.as_table(), source, cluster.topology));
  return cluster;
}

Cluster parse_cluster(std::string_view spec) {
  if (spec.ends_with(".toml")) {
    std::ifstream file{std::string{spec}};
    if (!file) throw ConfigError{"cluster file \"" + std::string{spec} + "\" cannot be read"};
    const std::string text{std::istreambuf_iterator<char>{file}, {}};
    return parse_cluster_toml(text, spec);
  }
  Cluster cluster = parse_preset(spec);
  cluster.name = spec;
  return cluster;
}

}  // namespace phantora
