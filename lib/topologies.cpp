#include "gpu_interconnect.hpp"

#include <phantora/error.hpp>
#include <phantora/topologies.hpp>

#include <algorithm>
#include <string>

namespace phantora::topologies {
namespace {

using namespace std::chrono_literals;

// GPU to NVSwitch to GPU: 936.25 ns in ASTRA-sim's H100 preset, half of it per link.
constexpr Duration nvlink_latency{468'125};
// A PCIe switch forwards in 100-150 ns (Broadcom PEX890xx product brief: 115 ns).
constexpr Duration pcie_latency = 115ns;
// Port to port of a Quantum-2 switch (product brief: below 130 ns), and 10 m of fibre at 5 ns/m.
constexpr Duration fabric_latency = 180ns;

Host add_host(TopologyBuilder& builder, const std::string& name, const GpuInterconnect& model,
              int gpus) {
  Host host{.name = name, .gpu_model = std::string{model.model}};
  const NodeId bridge = builder.add_node(NodeKind::host_bridge, name + "/bridge");
  host.memory = builder.add_node(NodeKind::memory, name + "/memory");
  builder.add_duplex_link(bridge, host.memory, {model.host_memory, pcie_latency});
  if (model.nvlinks > 0) host.nvswitch = builder.add_node(NodeKind::nvswitch, name + "/nvswitch");
  for (int g = 0; g < gpus; ++g) {
    const std::string index = std::to_string(g);
    const NodeId gpu = builder.add_gpu(name + "/gpu" + index);
    const NodeId pcie = builder.add_node(NodeKind::pcie_switch, name + "/pcie" + index);
    host.gpus.push_back(gpu);
    if (host.nvswitch)
      builder.add_duplex_link(gpu, *host.nvswitch, {model.nvlink * model.nvlinks, nvlink_latency});
    builder.add_duplex_link(gpu, pcie, {model.pcie, pcie_latency});
    builder.add_duplex_link(pcie, bridge, {model.pcie, pcie_latency});
    if (g % model.gpus_per_nic == 0) {
      const NodeId nic =
          builder.add_node(NodeKind::nic, name + "/nic" + std::to_string(g / model.gpus_per_nic));
      builder.add_duplex_link(pcie, nic, {model.pcie, pcie_latency});
      host.nics.push_back(nic);
    } else {
      host.nics.push_back(host.nics.back());
    }
  }
  return host;
}

}  // namespace

Cluster single_switch(const SingleSwitch& spec) {
  PHANTORA_EXPECTS(spec.gpus >= 1, "at least one GPU");
  TopologyBuilder builder;
  const NodeId hub = builder.add_switch("switch");
  std::vector<Host> hosts;
  std::vector<NodeId> gpus;
  for (int g = 0; g < spec.gpus; ++g) {
    gpus.push_back(builder.add_gpu("gpu" + std::to_string(g)));
    builder.add_duplex_link(gpus.back(), hub, spec.link);
  }
  return {.name = "single_switch", .topology = std::move(builder).build(), .gpus = std::move(gpus)};
}

Cluster rail_optimized(const RailOptimized& spec) {
  const GpuInterconnect& model = gpu_interconnect(spec.gpu_model);
  TopologyBuilder builder;
  std::vector<Host> hosts;
  std::vector<NodeId> gpus;
  for (int h = 0; h < spec.hosts; ++h) {
    hosts.push_back(add_host(builder, "host" + std::to_string(h), model, spec.gpus_per_host));
    gpus.insert(gpus.end(), hosts.back().gpus.begin(), hosts.back().gpus.end());
  }
  if (spec.hosts > 1) {
    const int rails = (spec.gpus_per_host + model.gpus_per_nic - 1) / model.gpus_per_nic;
    std::vector<NodeId> leaves;
    for (int r = 0; r < rails; ++r) {
      leaves.push_back(builder.add_switch("leaf" + std::to_string(r)));
      for (const Host& host : hosts)
        builder.add_duplex_link(host.nics[static_cast<std::size_t>(r * model.gpus_per_nic)],
                                leaves.back(), {model.nic, fabric_latency});
    }
    if (rails > 1) {
      for (int s = 0; s < spec.hosts; ++s) {
        const NodeId spine = builder.add_switch("spine" + std::to_string(s));
        for (const NodeId leaf : leaves)
          builder.add_duplex_link(leaf, spine, {model.nic, fabric_latency});
      }
    }
  }
  return {.name = "rail_optimized",
          .gpu_model = spec.gpu_model,
          .topology = std::move(builder).build(),
          .hosts = std::move(hosts),
          .gpus = std::move(gpus)};
}

}  // namespace phantora::topologies
