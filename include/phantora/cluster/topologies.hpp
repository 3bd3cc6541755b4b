#pragma once

#include <phantora/cluster/cluster.hpp>
#include <phantora/cluster/topology.hpp>
#include <phantora/units.hpp>

#include <optional>
#include <string>
#include <variant>
#include <vector>

/// Generators of clusters: hosts of a model, and the fabric that joins their NICs.
///
/// A host, with its NVSwitches as one node (none on PCIe cards, whose GPUs meet at the CPU, nor in
/// a mesh, whose GPUs are joined in pairs), and one NIC per GPU or per few:
///
///       gpu0    gpu1   ...          every GPU to the NVSwitch and to its PCIe switch
///        | `----. |
///        |   nvswitch
///      pcie0   pcie1   ...          each with its NIC: nic0, nic1, ...
///        |       |
///      port0   port1
///        `--cpu--'--- memory
namespace phantora::topologies {

/// Alike hosts. What is not given is the model's own.
struct HostGroup {
  std::string gpu_model = "h200";            ///< a key of gpu_model()
  std::optional<GpuModel> own_gpu{};         ///< of that key, if it is none that we know
  int hosts = 1;                             ///< how many
  int gpus_per_host = 8;                     ///< how many each has
  std::optional<Bandwidth> nvlink{};         ///< line rate of all NVLinks of one GPU; 0: none
  std::optional<Duration> nvlink_latency{};  ///< of a link to the NVSwitch, or to a neighbour
  /// GPUs joined to one another in pairs, each with its share of the NVLinks, without an NVSwitch:
  /// HGX boards of four A100 or H100.
  bool nvlink_mesh = false;
  std::optional<Bandwidth> pcie{};    ///< payload rate of a x16 slot
  std::optional<Bandwidth> nic{};     ///< line rate of a NIC
  std::optional<int> gpus_per_nic{};  ///< those that share one
  std::optional<Bytes> gpu_memory{};  ///< of each GPU
};

/// What all fabrics have.
struct FabricLinks {
  std::optional<Bandwidth> link{};    ///< between switches; else the NICs' line rate
  std::optional<Duration> latency{};  ///< of every link outside hosts
};

/// NIC r of every host of a pod meets at leaf switch r; spines join the leaves, cores the blocks of
/// leaves where there are more than 64.
///
///     spine0        spine1     ...     each leaf to each spine
///       | `--. .--'  |
///     leaf0 (rail 0)   leaf1 (rail 1)  ...
///       |    |           |    |
///     nic0  nic0       nic1  nic1
///     host0 host1      host0 host1
struct RailOptimized : FabricLinks {
  int hosts_per_pod = 32;       ///< whose NICs of equal number meet at one leaf
  double oversubscription = 1;  ///< ports down over ports up, at every level
};

/// All NICs of a few hosts meet at one leaf; spines join the leaves.
///
///     spine0   spine1   ...
///       |  `-.-'  |
///     leaf0     leaf1   ...
///     / | \     / | \   .
///     host0..3  host4..7
struct LeafSpine : FabricLinks {
  int hosts_per_leaf = 4;       ///< whose NICs all meet at one leaf
  double oversubscription = 1;  ///< of each leaf: ports down over ports up
};

/// Three levels of k-port switches: k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 cores.
///
///     core0  core1  core2  core3        k = 4
///      agg0   agg1 | agg2   agg3        each pod: every edge to every aggregation switch
///      edge0 edge1 | edge2 edge3        k/2 NICs per edge switch
struct FatTree : FabricLinks {
  int k = 0;  ///< even; 0: the least that holds all NICs
};

/// Groups of routers, all joined inside a group, and every two groups joined.
///
///     group0: r0--r1--r2 (all pairs)     group1: ...
///              |   |   `--------- global links, spread over the routers
///           NICs  NICs
struct Dragonfly : FabricLinks {
  int routers_per_group = 4;  ///< all joined to each other
  int nics_per_router = 8;    ///< ports for hosts
  int links_per_pair = 1;     ///< global links between two groups
};

/// Switches in a grid whose every line closes to a circle; hosts spread evenly over them.
///
///     s00--s01--s02--(s00)
///      |    |    |
///     s10--s11--s12--(s10)
///      |    |    |
///    (s00)(s01)(s02)
struct Torus : FabricLinks {
  std::vector<int> dimensions{};  ///< each at least 1
};

/// All NICs meet at one switch that never is a bottleneck.
///
///     nic0   nic1   ...
///       `-switch-'
struct OneSwitch : FabricLinks {};

/// What joins the NICs of a cluster's hosts.
using Fabric = std::variant<RailOptimized, LeafSpine, FatTree, Dragonfly, Torus, OneSwitch>;

/// Builds hosts in the order of their groups, named host0, host1, ..., and the fabric.
/// @throws ConfigError for an unknown GPU model, numbers that make no cluster, or more than 2^22
/// nodes or links.
Cluster make_cluster(const std::vector<HostGroup>& groups, const Fabric& fabric = RailOptimized{},
                     const RoutingOptions& routing = {});

/// GPUs on one switch, one duplex link each, and no hosts: for network experiments.
///
///     gpu0   gpu1   ...   gpuN-1
///       `------|------------'
///            switch
struct SingleSwitch {
  int gpus = 2;     ///< each with a link of its own
  LinkSpec link{};  ///< of each GPU, in either direction
};
/// @throws ConfigError for a number of GPUs or a link that cannot be.
Cluster single_switch(const SingleSwitch& spec);

}  // namespace phantora::topologies
