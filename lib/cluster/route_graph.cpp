#include "cluster/route_graph.hpp"

#include <algorithm>

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
  for (const auto& edge : graph.links) {
    latencies_.push_back(graph[edge].spec.latency);
    const NodeKind a = graph[source(edge)].kind, b = graph[target(edge)].kind;
    const bool nvlink = a == NodeKind::nvswitch || b == NodeKind::nvswitch ||
                        (a == NodeKind::gpu && b == NodeKind::gpu);
    wires_.push_back(nvlink ? Wire::nvlink
                     : a == NodeKind::network_switch || b == NodeKind::network_switch
                         ? Wire::fabric
                         : Wire::other);
  }

  forwards_.resize(nodes);
  for (std::size_t v = 0; v < nodes; ++v)
    forwards_[v] = graph[v].kind != NodeKind::gpu && graph[v].kind != NodeKind::memory ? 1 : 0;

  switch_index_.assign(nodes, 0);
  for (std::uint32_t v = 0; v < nodes; ++v) {
    if (graph[v].kind != NodeKind::network_switch) continue;
    switch_index_[v] = static_cast<std::uint32_t>(switches_.size());
    switches_.push_back(v);
  }
  tables_ = std::make_unique<std::atomic<const std::uint16_t*>[]>(switches_.size());

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

const std::uint16_t* RouteGraph::switch_hops(std::uint32_t to) const {
  std::atomic<const std::uint16_t*>& table = tables_[switch_index_[to]];
  if (const std::uint16_t* known = table.load(std::memory_order_acquire)) return known;
  const std::lock_guard lock{mutex_};
  if (const std::uint16_t* known = table.load(std::memory_order_relaxed)) return known;
  if ((owned_tables_.size() + 1) * switches_.size() * sizeof(std::uint16_t) > most_table_bytes)
    return nullptr;
  auto& hops = owned_tables_.emplace_back(std::make_unique<std::uint16_t[]>(switches_.size()));
  std::fill_n(hops.get(), switches_.size(), unreachable);
  std::vector<std::uint32_t> frontier{to}, next;
  hops[switch_index_[to]] = 0;
  for (std::uint16_t depth = 1; !frontier.empty() && depth < unreachable; ++depth) {
    for (const std::uint32_t at : frontier) {
      for (const Arc arc : in_.at(at)) {
        if (sites_[arc.to] != no_site || hops[switch_index_[arc.to]] != unreachable) continue;
        hops[switch_index_[arc.to]] = depth;
        next.push_back(arc.to);
      }
    }
    frontier.swap(next);
    next.clear();
  }
  table.store(hops.get(), std::memory_order_release);
  return hops.get();
}

}  // namespace phantora
