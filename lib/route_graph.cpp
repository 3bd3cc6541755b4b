#include "route_graph.hpp"

namespace phantora {

RouteGraph::RouteGraph(const Graph& graph) {
  const std::size_t nodes = boost::num_vertices(graph);
  const auto collect = [&](Arcs& side, auto tail, auto head) {
    side.first.assign(nodes + 1, 0);
    for (const auto& edge : graph.links) ++side.first[tail(edge) + 1];
    for (std::size_t v = 0; v < nodes; ++v) side.first[v + 1] += side.first[v];
    side.arcs.resize(graph.links.size());
    std::vector<std::uint32_t> next(side.first.begin(), side.first.end() - 1);
    for (std::uint32_t l = 0; l < graph.links.size(); ++l) {
      const auto& edge = graph.links[l];
      side.arcs[next[tail(edge)]++] = {static_cast<std::uint32_t>(head(edge)), l};
    }
  };
  const auto source = [&](const auto& edge) { return boost::source(edge, graph); };
  const auto target = [&](const auto& edge) { return boost::target(edge, graph); };
  collect(out_, source, target);
  collect(in_, target, source);
  for (const auto& edge : graph.links) latencies_.push_back(graph[edge].spec.latency);

  forwards_.resize(nodes);
  for (std::size_t v = 0; v < nodes; ++v)
    forwards_[v] = graph[v].kind != NodeKind::gpu && graph[v].kind != NodeKind::memory;

  sites_.assign(nodes, no_site);
  std::uint32_t site = no_site;
  std::vector<std::uint32_t> open;
  for (std::uint32_t root = 0; root < nodes; ++root) {
    if (graph[root].kind == NodeKind::network_switch || sites_[root] != no_site) continue;
    sites_[root] = ++site;
    open.push_back(root);
    while (!open.empty()) {
      const std::uint32_t at = open.back();
      open.pop_back();
      for (const auto arcs : {out_.at(at), in_.at(at)}) {
        for (const Arc arc : arcs) {
          if (graph[arc.to].kind == NodeKind::network_switch || sites_[arc.to] != no_site) continue;
          sites_[arc.to] = site;
          open.push_back(arc.to);
        }
      }
    }
  }
}

}  // namespace phantora
