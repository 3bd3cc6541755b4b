#include "cluster/gpu_interconnect.hpp"

#include <phantora/cluster/topologies.hpp>
#include <phantora/error.hpp>

#include <algorithm>
#include <cmath>
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
// Ports of the switches that rail-optimised and leaf-spine fabrics are made of (Quantum-2, 400G).
constexpr std::size_t switch_ports = 64;

std::string numbered(const char* what, std::size_t n) { return what + std::to_string(n); }

void require(bool condition, const std::string& message) {
  if (!condition) throw ConfigError{message};
}

// A mistyped number must not fill the machine's memory: 0.8 GB, over 200,000 GPUs in HGX hosts.
constexpr std::size_t most_links = std::size_t{1} << 22;
void require_room(const TopologyBuilder& builder) {
  require(builder.link_count() < most_links && builder.node_count() < most_links,
          "a cluster has at most " + std::to_string(most_links) + " nodes and links");
}

GpuInterconnect interconnect_of(const HostGroup& group) {
  return group.own_gpu ? gpu_interconnect(*group.own_gpu) : gpu_interconnect(group.gpu_model);
}

Host add_host(TopologyBuilder& builder, const std::string& name, const HostGroup& group) {
  const GpuInterconnect model = interconnect_of(group);
  const Bandwidth pcie = group.pcie.value_or(model.pcie);
  const Bandwidth nvlink = group.nvlink.value_or(model.nvlink * model.nvlinks);
  const int gpus_per_nic = group.gpus_per_nic.value_or(model.gpus_per_nic);
  require(gpus_per_nic >= 1, "gpus_per_nic: expected at least 1");
  Host host{.name = name,
            .gpu_model = group.gpu_model,
            .own_gpu = group.own_gpu,
            .gpu_memory = group.gpu_memory};
  const NodeId cpu = builder.add_node(NodeKind::host_bridge, name + "/cpu");
  host.memory = builder.add_node(NodeKind::memory, name + "/memory");
  builder.add_duplex_link(cpu, host.memory, {model.host_memory, pcie_latency});
  host.nvlink_mesh = group.nvlink_mesh && nvlink > Bandwidth{0.0} && group.gpus_per_host > 1;
  if (nvlink > Bandwidth{0.0} && !host.nvlink_mesh)
    host.nvswitch = builder.add_node(NodeKind::nvswitch, name + "/nvswitch");
  NodeId slot{};
  for (int g = 0; g < group.gpus_per_host; ++g) {
    const std::string index = std::to_string(g / gpus_per_nic);
    const NodeId gpu = builder.add_gpu(name + "/gpu" + std::to_string(g));
    const Duration latency = group.nvlink_latency.value_or(nvlink_latency);
    if (host.nvswitch) builder.add_duplex_link(gpu, *host.nvswitch, {nvlink, latency});
    if (host.nvlink_mesh)
      for (const NodeId other : host.gpus)
        builder.add_duplex_link(other, gpu,
                                {nvlink / static_cast<double>(group.gpus_per_host - 1), latency});
    host.gpus.push_back(gpu);
    if (g % gpus_per_nic == 0) {
      // The port keeps traffic to a NIC under another port longer than a detour over the fabric.
      slot = builder.add_node(NodeKind::pcie_switch, name + "/pcie" + index);
      const NodeId port = builder.add_node(NodeKind::host_bridge, name + "/port" + index);
      builder.add_duplex_link(slot, port, {pcie, pcie_latency});
      builder.add_duplex_link(port, cpu, {pcie, pcie_latency});
      host.nics.push_back(builder.add_node(NodeKind::nic, name + "/nic" + index));
      builder.add_duplex_link(slot, host.nics.back(), {pcie, pcie_latency});
    } else {
      host.nics.push_back(host.nics.back());
    }
    builder.add_duplex_link(gpu, slot, {pcie, pcie_latency});
  }
  return host;
}

/// A NIC to be attached: of which host, and which of its NICs.
struct Port {
  std::size_t host;
  std::size_t rail;
  NodeId nic;
  Bandwidth speed;
};

/// What a fabric is laid over.
struct Site {
  TopologyBuilder& builder;
  std::vector<Port> ports;
  std::size_t hosts;
  Duration latency;
  Bandwidth link;  ///< between switches

  [[nodiscard]] NodeId add_switch(const std::string& name) const {
    require_room(builder);
    return builder.add_switch(name);
  }
  void attach(const Port& port, NodeId to) const {
    builder.add_duplex_link(port.nic, to, {port.speed, latency});
  }
  void join(NodeId a, NodeId b) const {
    require_room(builder);
    builder.add_duplex_link(a, b, {link, latency});
  }
};

std::size_t ports_up(std::size_t down, double oversubscription) {
  require(oversubscription >= 1 && std::isfinite(oversubscription),
          "oversubscription: expected a number of at least 1");
  return static_cast<std::size_t>(std::ceil(static_cast<double>(down) / oversubscription));
}

/// Joins leaves by spines, one link from each leaf to each; more leaves than a spine has ports are
/// joined in blocks of half as many, and each plane of spines by cores.
void add_spines(const Site& site, const std::vector<NodeId>& leaves, std::size_t uplinks,
                double oversubscription) {
  if (leaves.size() < 2) return;
  const std::size_t block = leaves.size() <= switch_ports ? leaves.size() : switch_ports / 2;
  std::vector<std::vector<NodeId>> planes(uplinks);
  for (std::size_t first = 0; first < leaves.size(); first += block) {
    for (std::size_t s = 0; s < uplinks; ++s) {
      const NodeId spine = site.add_switch(numbered("spine", first / block * uplinks + s));
      planes[s].push_back(spine);
      for (std::size_t l = first; l < std::min(first + block, leaves.size()); ++l)
        site.join(leaves[l], spine);
    }
  }
  if (planes.empty() || planes.front().size() < 2) return;
  const std::size_t cores = ports_up(block, oversubscription);
  for (std::size_t s = 0; s < planes.size(); ++s) {
    for (std::size_t c = 0; c < cores; ++c) {
      const NodeId core = site.add_switch(numbered("core", s * cores + c));
      for (const NodeId spine : planes[s]) site.join(spine, core);
    }
  }
}

void lay(const Site& site, const RailOptimized& spec) {
  require(spec.hosts_per_pod >= 1, "hosts_per_pod: expected at least 1");
  const auto pod_size = static_cast<std::size_t>(spec.hosts_per_pod);
  std::size_t rails = 0;
  for (const Port& port : site.ports) rails = std::max(rails, port.rail + 1);
  std::vector<NodeId> leaves;
  for (std::size_t pod = 0; pod * pod_size < site.hosts; ++pod)
    for (std::size_t r = 0; r < rails; ++r)
      leaves.push_back(site.add_switch(numbered("leaf", leaves.size())));
  for (const Port& port : site.ports)
    site.attach(port, leaves[port.host / pod_size * rails + port.rail]);
  add_spines(site, leaves, ports_up(std::min(pod_size, site.hosts), spec.oversubscription),
             spec.oversubscription);
}

void lay(const Site& site, const LeafSpine& spec) {
  require(spec.hosts_per_leaf >= 1, "hosts_per_leaf: expected at least 1");
  const auto per_leaf = static_cast<std::size_t>(spec.hosts_per_leaf);
  std::vector<NodeId> leaves;
  std::vector<std::size_t> down;
  for (const Port& port : site.ports) {
    const std::size_t leaf = port.host / per_leaf;
    while (leaves.size() <= leaf) {
      leaves.push_back(site.add_switch(numbered("leaf", leaves.size())));
      down.push_back(0);
    }
    site.attach(port, leaves[leaf]);
    ++down[leaf];
  }
  add_spines(site, leaves,
             ports_up(*std::max_element(down.begin(), down.end()), spec.oversubscription),
             spec.oversubscription);
}

void lay(const Site& site, const FatTree& spec) {
  const std::size_t nics = site.ports.size();
  std::size_t k = static_cast<std::size_t>(std::max(0, spec.k));
  if (spec.k == 0)
    for (k = 2; k * k * k / 4 < nics;) k += 2;
  require(k >= 2 && k % 2 == 0 && k <= 4096, "k: expected an even number from 2 to 4096");
  require(k * k * k / 4 >= nics, "k: a fat tree of " + std::to_string(k) + "-port switches holds " +
                                     std::to_string(k * k * k / 4) + " NICs, and there are " +
                                     std::to_string(nics));
  const std::size_t half = k / 2, per_pod = half * half;
  std::vector<NodeId> cores;
  const std::size_t pods = (nics + per_pod - 1) / per_pod;
  if (pods > 1)
    for (std::size_t c = 0; c < per_pod; ++c) cores.push_back(site.add_switch(numbered("core", c)));
  for (std::size_t pod = 0; pod < pods; ++pod) {
    std::vector<NodeId> aggregation;
    for (std::size_t a = 0; a < half; ++a) {
      aggregation.push_back(site.add_switch(numbered("agg", pod * half + a)));
      for (std::size_t c = 0; c < half && !cores.empty(); ++c)
        site.join(aggregation.back(), cores[a * half + c]);
    }
    for (std::size_t e = 0; e < half; ++e) {
      const std::size_t first = (pod * half + e) * half;
      if (first >= nics) break;
      const NodeId edge = site.add_switch(numbered("edge", pod * half + e));
      for (const NodeId up : aggregation) site.join(edge, up);
      for (std::size_t p = first; p < std::min(first + half, nics); ++p)
        site.attach(site.ports[p], edge);
    }
  }
}

void lay(const Site& site, const Dragonfly& spec) {
  require(spec.routers_per_group >= 1, "routers_per_group: expected at least 1");
  require(spec.nics_per_router >= 1, "nics_per_router: expected at least 1");
  require(spec.links_per_pair >= 1, "links_per_pair: expected at least 1");
  const auto routers = static_cast<std::size_t>(spec.routers_per_group);
  const auto nics = static_cast<std::size_t>(spec.nics_per_router);
  const std::size_t groups = (site.ports.size() + routers * nics - 1) / (routers * nics);
  std::vector<NodeId> all;
  for (std::size_t g = 0; g < groups; ++g) {
    for (std::size_t r = 0; r < routers; ++r) {
      all.push_back(site.add_switch("g" + std::to_string(g) + "r" + std::to_string(r)));
      for (std::size_t other = 0; other < r; ++other)
        site.join(all[g * routers + other], all.back());
    }
  }
  for (std::size_t p = 0; p < site.ports.size(); ++p) site.attach(site.ports[p], all[p / nics]);
  // Global links go round the routers of each group, so that none bears more than its share.
  std::vector<std::size_t> next(groups, 0);
  for (std::size_t a = 0; a < groups; ++a)
    for (std::size_t b = a + 1; b < groups; ++b)
      for (int l = 0; l < spec.links_per_pair; ++l)
        site.join(all[a * routers + next[a]++ % routers], all[b * routers + next[b]++ % routers]);
}

void lay(const Site& site, const Torus& spec) {
  require(!spec.dimensions.empty(), "dimensions: expected the lengths of the torus, as in 4,4");
  std::size_t switches = 1;
  for (const int d : spec.dimensions) {
    require(d >= 1, "dimensions: expected lengths of at least 1");
    switches *= static_cast<std::size_t>(d);
    require(switches < most_links,
            "dimensions: expected fewer than " + std::to_string(most_links) + " switches in all");
  }
  std::vector<NodeId> grid;
  for (std::size_t s = 0; s < switches; ++s) grid.push_back(site.add_switch(numbered("switch", s)));
  std::size_t stride = 1;
  for (const int dimension : spec.dimensions) {
    const auto length = static_cast<std::size_t>(dimension);
    for (std::size_t s = 0; s < switches; ++s) {
      const std::size_t at = s / stride % length;
      // Two in a line are joined once, not once in each direction.
      if (length == 1 || (length == 2 && at == 1)) continue;
      site.join(grid[s], grid[s - at * stride + (at + 1) % length * stride]);
    }
    stride *= length;
  }
  for (const Port& port : site.ports) site.attach(port, grid[port.host * switches / site.hosts]);
}

void lay(const Site& site, const OneSwitch&) {
  const NodeId hub = site.add_switch("switch");
  for (const Port& port : site.ports) site.attach(port, hub);
}

}  // namespace

Cluster make_cluster(const std::vector<HostGroup>& groups, const Fabric& fabric,
                     const RoutingOptions& routing) {
  TopologyBuilder builder;
  std::vector<Host> hosts;
  std::vector<NodeId> gpus;
  std::vector<Port> ports;
  for (const HostGroup& group : groups) {
    require(group.hosts >= 1, "hosts: expected at least 1");
    require(group.gpus_per_host >= 1 && group.gpus_per_host <= 72,
            "gpus_per_host: expected 1 to 72");
    for (int h = 0; h < group.hosts; ++h) {
      require_room(builder);
      Host host = add_host(builder, numbered("host", hosts.size()), group);
      gpus.insert(gpus.end(), host.gpus.begin(), host.gpus.end());
      std::vector<NodeId> distinct = host.nics;
      distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
      for (std::size_t r = 0; r < distinct.size(); ++r)
        ports.push_back(
            {hosts.size(), r, distinct[r], group.nic.value_or(interconnect_of(group).nic)});
      hosts.push_back(std::move(host));
    }
  }
  require(!hosts.empty(), "hosts: expected at least one");
  if (hosts.size() > 1) {
    const auto& links = std::visit([](const auto& it) -> const FabricLinks& { return it; }, fabric);
    const Site site{.builder = builder,
                    .ports = ports,
                    .hosts = hosts.size(),
                    .latency = links.latency.value_or(fabric_latency),
                    .link = links.link.value_or(ports.front().speed)};
    std::visit([&](const auto& it) { lay(site, it); }, fabric);
  }
  std::string model = hosts.front().gpu_model;
  return {.name = "cluster",
          .gpu_model = std::move(model),
          .topology = std::move(builder).build(),
          .hosts = std::move(hosts),
          .gpus = std::move(gpus),
          .routing = routing};
}

Cluster single_switch(const SingleSwitch& spec) {
  PHANTORA_EXPECTS(spec.gpus >= 1, "at least one GPU");
  TopologyBuilder builder;
  const NodeId hub = builder.add_switch("switch");
  std::vector<NodeId> gpus;
  for (int g = 0; g < spec.gpus; ++g) {
    gpus.push_back(builder.add_gpu("gpu" + std::to_string(g)));
    builder.add_duplex_link(gpus.back(), hub, spec.link);
  }
  return {.name = "single_switch", .topology = std::move(builder).build(), .gpus = std::move(gpus)};
}

}  // namespace phantora::topologies
