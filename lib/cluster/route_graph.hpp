#pragma once

#include <phantora/cluster/topology_graph.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
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

  /// Hops from every switch to one of them over switches alone, by switch_index(); `unreachable` if
  /// there are none. Found when first asked for, then kept.
  ///
  /// Thread-safe. Null once the tables of other switches have taken up `most_table_bytes`.
  [[nodiscard]] const std::uint16_t* switch_hops(std::uint32_t to) const;
  [[nodiscard]] std::uint32_t switch_index(std::uint32_t v) const noexcept {
    return switch_index_[v];
  }
  static constexpr std::uint16_t unreachable = 0xFFFF;
  static constexpr std::size_t most_table_bytes = std::size_t{64} << 20;

  /// Which overheads of the wire apply to a link: those of its ends.
  enum class Wire : std::uint8_t { nvlink, fabric, other };
  [[nodiscard]] Wire wire(std::uint32_t link) const noexcept { return wires_[link]; }

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
  std::vector<Wire> wires_;
  std::vector<std::uint32_t> switch_index_;  ///< of switches; 0 for other nodes
  std::vector<std::uint32_t> switches_;
  // One table per switch, published once it is complete.
  mutable std::unique_ptr<std::atomic<const std::uint16_t*>[]> tables_;
  mutable std::vector<std::unique_ptr<std::uint16_t[]>> owned_tables_;
  mutable std::mutex mutex_;
};

}  // namespace phantora
