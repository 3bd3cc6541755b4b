#include "json/simulate.hpp"
#include "values.hpp"

#include <phantora/cluster/cluster.hpp>
#include <phantora/cluster/topology_analysis.hpp>
#include <phantora/cluster/topology_render.hpp>
#include <phantora/error.hpp>
#include <phantora/kernels/gpu_model.hpp>

namespace phantora::python {
namespace {

NodeId gpu(const Cluster& cluster, std::uint32_t index) {
  PHANTORA_EXPECTS(index < cluster.gpus.size(),
                   cluster.name + " has no GPU " + std::to_string(index));
  return cluster.gpus[index];
}
const Host& host(const Cluster& cluster, std::uint32_t index) {
  PHANTORA_EXPECTS(index < cluster.hosts.size(),
                   cluster.name + " has no host " + std::to_string(index));
  return cluster.hosts[index];
}

nb::dict links(const Cluster& cluster) {
  const Topology& topology = cluster.topology;
  nb::list names, sources, targets;
  std::vector<double> bandwidths, latencies;
  for (std::uint32_t i = 0; i < topology.link_count(); ++i) {
    const LinkId link{i};
    names.append(topology.name(link));
    sources.append(topology.name(topology.source(link)));
    targets.append(topology.name(topology.target(link)));
    bandwidths.push_back(topology.bandwidth(link).bytes_per_second());
    latencies.push_back(to_python(topology.latency(link)));
  }
  nb::dict table;
  table["name"] = names;
  table["source"] = sources;
  table["target"] = targets;
  table["bandwidth"] = array(std::move(bandwidths));
  table["latency"] = array(std::move(latencies));
  return table;
}

void define_gpu_model(nb::module_& m) {
  const auto rate = [](FlopRate GpuModel::*of) {
    return [of](const GpuModel& model) { return (model.*of).per_second(); };
  };
  nb::class_<GpuModel>(m, "GpuModel", "What data sheet and driver say of a GPU. Dense peaks.")
      .def_ro("key", &GpuModel::key, "As in \"h200:2x8\".")
      .def_ro("name", &GpuModel::name)
      .def_ro("sm_count", &GpuModel::sm_count)
      .def_prop_ro(
          "memory", [](const GpuModel& model) { return to_python(model.memory); }, "Bytes.")
      .def_prop_ro(
          "memory_bandwidth",
          [](const GpuModel& model) { return model.memory_bandwidth.bytes_per_second(); },
          "Bytes per second.")
      .def_prop_ro(
          "nvlink", [](const GpuModel& model) { return model.nvlink.bytes_per_second(); },
          "Bytes per second of all its links in one direction; 0 where there is none.")
      .def_prop_ro("fp8", rate(&GpuModel::fp8), "FLOP per second; 0 where it lacks them.")
      .def_prop_ro("half", rate(&GpuModel::half), "FLOP per second of bf16 and fp16.")
      .def_prop_ro("tf32", rate(&GpuModel::tf32), "FLOP per second.")
      .def_prop_ro("fp32", rate(&GpuModel::fp32), "FLOP per second, outside tensor cores.")
      .def_prop_ro("fp64", rate(&GpuModel::fp64), "FLOP per second.")
      .def("__repr__", [](const GpuModel& model) { return "<GpuModel " + model.key + ">"; });
  m.def(
      "gpu_model", [](std::string_view key) { return gpu_model(key); }, "key"_a,
      "The GPU of that key. Raises ConfigError, which names the known ones.");
  m.def("gpu_model_keys", &gpu_model_keys, "Every GPU that has a model.");
}

}  // namespace

void define_cluster(nb::module_& m) {
  define_gpu_model(m);
  nb::class_<Cluster>(m, "Cluster", R"(Hosts with GPUs, and the network that joins them.

spec: "PRESET:HOSTSxGPUS" as in "h200:2x8", groups joined by +, perhaps with a fabric as in
"h100:16x8/leaf_spine,oversubscription=2", or the path of a TOML file.
gpu_memory: of every GPU, in place of what the cluster says: bytes, or text as in "80GB".)")
      .def(
          "__init__",
          [](Cluster* place, std::string_view spec, const std::optional<Size>& gpu_memory) {
            std::optional<Bytes> memory;
            if (gpu_memory) memory = to_bytes(*gpu_memory);
            new (place) Cluster{bindings::make_cluster(spec, memory)};
          },
          "spec"_a, nb::kw_only(), "gpu_memory"_a = nb::none())
      .def_static(
          "from_toml",
          [](std::string_view text, std::string_view source) {
            return parse_cluster_toml(text, source);
          },
          "text"_a, "source"_a = "cluster",
          "From TOML text; `source` is what errors call it. README.md has the fields.")
      .def_ro("name", &Cluster::name)
      .def_ro("gpu_model", &Cluster::gpu_model, "Key of the first host's GPUs.")
      .def_prop_ro(
          "gpu_count", [](const Cluster& cluster) { return cluster.gpus.size(); },
          "GPUs of all hosts.")
      .def_prop_ro(
          "hosts",
          [](const Cluster& cluster) {
            std::vector<std::string> names;
            for (const Host& one : cluster.hosts) names.push_back(one.name);
            return names;
          },
          "Their names.")
      .def(
          "links", &links, nb::sig("def links(self) -> dict[str, typing.Any]"),
          R"(All links, which are directed, as columns of equal length: lists of str "name", "source",
"target"; float64 arrays "bandwidth" in bytes per second and "latency" in seconds.)")
      .def(
          "route",
          [](const Cluster& cluster, std::uint32_t source, std::uint32_t target) {
            std::vector<std::string> names;
            for (const LinkId link :
                 cluster.topology.route(gpu(cluster, source), gpu(cluster, target)))
              names.push_back(cluster.topology.name(link));
            return names;
          },
          "source"_a, "target"_a, "Names of the links of one shortest route between two GPUs.")
      .def(
          "bisection",
          [](const Cluster& cluster) { return bisection(cluster).bandwidth.bytes_per_second(); },
          "Bytes per second between the first half of the hosts and the others, one direction.")
      .def(
          "narrowest_cut",
          [](const Cluster& cluster, std::uint32_t from_host, std::uint32_t to_host) {
            return narrowest_cut(cluster, host(cluster, from_host), host(cluster, to_host))
                .bandwidth.bytes_per_second();
          },
          "from_host"_a, "to_host"_a, "Bytes per second that one host can send another at most.")
      .def("to_svg", &render_svg, "A picture.")
      .def("to_dot", &render_dot, "For Graphviz.")
      .def("to_json", &render_json, "Hosts, nodes and links.")
      .def("__repr__", [](const Cluster& cluster) {
        return "<Cluster " + cluster.name + ": " + std::to_string(cluster.gpus.size()) + " GPUs>";
      });
}

}  // namespace phantora::python
