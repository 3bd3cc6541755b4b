#pragma once

#include <phantora/ids.hpp>
#include <phantora/topology.hpp>
#include <phantora/units.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace phantora {

/// One machine of a cluster.
struct Host {
  std::string name{};
  std::string gpu_model{};
  std::vector<NodeId> gpus{};
  NodeId memory{};
  /// The NVSwitches as one node; nothing on PCIe hosts.
  std::optional<NodeId> nvswitch{};
  /// nics[i] is the one nearest to gpus[i]; several GPUs may share one.
  std::vector<NodeId> nics{};
};

/// A set of hosts with GPUs, and the network that joins them.
struct Cluster {
  std::string name{};
  /// "h200", "h100", "a100", "b200" or "l40s"; that of the first host if they differ.
  std::string gpu_model{};
  Topology topology;
  std::vector<Host> hosts{};
  /// All GPUs in rank order: host by host.
  std::vector<NodeId> gpus{};
  /// Device memory per GPU, where the cluster's description overrides that of the model.
  std::optional<Bytes> gpu_memory{};
  RoutingOptions routing{};

  /// The host of a GPU. @throws std::logic_error if the node is none of our GPUs.
  [[nodiscard]] const Host& host_of(NodeId gpu) const;
};

/// Makes a cluster from "PRESET:HOSTSxGPUS", as in "h200:2x8".
/// @throws ConfigError naming what was expected, and the known presets.
Cluster parse_cluster(std::string_view spec);

}  // namespace phantora
