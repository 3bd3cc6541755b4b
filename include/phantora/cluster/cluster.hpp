#pragma once

#include <phantora/cluster/topology.hpp>
#include <phantora/ids.hpp>
#include <phantora/kernels/gpu_model.hpp>
#include <phantora/network/flow_network.hpp>
#include <phantora/units.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace phantora {

/// One machine of a cluster. Its GPUs are alike.
struct Host {
  std::string name{};  ///< unique in its cluster
  /// "h200", "h100", "a100", "b200" or "l40s", or the key of `own_gpu`.
  std::string gpu_model{};
  /// A GPU that the cluster's description defines.
  std::optional<GpuModel> own_gpu{};
  /// Device memory of each GPU, where the cluster's description overrides that of the model.
  std::optional<Bytes> gpu_memory{};
  std::vector<NodeId> gpus{};  ///< in the order of their ranks
  NodeId memory{};             ///< where copies from and to the host end
  /// The NVSwitches as one node; nothing on PCIe hosts and meshes.
  std::optional<NodeId> nvswitch{};
  bool nvlink_mesh = false;  ///< NVLinks join its GPUs in pairs
  /// nics[i] is the one nearest to gpus[i]; several GPUs may share one.
  std::vector<NodeId> nics{};
};

/// Links that lose bandwidth for a time: a cable or a switch that fails or degrades.
struct Failure {
  Time at{};                    ///< when it begins
  Time until = never;           ///< when it is repaired
  std::vector<LinkId> links{};  ///< those that it concerns, of one direction each
  double speed = 0;             ///< what is left of their bandwidth, in [0, 1]; 0: they are down
};

/// A set of hosts with GPUs, and the network that joins them.
struct Cluster {
  std::string name{};  ///< the text that it was made of, or what its TOML file calls it
  /// That of the first host, which all have unless the cluster is mixed.
  std::string gpu_model{};
  Topology topology;          ///< hosts and fabric as one graph
  std::vector<Host> hosts{};  ///< in rank order
  /// All GPUs in rank order: host by host.
  std::vector<NodeId> gpus{};
  RoutingOptions routing{};         ///< how flows choose among equal routes
  std::vector<Failure> failures{};  ///< links that are down or slow for a time

  /// The host of a GPU. @throws ArgumentError if the node is none of our GPUs.
  [[nodiscard]] const Host& host_of(NodeId gpu) const;
};

/// Tells a network on the cluster's topology of its failures. Where links have several at a time,
/// the one that began or ended last decides.
/// @throws CommitError if one lies before the network's last commit().
void schedule_failures(const Cluster& cluster, FlowNetwork& network);

/// The bandwidth of each link, by LinkId, that failures leave at an instant.
std::vector<Bandwidth> bandwidths_at(const Cluster& cluster, Time at);

/// Makes a cluster from "PRESET:HOSTSxGPUS", as in "h200:2x8": hosts on a rail-optimised fabric.
///
/// Groups of hosts that differ are joined by +, as in "h200:2x8+l40s:3x4". Another fabric and its
/// options may follow, as in "h100:16x8/leaf_spine,oversubscription=2,routing=spray": kinds and
/// options are those of the [fabric] table of parse_cluster_toml(), and `routing` and `seed` of its
/// [routing] table. A spec that ends in ".toml" is the path of such a file.
/// @throws ConfigError naming what was expected, and the known presets.
Cluster parse_cluster(std::string_view spec);

/// Makes a cluster from TOML text:
///
///     name = "two racks"
///     [[hosts]]                     # one table per group of alike hosts
///     gpu = "h200"                  # h200, h100, a100, b200, l40s, or one defined below
///     count = 4                     # hosts; default 1
///     gpus = 8                      # per host; default 8
///     memory = "141GB"              # of a GPU of this group; these and the rest: default the
///                                   # model's own
///     nvlink = "450GB/s"            # of a GPU, per direction; "0GB/s" for none
///     nvlink_latency = "468ns"
///     nvlink_mesh = true            # GPUs joined in pairs, no NVSwitch; default false
///     pcie = "57.6GB/s"
///     nic = "400Gbps"
///     gpus_per_nic = 1
///     [fabric]
///     kind = "rail_optimized"       # or leaf_spine, fat_tree, dragonfly, torus, single_switch
///     link = "400Gbps"
///     latency = "180ns"
///     oversubscription = 2          # rail_optimized, leaf_spine
///     hosts_per_pod = 32            # rail_optimized
///     hosts_per_leaf = 4            # leaf_spine
///     k = 8                         # fat_tree
///     routers_per_group = 4         # dragonfly; and nics_per_router, links_per_pair
///     dimensions = [4, 4]           # torus
///     [routing]
///     mode = "ecmp"                 # or adaptive, spray
///     seed = 1
///     [[failures]]                  # any number
///     at = "10ms"
///     until = "20ms"                # default: never repaired
///     node = "spine0"               # all its links; or link = "leaf0->spine0", one direction; or
///                                   # between = ["leaf0", "spine0"], both
///     speed = 0.5                   # what is left of the bandwidth; default 0: down
///     [gpu.mine]                    # a GPU by its data sheet: dense rates, links per
///     like = "h200"                 # direction; whose figures hold for what is not told;
///     name = "NVIDIA H20"           # without it sms, clock, memory, memory_bandwidth, l2,
///     capability = "9.0"            # capability, half and fp32 must be told, fp8, tf32 and fp64
///     sms = 78                      # are lacking, and there is no NVLink
///     clock = "1.98GHz"
///     memory = "96GB"
///     memory_bandwidth = "4TB/s"
///     l2 = "60MiB"
///     nvlink = "450GB/s"
///     pcie = "64GB/s"               # raw
///     fp8 = "296TFLOPS"             # and half, tf32, fp32, fp64
///     power_limit = "500W"          # like h100 or h200, of which it is known what they draw;
///                                   # without it the clock never falls
///
/// A table [gpu] without a name is that of the hosts that name none.
///
/// @param source  what errors call the text, such as its path.
/// @throws ConfigError naming the source, line, field and what was expected there.
Cluster parse_cluster_toml(std::string_view text, std::string_view source = "cluster");

}  // namespace phantora
