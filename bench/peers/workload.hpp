#pragma once

#include <phantora/ids.hpp>
#include <phantora/network/flow_network.hpp>
#include <phantora/network/network_view.hpp>
#include <phantora/units.hpp>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

/// The random workloads on which peers were measured, to the bit: all integers are drawn from one
/// splitmix64, so every program that includes this header simulates the same flows.
namespace workload {

struct SplitMix64 {
  std::uint64_t state;
  std::uint64_t next() {
    std::uint64_t z = (state += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  /// Uniform in [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
};

constexpr double link_rate = 50e9;  // 400 Gb/s, in bytes per second
constexpr std::uint32_t hosts = 1024;

/// FT: three levels, k = 16, D-mod-K routing; every directed link at link_rate.
/// Links: 0 host-edge, 1 edge-host, 2 edge-aggregation, 3 back, 4 aggregation-core, 5 back.
struct FatTree {
  static constexpr std::uint32_t half = 8;
  static constexpr std::uint32_t links = 6 * hosts;
  static constexpr std::uint32_t group = 1;  ///< a flow leaves groups of this many hosts
  static double capacity(std::uint32_t) { return link_rate; }
  static void route(std::uint32_t s, std::uint32_t d, std::vector<std::uint32_t>& out) {
    const auto link = [](std::uint32_t kind, std::uint32_t i) { return kind * hosts + i; };
    const std::uint32_t from = s / half, to = d / half, aggregation = d % half,
                        core = (d / half) % half, from_pod = from / half, to_pod = to / half;
    out = {link(0, s)};
    if (from != to) {
      out.push_back(link(2, from * half + aggregation));
      if (from_pod != to_pod) {
        out.push_back(link(4, (from_pod * half + aggregation) * half + core));
        out.push_back(link(5, (to_pod * half + aggregation) * half + core));
      }
      out.push_back(link(3, to * half + aggregation));
    }
    out.push_back(link(1, d));
  }
};

/// TREE: 64 racks of 16 hosts; host links at link_rate, rack uplinks at 8 times that (2:1
/// oversubscribed). All flows leave their rack.
struct Tree {
  static constexpr std::uint32_t racks = 64, width = 16;
  static constexpr std::uint32_t links = 2 * hosts + 2 * racks;
  static constexpr std::uint32_t group = width;
  static double capacity(std::uint32_t l) { return l < 2 * hosts ? link_rate : 8 * link_rate; }
  static void route(std::uint32_t s, std::uint32_t d, std::vector<std::uint32_t>& out) {
    out = {s, 2 * hosts + s / width, 2 * hosts + racks + d / width, hosts + d};
  }
};

struct Flow {
  std::uint32_t src, dst;
  std::uint64_t bytes;
  std::int64_t arrival_ns;
};

/// "open": Poisson arrivals that offer `load` of the host links. "burst": 100 batches, 1 us apart.
template <class Network>
std::vector<Flow> flows(std::string_view kind, std::uint32_t count, double load = 0.6) {
  SplitMix64 random{42};
  std::vector<Flow> flows(count);
  double t = 0;
  const double gap = 8.5 * 1048576.0 / (load * hosts * link_rate) * 1e9;
  const std::uint32_t batch = count >= 100 ? count / 100 : 1;
  for (std::uint32_t i = 0; i < count; ++i) {
    Flow& f = flows[i];
    f.src = static_cast<std::uint32_t>(random.next() % hosts);
    f.dst = static_cast<std::uint32_t>(random.next() % (hosts - Network::group));
    if (f.dst >= f.src / Network::group * Network::group) f.dst += Network::group;
    f.bytes = 1048576 + random.next() % (std::uint64_t{15} << 20);
    const double u = random.unit();
    if (kind == "open") {
      t += -std::log(1.0 - u) * gap;
      f.arrival_ns = static_cast<std::int64_t>(t);
    } else {
      f.arrival_ns = static_cast<std::int64_t>(i / batch) * 1000;
    }
  }
  return flows;
}

/// ROLLBACK(J): when each flow is told, up to `lateness_ns` after its true start.
inline std::vector<std::int64_t> told_at(const std::vector<Flow>& flows,
                                         std::uint64_t lateness_ns) {
  SplitMix64 random{7};
  std::vector<std::int64_t> keys;
  for (const Flow& f : flows)
    keys.push_back(f.arrival_ns +
                   (lateness_ns ? static_cast<std::int64_t>(random.next() % lateness_ns) : 0));
  return keys;
}

template <class Network>
phantora::NetworkView view() {
  std::vector<phantora::Bandwidth> capacities;
  for (std::uint32_t l = 0; l < Network::links; ++l) capacities.emplace_back(Network::capacity(l));
  return phantora::NetworkView{std::move(capacities)};
}

template <class Network>
std::vector<phantora::FlowSpec> specs(const std::vector<Flow>& flows) {
  std::vector<phantora::FlowSpec> specs;
  std::vector<std::uint32_t> route;
  for (const Flow& f : flows) {
    Network::route(f.src, f.dst, route);
    phantora::FlowSpec spec{.size = phantora::Bytes{static_cast<std::int64_t>(f.bytes)},
                            .start = phantora::Time{std::chrono::nanoseconds{f.arrival_ns}}};
    for (const std::uint32_t l : route) spec.links.push_back({phantora::LinkId{l}, 1.0});
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace workload
