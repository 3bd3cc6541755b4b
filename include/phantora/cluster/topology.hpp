#pragma once

#include <phantora/ids.hpp>
#include <phantora/network/network_view.hpp>
#include <phantora/units.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace phantora {

/// What a node of the network is. It decides what a route may pass through: GPUs and host memories
/// end routes, everything else forwards.
enum class NodeKind : std::uint8_t {
  gpu,
  nvswitch,
  pcie_switch,
  host_bridge,
  memory,
  nic,
  network_switch
};
/// The kind's name as the enumeration has it: "gpu".
std::string_view to_string(NodeKind kind) noexcept;

/// What a link can do.
struct LinkSpec {
  Bandwidth bandwidth{};  ///< > 0
  Duration latency{};     ///< from one end to the other
  /// Unique among links; empty means "FROM->TO", and "FROM->TO#2", ... for parallel links.
  std::string name{};
};

/// The Boost graph inside a Topology; include phantora/cluster/topology_graph.hpp to look into it.
struct Graph;

/// How a flow chooses among equally short routes.
enum class Routing : std::uint8_t {
  ecmp,      ///< one route, by a hash of the flow's key, its end points and a seed
  adaptive,  ///< one route, the least loaded at the instant when the flow starts
  spray,     ///< all routes, each switch splitting evenly
};

/// How flows are routed on a topology.
struct RoutingOptions {
  Routing routing = Routing::ecmp;  ///< the choice among equally short routes
  std::uint64_t seed = 0;           ///< of the hash by which ecmp chooses
};

/// An immutable network of GPUs, NVSwitches, PCIe, NICs and switches; copies share one graph.
///
/// Links are directed. Thread-safe.
class Topology {
 public:
  /// The graph itself.
  [[nodiscard]] const Graph& graph() const& noexcept { return *graph_; }
  void graph() const&& = delete;  // it goes with the topology
  /// The graph, for those who outlive the topology.
  [[nodiscard]] std::shared_ptr<const Graph> shared_graph() const noexcept { return graph_; }
  /// Nodes are NodeId{0} to NodeId{node_count() - 1}.
  [[nodiscard]] std::size_t node_count() const noexcept;
  /// Links, of one direction each, are LinkId{0} to LinkId{link_count() - 1}.
  [[nodiscard]] std::size_t link_count() const noexcept;

  /// As the TopologyBuilder was told.
  [[nodiscard]] const std::string& name(NodeId node) const;
  /// What the node is.
  [[nodiscard]] NodeKind kind(NodeId node) const;
  /// As the TopologyBuilder was told, or "FROM->TO".
  [[nodiscard]] std::string name(LinkId link) const;
  /// Where the link begins.
  [[nodiscard]] NodeId source(LinkId link) const;
  /// Where the link ends.
  [[nodiscard]] NodeId target(LinkId link) const;
  /// Of the link, when it is whole.
  [[nodiscard]] Bandwidth bandwidth(LinkId link) const;
  /// From one end of the link to the other.
  [[nodiscard]] Duration latency(LinkId link) const;

  /// The node of that name, if any. Cost is linear.
  [[nodiscard]] std::optional<NodeId> find_node(std::string_view name) const;
  /// The link of that name, if any. Cost is linear.
  [[nodiscard]] std::optional<LinkId> find_link(std::string_view name) const;

  /// The links from and to a node.
  [[nodiscard]] std::vector<LinkId> links_of(NodeId node) const;
  /// The links that join two nodes, in both directions.
  [[nodiscard]] std::vector<LinkId> links_between(NodeId a, NodeId b) const;

  /// One shortest route, chosen by a hash of (key, from, to, seed) at each hop.
  /// @throws RouteError if no path joins them.
  [[nodiscard]] std::vector<LinkId> route(NodeId from, NodeId to, std::uint64_t key = 0,
                                          std::uint64_t seed = 0) const;

  /// What a FlowNetwork consumes: the links' capacities, and routes computed on demand.
  [[nodiscard]] NetworkView view(RoutingOptions options = {}) const;

 private:
  friend class TopologyBuilder;
  explicit Topology(std::shared_ptr<const Graph> graph) : graph_{std::move(graph)} {}
  std::shared_ptr<const Graph> graph_;
};

/// Collects nodes and links; build() checks them and gives the immutable Topology.
class TopologyBuilder {
 public:
  TopologyBuilder();
  TopologyBuilder(const TopologyBuilder&) = delete;
  TopologyBuilder& operator=(const TopologyBuilder&) = delete;
  TopologyBuilder(TopologyBuilder&&) noexcept;
  TopologyBuilder& operator=(TopologyBuilder&&) noexcept;
  ~TopologyBuilder();

  /// @param name  unique among nodes, which build() checks.
  NodeId add_node(NodeKind kind, std::string name);
  /// add_node() of a GPU.
  NodeId add_gpu(std::string name) { return add_node(NodeKind::gpu, std::move(name)); }
  /// add_node() of a switch of the fabric.
  NodeId add_switch(std::string name) {
    return add_node(NodeKind::network_switch, std::move(name));
  }

  /// Adds one direction.
  LinkId add_link(NodeId from, NodeId to, LinkSpec spec);
  /// Adds both directions; a name gets "/up" (a to b) and "/down" (b to a) appended.
  std::pair<LinkId, LinkId> add_duplex_link(NodeId a, NodeId b, const LinkSpec& spec);

  /// Nodes so far.
  [[nodiscard]] std::size_t node_count() const noexcept;
  /// Links so far, of one direction each.
  [[nodiscard]] std::size_t link_count() const noexcept;

  /// @throws TopologyError naming the node or link at fault: an empty or duplicate name, a
  /// bandwidth that is not positive, a negative latency, a link that joins a node to itself, a GPU
  /// that cannot reach every other GPU.
  Topology build() &&;

 private:
  std::unique_ptr<Graph> graph_;
};

}  // namespace phantora
