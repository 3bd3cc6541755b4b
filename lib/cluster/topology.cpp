#include "cluster/route_graph.hpp"
#include "cluster/router.hpp"

#include <phantora/cluster/topology.hpp>
#include <phantora/cluster/topology_graph.hpp>
#include <phantora/error.hpp>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace phantora {

std::string_view to_string(NodeKind kind) noexcept {
  switch (kind) {
    case NodeKind::gpu:
      return "gpu";
    case NodeKind::nvswitch:
      return "nvswitch";
    case NodeKind::pcie_switch:
      return "pcie_switch";
    case NodeKind::host_bridge:
      return "host_bridge";
    case NodeKind::memory:
      return "memory";
    case NodeKind::nic:
      return "nic";
    case NodeKind::network_switch:
      return "switch";
  }
  return "unknown";
}

namespace {

const GraphLink& link_of(const Graph& graph, LinkId link) {
  PHANTORA_EXPECTS(link.value < graph.links.size(), "no such link");
  return graph[graph.links[link.value]];
}

std::string default_name(const Graph& graph, LinkId link) {
  const auto edge = graph.links[link.value];
  return graph[boost::source(edge, graph)].name + "->" + graph[boost::target(edge, graph)].name;
}

/// A default name, numbered among parallel links.
std::string name_of(const Graph& graph, LinkId link) {
  const GraphLink& it = link_of(graph, link);
  if (!it.spec.name.empty()) return it.spec.name;
  const auto edge = graph.links[link.value];
  int nth = 1;
  for (auto [e, end] = boost::out_edges(boost::source(edge, graph), graph); e != end; ++e) {
    const GraphLink& other = graph[*e];
    nth += boost::target(*e, graph) == boost::target(edge, graph) && other.spec.name.empty() &&
           other.id < link;
  }
  return default_name(graph, link) + (nth > 1 ? "#" + std::to_string(nth) : "");
}

/// Nodes from which `forward` (or to which, if not) some GPU has a path, never through a GPU.
std::vector<bool> reachable(const Graph& graph, std::size_t root, bool forward) {
  std::vector<bool> seen(boost::num_vertices(graph));
  std::vector<std::size_t> open{root};
  seen[root] = true;
  while (!open.empty()) {
    const std::size_t at = open.back();
    open.pop_back();
    const auto visit = [&](std::size_t next) {
      if (!seen[next]) {
        seen[next] = true;
        open.push_back(next);
      }
    };
    if (forward) {
      for (auto [e, end] = boost::out_edges(at, graph); e != end; ++e)
        visit(boost::target(*e, graph));
    } else {
      for (auto [e, end] = boost::in_edges(at, graph); e != end; ++e)
        visit(boost::source(*e, graph));
    }
  }
  return seen;
}

void validate(const Graph& graph) {
  std::unordered_set<std::string_view> names;
  for (std::size_t v = 0; v < boost::num_vertices(graph); ++v) {
    if (graph[v].name.empty()) throw TopologyError{"node " + std::to_string(v) + " has no name"};
    if (!names.insert(graph[v].name).second)
      throw TopologyError{"two nodes are called \"" + graph[v].name + "\""};
  }
  names.clear();
  for (std::size_t l = 0; l < graph.links.size(); ++l) {
    const LinkId link{static_cast<std::uint32_t>(l)};
    const LinkSpec& spec = graph[graph.links[l]].spec;
    if (!spec.name.empty() && !names.insert(spec.name).second)
      throw TopologyError{"two links are called \"" + spec.name + "\""};
    const auto edge = graph.links[l];
    if (boost::source(edge, graph) == boost::target(edge, graph))
      throw TopologyError{"link " + name_of(graph, link) + " joins a node to itself"};
    if (!(spec.bandwidth > Bandwidth{0.0}))
      throw TopologyError{"link " + name_of(graph, link) + " has a bandwidth that is not positive"};
    if (spec.latency < Duration{0})
      throw TopologyError{"link " + name_of(graph, link) + " has a negative latency"};
  }
  std::optional<std::size_t> first;
  std::vector<bool> from, to;
  for (std::size_t v = 0; v < boost::num_vertices(graph); ++v) {
    if (graph[v].kind != NodeKind::gpu) continue;
    if (!first) {
      first = v;
      from = reachable(graph, v, true);
      to = reachable(graph, v, false);
    } else if (!from[v] || !to[v]) {
      throw TopologyError{"gpu \"" + graph[v].name + "\" cannot be reached " +
                          (from[v] ? "by" : "from") + " gpu \"" + graph[*first].name +
                          (from[v] ? "\" in the other direction" : "\"")};
    }
  }
}

}  // namespace

TopologyBuilder::TopologyBuilder() : graph_{std::make_unique<Graph>()} {}
TopologyBuilder::TopologyBuilder(TopologyBuilder&&) noexcept = default;
TopologyBuilder& TopologyBuilder::operator=(TopologyBuilder&&) noexcept = default;
TopologyBuilder::~TopologyBuilder() = default;

NodeId TopologyBuilder::add_node(NodeKind kind, std::string name) {
  const auto v = boost::add_vertex(GraphNode{kind, std::move(name)}, *graph_);
  return NodeId{static_cast<std::uint32_t>(v)};
}

LinkId TopologyBuilder::add_link(NodeId from, NodeId to, LinkSpec spec) {
  const std::size_t nodes = boost::num_vertices(*graph_);
  PHANTORA_EXPECTS(from.value < nodes && to.value < nodes, "a link joins nodes of this builder");
  const LinkId id{static_cast<std::uint32_t>(graph_->links.size())};
  const auto [edge, added] =
      boost::add_edge(from.value, to.value, GraphLink{id, std::move(spec)}, *graph_);
  graph_->links.push_back(edge);
  return id;
}

std::pair<LinkId, LinkId> TopologyBuilder::add_duplex_link(NodeId a, NodeId b,
                                                           const LinkSpec& spec) {
  LinkSpec up = spec, down = spec;
  if (!spec.name.empty()) {
    up.name += "/up";
    down.name += "/down";
  }
  const LinkId there = add_link(a, b, std::move(up));
  return {there, add_link(b, a, std::move(down))};
}

std::size_t TopologyBuilder::node_count() const noexcept { return boost::num_vertices(*graph_); }
std::size_t TopologyBuilder::link_count() const noexcept { return graph_->links.size(); }

Topology TopologyBuilder::build() && {
  validate(*graph_);
  graph_->routes = std::make_shared<const RouteGraph>(*graph_);
  return Topology{std::shared_ptr<const Graph>{std::move(graph_)}};
}

std::size_t Topology::node_count() const noexcept { return boost::num_vertices(*graph_); }
std::size_t Topology::link_count() const noexcept { return graph_->links.size(); }

const std::string& Topology::name(NodeId node) const {
  PHANTORA_EXPECTS(node.value < node_count(), "no such node");
  return (*graph_)[node.value].name;
}
NodeKind Topology::kind(NodeId node) const {
  PHANTORA_EXPECTS(node.value < node_count(), "no such node");
  return (*graph_)[node.value].kind;
}
std::string Topology::name(LinkId link) const { return name_of(*graph_, link); }
NodeId Topology::source(LinkId link) const {
  PHANTORA_EXPECTS(link.value < link_count(), "no such link");
  return NodeId{static_cast<std::uint32_t>(boost::source(graph_->links[link.value], *graph_))};
}
NodeId Topology::target(LinkId link) const {
  PHANTORA_EXPECTS(link.value < link_count(), "no such link");
  return NodeId{static_cast<std::uint32_t>(boost::target(graph_->links[link.value], *graph_))};
}
Bandwidth Topology::bandwidth(LinkId link) const { return link_of(*graph_, link).spec.bandwidth; }
Duration Topology::latency(LinkId link) const { return link_of(*graph_, link).spec.latency; }

std::optional<NodeId> Topology::find_node(std::string_view name) const {
  for (std::size_t v = 0; v < node_count(); ++v)
    if ((*graph_)[v].name == name) return NodeId{static_cast<std::uint32_t>(v)};
  return std::nullopt;
}
std::optional<LinkId> Topology::find_link(std::string_view name) const {
  for (std::uint32_t l = 0; l < link_count(); ++l)
    if (name_of(*graph_, LinkId{l}) == name) return LinkId{l};
  return std::nullopt;
}

std::vector<LinkId> Topology::links_of(NodeId node) const {
  PHANTORA_EXPECTS(node.value < node_count(), "no such node");
  std::vector<LinkId> links;
  for (const RouteGraph::Arc arc : graph_->routes->out(node.value))
    links.push_back(LinkId{arc.link});
  for (const RouteGraph::Arc arc : graph_->routes->in(node.value))
    links.push_back(LinkId{arc.link});
  std::sort(links.begin(), links.end());
  return links;
}
std::vector<LinkId> Topology::links_between(NodeId a, NodeId b) const {
  std::vector<LinkId> links = links_of(a);
  std::erase_if(links, [&](LinkId link) { return source(link) != b && target(link) != b; });
  return links;
}

std::vector<LinkId> Topology::route(NodeId from, NodeId to, std::uint64_t key,
                                    std::uint64_t seed) const {
  const GraphRouter router{graph_, {Routing::ecmp, seed}};
  std::vector<LinkId> links;
  for (const LinkUse& use : router.route({.src = from, .dst = to, .key = key}).links)
    links.push_back(use.link);
  return links;
}

NetworkView Topology::view(RoutingOptions options) const {
  std::vector<Bandwidth> capacities;
  capacities.reserve(link_count());
  for (const auto& edge : graph_->links) capacities.push_back((*graph_)[edge].spec.bandwidth);
  return NetworkView{std::move(capacities), std::make_shared<GraphRouter>(graph_, options)};
}

}  // namespace phantora
