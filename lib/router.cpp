#include "router.hpp"

#include <phantora/error.hpp>
#include <phantora/topology_graph.hpp>

#include <algorithm>
#include <map>
#include <queue>
#include <string>
#include <unordered_map>
#include <vector>

namespace phantora {
namespace {

using Vertex = std::size_t;

/// Finaliser of splitmix64: every input bit reaches every output bit.
std::uint64_t mix(std::uint64_t z) noexcept {
  z += 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

bool forwards(const Graph& graph, Vertex v) noexcept {
  return graph[v].kind != NodeKind::gpu && graph[v].kind != NodeKind::memory;
}

bool up(const RouteRequest& request, LinkId link) {
  return !request.capacity || request.capacity(link) > 0.0;
}

/// Hops from each vertex near the shortest routes to dst. Searches from both ends, level by level
/// and the smaller frontier first, so that a route in a large fabric costs a few hundred visits.
class Distances {
 public:
  Distances(const Graph& graph, const RouteRequest& request) : graph_{graph}, request_{request} {
    const Vertex src = request.src.value, dst = request.dst.value;
    from_[src] = 0;
    to_[dst] = 0;
    std::vector<Vertex> ahead{src}, behind{dst};
    int depth_ahead = 0, depth_behind = 0;
    while (!ahead.empty() && !behind.empty()) {
      if (ahead.size() <= behind.size()) {
        ahead = expand(ahead, from_, ++depth_ahead, true);
      } else {
        behind = expand(behind, to_, ++depth_behind, false);
      }
      const auto& smaller = from_.size() <= to_.size() ? from_ : to_;
      const auto& larger = from_.size() <= to_.size() ? to_ : from_;
      for (const auto& [v, hops] : smaller) met_ |= larger.contains(v);
      if (met_) break;
    }
    if (!met_)
      throw RouteError{"no path from \"" + graph[src].name + "\" to \"" + graph[dst].name + "\""};
    length_ = depth_ahead + depth_behind;
    // Levels behind the meeting line, for the vertices that the forward search found.
    for (; depth_behind < length_; ++depth_behind)
      behind = expand(behind, to_, depth_behind + 1, false, &from_);
  }

  [[nodiscard]] int length() const noexcept { return length_; }
  /// Whether v lies on a shortest route, `left` hops before its end.
  [[nodiscard]] bool leads(Vertex v, int left) const {
    const auto it = to_.find(v);
    return it != to_.end() && it->second == left;
  }

 private:
  using Hops = std::unordered_map<Vertex, int>;

  std::vector<Vertex> expand(const std::vector<Vertex>& frontier, Hops& hops, int depth, bool ahead,
                             const Hops* within = nullptr) {
    std::vector<Vertex> next;
    const auto visit = [&](Vertex v, Vertex by, LinkId link) {
      // Only the ends of the route may be nodes that do not forward.
      const bool passes =
          by == request_.src.value || by == request_.dst.value || forwards(graph_, by);
      if (passes && up(request_, link) && (!within || within->contains(v)) &&
          hops.emplace(v, depth).second)
        next.push_back(v);
    };
    for (const Vertex at : frontier) {
      if (ahead) {
        for (auto [e, end] = boost::out_edges(at, graph_); e != end; ++e)
          visit(boost::target(*e, graph_), at, graph_[*e].id);
      } else {
        for (auto [e, end] = boost::in_edges(at, graph_); e != end; ++e)
          visit(boost::source(*e, graph_), at, graph_[*e].id);
      }
    }
    return next;
  }

  const Graph& graph_;
  const RouteRequest& request_;
  Hops from_, to_;
  bool met_ = false;
  int length_ = 0;
};

struct Hop {
  LinkId link;
  Vertex to;
  Duration latency;
};

/// The next hops from `at` on shortest routes, by link id.
std::vector<Hop> next_hops(const Graph& graph, const RouteRequest& request,
                           const Distances& distances, Vertex at, int left) {
  std::vector<Hop> hops;
  for (auto [e, end] = boost::out_edges(at, graph); e != end; ++e) {
    const Vertex to = boost::target(*e, graph);
    const bool passes = to == request.dst.value || forwards(graph, to);
    if (passes && distances.leads(to, left - 1) && up(request, graph[*e].id))
      hops.push_back({graph[*e].id, to, graph[*e].spec.latency});
  }
  std::sort(hops.begin(), hops.end(), [](const Hop& a, const Hop& b) { return a.link < b.link; });
  return hops;
}

}  // namespace

Route GraphRouter::route(const RouteRequest& request) const {
  const Graph& graph = *graph_;
  PHANTORA_EXPECTS(request.src.value < boost::num_vertices(graph) &&
                       request.dst.value < boost::num_vertices(graph),
                   "the ends of a route are nodes of its topology");
  PHANTORA_EXPECTS(request.src != request.dst, "a route joins two different nodes");
  const Distances distances{graph, request};
  Route route;
  if (options_.routing == Routing::spray) {
    // The share of the flow that reaches each vertex of a level, split evenly among next hops.
    std::map<Vertex, double> level{{request.src.value, 1.0}};
    for (int left = distances.length(); left > 0; --left) {
      std::map<Vertex, double> next;
      Duration latency{0};
      for (const auto& [at, share] : level) {
        const auto hops = next_hops(graph, request, distances, at, left);
        for (const Hop& hop : hops) {
          const double part = share / static_cast<double>(hops.size());
          route.links.push_back({hop.link, part});
          next[hop.to] += part;
          latency = std::max(latency, hop.latency);
        }
      }
      route.latency += latency;
      level = std::move(next);
    }
    return route;
  }
  const std::uint64_t pair = std::uint64_t{request.src.value} << 32 | request.dst.value;
  const std::uint64_t flow = mix(mix(options_.seed ^ mix(request.key)) ^ pair);
  Vertex at = request.src.value;
  for (int left = distances.length(); left > 0; --left) {
    const auto hops = next_hops(graph, request, distances, at, left);
    std::size_t choice = mix(flow ^ at) % hops.size();
    if (options_.routing == Routing::adaptive && request.load) {
      // Least relative load; the hash decides among equals.
      const auto load = [&](std::size_t i) {
        return request.load(hops[i].link) / request.capacity(hops[i].link);
      };
      std::size_t best = choice;
      for (std::size_t k = 1; k < hops.size(); ++k) {
        const std::size_t i = (choice + k) % hops.size();
        if (load(i) < load(best)) best = i;
      }
      choice = best;
    }
    route.links.push_back({hops[choice].link, 1.0});
    route.latency += hops[choice].latency;
    at = hops[choice].to;
  }
  return route;
}

}  // namespace phantora
