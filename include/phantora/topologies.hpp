#pragma once

#include <phantora/cluster.hpp>
#include <phantora/topology.hpp>

#include <string>

/// Generators of well-known clusters.
namespace phantora::topologies {

/// GPUs on one switch, one duplex link each:
///
///     gpu0   gpu1   ...   gpuN-1
///        \     |           /
///         +--switch-------+
struct SingleSwitch {
  int gpus = 2;
  LinkSpec link{};
};
Cluster single_switch(const SingleSwitch& spec);

/// HGX or PCIe hosts whose NIC r all meet at leaf switch r, joined by spines at full bisection:
///
///     spine0            spine1           each leaf to every spine
///       |     `--. .--'    |
///     leaf0 (rail 0)     leaf1 (rail 1)   ...
///       |     |            |     |
///     nic0  nic0         nic1  nic1
///     host0 host1        host0 host1
struct RailOptimized {
  std::string gpu_model = "h200";
  int hosts = 1;
  int gpus_per_host = 8;
};
Cluster rail_optimized(const RailOptimized& spec);

}  // namespace phantora::topologies
