#pragma once

#include <phantora/topology_graph.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace phantora {

/// A topology as the router walks it: flat adjacency, and which nodes a route may pass through.
class RouteGraph {
 public:
  struct Arc {
    std::uint32_t to;
    std::uint32_t link;
  };

  explicit RouteGraph(const Graph& graph);

  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(forwards_.size());
  }
  [[nodiscard]] std::span<const Arc> out(std::uint32_t v) const noexcept { return out_.at(v); }
  [[nodiscard]] std::span<const Arc> in(std::uint32_t v) const noexcept { return in_.at(v); }
  /// Whether routes may pass through a node, rather than only end there.
  [[nodiscard]] bool forwards(std::uint32_t v) const noexcept { return forwards_[v] != 0; }
  /// Nodes joined without passing a network switch are in one site, as those of a host are; a
  /// route between two sites passes no third. Switches are in no site.
  [[nodiscard]] std::uint32_t site(std::uint32_t v) const noexcept { return sites_[v]; }
  static constexpr std::uint32_t no_site = 0;
  [[nodiscard]] Duration latency(std::uint32_t link) const noexcept { return latencies_[link]; }

 private:
  /// Arcs by node, one after the other.
  struct Arcs {
    std::vector<std::uint32_t> first;
    std::vector<Arc> arcs;
    [[nodiscard]] std::span<const Arc> at(std::uint32_t v) const noexcept {
      return std::span{arcs}.subspan(first[v], first[v + 1] - first[v]);
    }
  };
  Arcs out_, in_;
  std::vector<char> forwards_;
  std::vector<std::uint32_t> sites_;
  std::vector<Duration> latencies_;
};

}  // namespace phantora
