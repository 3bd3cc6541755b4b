#include "gpu_interconnect.hpp"

#include <phantora/cluster.hpp>
#include <phantora/error.hpp>
#include <phantora/topologies.hpp>

#include <algorithm>
#include <charconv>
#include <string>

namespace phantora {

const Host& Cluster::host_of(NodeId gpu) const {
  for (const Host& host : hosts)
    if (std::find(host.gpus.begin(), host.gpus.end(), gpu) != host.gpus.end()) return host;
  PHANTORA_EXPECTS(false, "a GPU of this cluster");
  return hosts.front();
}

Cluster parse_cluster(std::string_view spec) {
  const auto fail = [&](const std::string& why) -> ConfigError {
    std::string known;
    for (const GpuInterconnect& it : gpu_interconnects())
      known += (known.empty() ? "" : ", ") + std::string{it.model};
    return ConfigError{"cluster \"" + std::string{spec} + "\": " + why +
                       "; expected PRESET:HOSTSxGPUS such as h200:2x8, with PRESET one of " +
                       known};
  };
  const std::size_t colon = spec.find(':'), x = spec.find('x', colon);
  if (colon == spec.npos) throw fail("no colon after the preset");
  if (x == spec.npos) throw fail("no x between hosts and GPUs");
  const auto number = [&](std::string_view text, const char* what) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < 1)
      throw fail(std::string{what} + " \"" + std::string{text} + "\" is not a positive number");
    return value;
  };
  const std::string_view preset = spec.substr(0, colon);
  const auto& all = gpu_interconnects();
  if (std::none_of(all.begin(), all.end(), [&](const auto& it) { return it.model == preset; }))
    throw fail("unknown preset \"" + std::string{preset} + "\"");
  const int hosts = number(spec.substr(colon + 1, x - colon - 1), "number of hosts");
  const int gpus = number(spec.substr(x + 1), "number of GPUs per host");
  if (gpus > 8) throw fail("a host has at most 8 GPUs");
  if (hosts > 65536) throw fail("a cluster has at most 65536 hosts");
  Cluster cluster = topologies::rail_optimized(
      {.gpu_model = std::string{preset}, .hosts = hosts, .gpus_per_host = gpus});
  cluster.name = spec;
  return cluster;
}

}  // namespace phantora
