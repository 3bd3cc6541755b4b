#include "cluster/router.hpp"

#include "cluster/route_graph.hpp"

#include <phantora/cluster/topology_graph.hpp>
#include <phantora/error.hpp>

#include <algorithm>
#include <array>
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
      for (const RouteGraph::Arc arc : ahead ? graph_.out(at) : graph_.in(at)) {
        if (hops.has(arc.to) || !up(request_, arc.link)) continue;
        // Two searches that meet at a node that ends routes have not found one.
        if (!graph_.forwards(arc.to) && arc.to != request_.src.value &&
            arc.to != request_.dst.value)
          continue;
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

/// The same between two hosts, where every link is up: the fabric's hops are looked up, and only
/// the two hosts are searched.
class DistancesBetweenSites {
 public:
  DistancesBetweenSites(const RouteGraph& graph, Vertex src, Vertex dst) : graph_{graph} {
    thread_local Marks left_marks, from_marks;
    thread_local std::vector<Vertex> open;
    thread_local std::vector<Door> doors;
    left_ = &left_marks;
    left_->start(graph.size());
    // Into the destination's host: hops to dst, and the switches at its doors.
    doors.clear();
    open.assign(1, dst);
    left_->set(dst, 0);
    for (std::size_t i = 0; i < open.size(); ++i) {
      const Vertex at = open[i];
      const std::uint32_t hops = left_->get(at) + 1;
      if (at != dst && !graph.forwards(at)) continue;
      for (const RouteGraph::Arc arc : graph.in(at)) {
        if (graph.site(arc.to) == RouteGraph::no_site) {
          doors.push_back({arc.to, hops});
        } else if (!left_->has(arc.to)) {
          left_->set(arc.to, hops);
          open.push_back(arc.to);
        }
      }
    }
    // Breadth first, so nearest first. A door that is as near through another adds nothing.
    for (const Door& door : doors) {
      if (door_count_ == most_doors) return;  // left without a length: search instead
      if (through_doors(door.at) <= door.hops) continue;
      const std::uint16_t* table = graph.switch_hops(door.at);
      if (!table) return;
      doors_[door_count_++] = {table, door.hops};
    }
    // Out of the source's host: the least sum, and the nodes on the ways to it.
    Marks& from = from_marks;
    from.start(graph.size());
    open.assign(1, src);
    from.set(src, 0);
    std::uint32_t length = none;
    for (std::size_t i = 0; i < open.size(); ++i) {
      const Vertex at = open[i];
      const std::uint32_t hops = from.get(at) + 1;
      if (hops >= length) break;
      if (at != src && !graph.forwards(at)) continue;
      for (const RouteGraph::Arc arc : graph.out(at)) {
        if (graph.site(arc.to) == RouteGraph::no_site) {
          const std::uint32_t rest = through_doors(arc.to);
          if (rest != none) length = std::min(length, hops + rest);
        } else if (!from.has(arc.to)) {
          from.set(arc.to, hops);
          open.push_back(arc.to);
        }
      }
    }
    if (length == none) return;
    for (std::size_t i = open.size(); i-- > 0;) {
      const Vertex at = open[i];
      if (from.get(at) >= length || (at != src && !graph.forwards(at))) continue;
      const std::uint32_t left = length - from.get(at);
      for (const RouteGraph::Arc arc : graph.out(at)) {
        if (!leads(arc.to, left - 1)) continue;
        left_->set(at, left);
        break;
      }
    }
    length_ = length;
  }

  /// False if the fabric alone does not join the hosts, or is too large for tables.
  [[nodiscard]] bool found() const noexcept { return length_ != none; }
  [[nodiscard]] std::uint32_t length() const noexcept { return length_; }
  [[nodiscard]] bool leads(Vertex v, std::uint32_t left) const {
    if (graph_.site(v) == RouteGraph::no_site) return through_doors(v) == left;
    return left_->has(v) && left_->get(v) == left;
  }

 private:
  static constexpr std::uint32_t none = ~0U;
  static constexpr std::size_t most_doors = 16;
  struct Door {
    Vertex at;
    std::uint32_t hops;
  };

  /// Hops to dst from a switch.
  [[nodiscard]] std::uint32_t through_doors(Vertex at) const {
    std::uint32_t least = none;
    for (std::size_t d = 0; d < door_count_; ++d) {
      const std::uint16_t hops = doors_[d].table[graph_.switch_index(at)];
      if (hops != RouteGraph::unreachable) least = std::min(least, hops + doors_[d].hops);
    }
    return least;
  }

  const RouteGraph& graph_;
  Marks* left_;
  struct NearDoor {
    const std::uint16_t* table;
    std::uint32_t hops;
  };
  std::array<NearDoor, most_doors> doors_{};
  std::size_t door_count_ = 0;
  std::uint32_t length_ = none;
};

struct Hop {
  LinkId link;
  Vertex to;
  Duration latency;
};

/// The next hops from `at` on shortest routes, by link id.
template <class AnyDistances>
void next_hops(const RouteGraph& graph, const RouteRequest& request, const AnyDistances& distances,
               Vertex at, std::uint32_t left, std::vector<Hop>& hops) {
  hops.clear();
  for (const RouteGraph::Arc arc : graph.out(at)) {
    const bool passes = arc.to == request.dst.value || graph.forwards(arc.to);
    if (passes && distances.leads(arc.to, left - 1) && up(request, arc.link))
      hops.push_back({LinkId{arc.link}, arc.to, graph.latency(arc.link)});
  }
}

/// The route that the options choose among the shortest.
template <class AnyDistances>
Route walk(const RouteGraph& graph, const RouteRequest& request, const RoutingOptions& options,
           const AnyDistances& distances) {
  Route route;
  std::vector<Hop> hops;
  if (options.routing == Routing::spray) {
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
  const std::uint64_t flow = mix(mix(options.seed ^ mix(request.key)) ^ pair);
  Vertex at = request.src.value;
  for (std::uint32_t left = distances.length(); left > 0; --left) {
    next_hops(graph, request, distances, at, left, hops);
    std::size_t choice = mix(flow ^ at) % hops.size();
    if (options.routing == Routing::adaptive && request.load) {
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

}  // namespace

Route GraphRouter::route(const RouteRequest& request) const {
  const RouteGraph& graph = *graph_->routes;
  PHANTORA_EXPECTS(request.src.value < graph.size() && request.dst.value < graph.size(),
                   "the ends of a route are nodes of its topology");
  PHANTORA_EXPECTS(request.src != request.dst, "a route joins two different nodes");
  const std::uint32_t here = graph.site(request.src.value), there = graph.site(request.dst.value);
  if (!request.capacity && here != there && here != RouteGraph::no_site &&
      there != RouteGraph::no_site) {
    const DistancesBetweenSites distances{graph, request.src.value, request.dst.value};
    if (distances.found()) return walk(graph, request, options_, distances);
  }
  const Distances distances = [&] {
    try {
      return Distances{graph, request};
    } catch (const RouteError&) {
      throw RouteError{"no path from \"" + (*graph_)[request.src.value].name + "\" to \"" +
                       (*graph_)[request.dst.value].name + "\""};
    }
  }();
  return walk(graph, request, options_, distances);
}

}  // namespace phantora
