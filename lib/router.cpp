#include "router.hpp"

#include "route_graph.hpp"

#include <phantora/error.hpp>
#include <phantora/topology_graph.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace phantora {
namespace {

using Vertex = std::uint32_t;

/// Finaliser of splitmix64: every input bit reaches every output bit.
std::uint64_t mix(std::uint64_t z) noexcept {
  z += 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

bool up(const RouteRequest& request, std::uint32_t link) {
  return !request.capacity || request.capacity(LinkId{link}) > 0.0;
}

/// Marks of one search, kept between searches: a mark of an older search is no mark.
class Marks {
 public:
  void start(std::size_t nodes) {
    if (marks_.size() < nodes) marks_.resize(nodes, {0, 0});
    ++search_;
  }
  [[nodiscard]] bool has(Vertex v) const noexcept { return marks_[v].search == search_; }
  [[nodiscard]] std::uint32_t get(Vertex v) const noexcept { return marks_[v].hops; }
  void set(Vertex v, std::uint32_t hops) noexcept { marks_[v] = {search_, hops}; }

 private:
  struct Mark {
    std::uint64_t search;
    std::uint32_t hops;
  };
  std::vector<Mark> marks_;
  std::uint64_t search_ = 0;
};

/// Hops to dst from the vertices on shortest routes. Searches from both ends, level by level and
/// the smaller frontier first, and enters no host but those of the ends.
class Distances {
 public:
  Distances(const RouteGraph& graph, const RouteRequest& request)
      : graph_{graph}, request_{request} {
    thread_local Marks ahead_marks, behind_marks;
    from_ = &ahead_marks;
    to_ = &behind_marks;
    from_->start(graph.size());
    to_->start(graph.size());
    const Vertex src = request.src.value, dst = request.dst.value;
    from_->set(src, 0);
    to_->set(dst, 0);
    std::vector<Vertex> ahead{src}, behind{dst};
    std::uint32_t depth_ahead = 0, depth_behind = 0;
    bool met = false;
    while (!met && !ahead.empty() && !behind.empty()) {
      if (ahead.size() <= behind.size()) {
        ahead = expand(ahead, *from_, ++depth_ahead, true);
        for (const Vertex v : ahead) met |= to_->has(v);
      } else {
        behind = expand(behind, *to_, ++depth_behind, false);
        for (const Vertex v : behind) met |= from_->has(v);
      }
    }
    if (!met) throw RouteError{"no path joins the ends of the route"};
    length_ = depth_ahead + depth_behind;
    // From the meeting line back to src, only over what the forward search found.
    while (depth_behind < length_) {
      ++depth_behind;
      behind = expand(behind, *to_, depth_behind, false, length_ - depth_behind);
    }
  }

  [[nodiscard]] std::uint32_t length() const noexcept { return length_; }
  /// Whether v lies on a shortest route, `left` hops before its end.
  [[nodiscard]] bool leads(Vertex v, std::uint32_t left) const {
    return to_->has(v) && to_->get(v) == left;
  }

 private:
  static constexpr std::uint32_t anywhere = ~0U;

  /// @param within  only vertices that the forward search reached in so many hops.
  std::vector<Vertex> expand(const std::vector<Vertex>& frontier, Marks& hops, std::uint32_t depth,
                             bool ahead, std::uint32_t within = anywhere) {
    std::vector<Vertex> next;
    const std::uint32_t here = graph_.site(request_.src.value),
                        there = graph_.site(request_.dst.value);
    for (const Vertex at : frontier) {
      // Only the ends of the route may be nodes that do not forward.
      if (at != request_.src.value && at != request_.dst.value && !graph_.forwards(at)) continue;
      for (const RouteGraph::Arc arc : ahead ? graph_.out(at) : graph_.in(at)) {
        if (hops.has(arc.to) || !up(request_, arc.link)) continue;
        const std::uint32_t site = graph_.site(arc.to);
        if (site != RouteGraph::no_site && site != here && site != there) continue;
        if (within != anywhere && !(from_->has(arc.to) && from_->get(arc.to) == within)) continue;
        hops.set(arc.to, depth);
        next.push_back(arc.to);
      }
    }
    return next;
  }

  const RouteGraph& graph_;
  const RouteRequest& request_;
  Marks* from_;
  Marks* to_;
  std::uint32_t length_ = 0;
};

struct Hop {
  LinkId link;
  Vertex to;
  Duration latency;
};

/// The next hops from `at` on shortest routes, by link id.
void next_hops(const RouteGraph& graph, const RouteRequest& request, const Distances& distances,
               Vertex at, std::uint32_t left, std::vector<Hop>& hops) {
  hops.clear();
  for (const RouteGraph::Arc arc : graph.out(at)) {
    const bool passes = arc.to == request.dst.value || graph.forwards(arc.to);
    if (passes && distances.leads(arc.to, left - 1) && up(request, arc.link))
      hops.push_back({LinkId{arc.link}, arc.to, graph.latency(arc.link)});
  }
}

}  // namespace

Route GraphRouter::route(const RouteRequest& request) const {
  const RouteGraph& graph = *graph_->routes;
  PHANTORA_EXPECTS(request.src.value < graph.size() && request.dst.value < graph.size(),
                   "the ends of a route are nodes of its topology");
  PHANTORA_EXPECTS(request.src != request.dst, "a route joins two different nodes");
  const Distances distances = [&] {
    try {
      return Distances{graph, request};
    } catch (const RouteError&) {
      throw RouteError{"no path from \"" + (*graph_)[request.src.value].name + "\" to \"" +
                       (*graph_)[request.dst.value].name + "\""};
    }
  }();
  Route route;
  std::vector<Hop> hops;
  if (options_.routing == Routing::spray) {
    // The share of the flow that reaches each vertex of a level, split evenly among next hops.
    std::map<Vertex, double> level{{request.src.value, 1.0}};
    for (std::uint32_t left = distances.length(); left > 0; --left) {
      std::map<Vertex, double> next;
      Duration latency{0};
      for (const auto& [at, share] : level) {
        next_hops(graph, request, distances, at, left, hops);
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
  for (std::uint32_t left = distances.length(); left > 0; --left) {
    next_hops(graph, request, distances, at, left, hops);
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
