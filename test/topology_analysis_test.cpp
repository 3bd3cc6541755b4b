#include <phantora/cluster/cluster.hpp>
#include <phantora/cluster/topologies.hpp>
#include <phantora/cluster/topology_analysis.hpp>
#include <phantora/error.hpp>

#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace phantora {
namespace {

using namespace std::chrono_literals;

/// The cut's bandwidth is that of its links, and is what is expected.
void expect_cut(const Cluster& cluster, const Cut& cut, Bandwidth expected, Time at = Time{}) {
  const auto bandwidths = bandwidths_at(cluster, at);
  Bandwidth sum{};
  for (const LinkId link : cut.links)
    sum = Bandwidth{sum.bytes_per_second() + std::round(bandwidths[link.value].bytes_per_second())};
  EXPECT_EQ(sum.bytes_per_second(), cut.bandwidth.bytes_per_second()) << cluster.name;
  EXPECT_EQ(cut.bandwidth.bytes_per_second(), expected.bytes_per_second()) << cluster.name;
}

std::vector<std::string> names(const Cluster& cluster, const std::vector<LinkId>& links) {
  std::vector<std::string> all;
  for (const LinkId link : links) all.push_back(cluster.topology.name(link));
  return all;
}

constexpr Bandwidth nic = 400_Gbps;

TEST(Cuts, OneSwitchIsAsWideAsTheNics) {
  const Cluster cluster = parse_cluster("h200:5x8/single_switch");
  expect_cut(cluster, narrowest_cut(cluster, cluster.hosts[0], cluster.hosts[4]), 8 * nic);
  expect_cut(cluster, bisection(cluster), 2 * 8 * nic);  // two hosts, to the other three
  const Cluster gpus = topologies::single_switch({.gpus = 5, .link = {1_GBps, 1us}});
  const Cut cut = bisection(gpus);
  expect_cut(gpus, cut, 2_GBps);
  EXPECT_EQ(names(gpus, cut.links), (std::vector<std::string>{"gpu0->switch", "gpu1->switch"}));
}

TEST(Cuts, OversubscribedSpinesHalveTheBisection) {
  const Cluster full = parse_cluster("h200:8x8/leaf_spine,hosts_per_leaf=4");
  expect_cut(full, bisection(full), 4 * 8 * nic);
  const Cluster half = parse_cluster("h200:8x8/leaf_spine,hosts_per_leaf=4,oversubscription=2");
  expect_cut(half, bisection(half), 4 * 8 * nic / 2);
  // A host alone does not feel it.
  expect_cut(half, narrowest_cut(half, half.hosts[0], half.hosts[7]), 8 * nic);
}

TEST(Cuts, FatTreesHaveFullBisection) {
  for (const char* spec : {"h200:16x1/fat_tree,k=4", "h200:16x8/fat_tree,k=8"}) {
    const Cluster cluster = parse_cluster(spec);
    const double nics = static_cast<double>(cluster.gpus.size());
    expect_cut(cluster, bisection(cluster), nics / 2 * nic);
  }
}

TEST(Cuts, DragonfliesHaveTheGlobalLinksBetweenTheGroups) {
  // 4 groups of 2 routers of 2 NICs; between two and two groups 2 * 2 pairs of l links.
  for (const int links : {1, 2}) {
    const Cluster cluster =
        parse_cluster("h200:16x1/dragonfly,routers_per_group=2,nics_per_router=2,links_per_pair=" +
                      std::to_string(links));
    expect_cut(cluster, bisection(cluster), 4.0 * links * nic);
  }
}

TEST(Cuts, ToriHaveTwiceTheirCrossSection) {
  // 2 k^(n-1) links, of a quarter of a NIC here, so that NICs do not bind.
  const Cluster square = parse_cluster("h200:16x1/torus,dimensions=4x4,link=100Gbps");
  expect_cut(square, bisection(square), 2 * 4 * 100_Gbps);
  const Cluster cube = parse_cluster("h200:64x1/torus,dimensions=4x4x4,link=100Gbps");
  expect_cut(cube, bisection(cube), 2 * 4 * 4 * 100_Gbps);
  // Four links leave a switch of the square, six one of the cube.
  expect_cut(square, narrowest_cut(square, square.hosts[0], square.hosts[10]), nic);
  const Cluster thin = parse_cluster("h200:16x1/torus,dimensions=4x4,link=80Gbps");
  expect_cut(thin, narrowest_cut(thin, thin.hosts[0], thin.hosts[10]), 4 * 80_Gbps);
}

TEST(Cuts, HostsOfOtherKindsBindAtTheirOwnNics) {
  const Cluster cluster = parse_cluster("h200:2x8+l40s:2x4/single_switch");
  Bandwidth weak{};
  for (const NodeId port : std::set(cluster.hosts[2].nics.begin(), cluster.hosts[2].nics.end()))
    for (const LinkId link : cluster.topology.links_of(port))
      if (cluster.topology.source(link) == port &&
          cluster.topology.kind(cluster.topology.target(link)) == NodeKind::network_switch)
        weak = Bandwidth{weak.bytes_per_second() +
                         cluster.topology.bandwidth(link).bytes_per_second()};
  ASSERT_LT(weak, 8 * nic);
  ASSERT_GT(weak, Bandwidth{});
  expect_cut(cluster, narrowest_cut(cluster, cluster.hosts[0], cluster.hosts[1]), 8 * nic);
  expect_cut(cluster, narrowest_cut(cluster, cluster.hosts[0], cluster.hosts[2]), weak);
  expect_cut(cluster, bisection(cluster), 2 * weak);
}

TEST(Cuts, OneHostIsHalvedByItsGpus) {
  // Four GPUs' NVLinks, and their PCIe slots beside them.
  const Cluster cluster = parse_cluster("h200:1x8");
  const LinkId slot = cluster.topology.find_link("host0/gpu0->host0/pcie0").value();
  const double pcie = std::round(cluster.topology.bandwidth(slot).bytes_per_second());
  expect_cut(cluster, bisection(cluster), Bandwidth{4 * (450e9 + pcie)});
}

TEST(Cuts, HostsAreNoWayThrough) {
  // host0 and host2 meet at host1 alone, whose NICs are on both switches.
  TopologyBuilder builder;
  std::vector<Host> hosts;
  const NodeId left = builder.add_switch("left"), right = builder.add_switch("right");
  for (const auto& [name, switches] :
       {std::pair{"host0", std::vector{left}}, {"host1", {left, right}}, {"host2", {right}}}) {
    const NodeId gpu = builder.add_gpu(std::string{name} + "/gpu");
    const NodeId port = builder.add_node(NodeKind::nic, std::string{name} + "/nic");
    builder.add_duplex_link(gpu, port, {1_GBps, 1us});
    for (const NodeId at : switches) builder.add_duplex_link(port, at, {1_GBps, 1us});
    hosts.push_back({.name = name, .gpus = {gpu}});
  }
  const Cluster cluster{.topology = std::move(builder).build(),
                        .hosts = hosts,
                        .gpus = {hosts[0].gpus[0], hosts[1].gpus[0], hosts[2].gpus[0]}};
  expect_cut(cluster, narrowest_cut(cluster, hosts[0], hosts[1]), 1_GBps);
  expect_cut(cluster, narrowest_cut(cluster, hosts[0], hosts[2]), 0_GBps);
  EXPECT_THROW(static_cast<void>(longest_path(cluster)), RouteError);
}

TEST(Cuts, FailuresCountWhileTheyLast) {
  const std::string fabric = R"(
    [[hosts]]
    count = 8
    [fabric]
    kind = "leaf_spine"
    oversubscription = 2
    [[failures]]
    at = "1ms"
    until = "2ms"
    node = "spine0"
    [[failures]]
    at = "1500us"
    link = "leaf1->spine1"
    speed = 0.5
  )";
  const Cluster cluster = parse_cluster_toml(fabric);
  const Time start{};
  expect_cut(cluster, bisection(cluster), 16 * nic);
  expect_cut(cluster, bisection(cluster, start + 1ms), 15 * nic, start + 1ms);
  // From the second leaf to the first, the narrower direction.
  expect_cut(cluster, bisection(cluster, start + 1500us), 14.5 * nic, start + 1500us);
  expect_cut(cluster, bisection(cluster, start + 2ms), 15.5 * nic, start + 2ms);
}

TEST(Cuts, WhatCannotBeCutIsRefused) {
  const Cluster cluster = parse_cluster("h200:1x1");
  EXPECT_THROW(static_cast<void>(bisection(cluster)), ArgumentError);
  EXPECT_THROW(static_cast<void>(longest_path(cluster)), ArgumentError);
  EXPECT_TRUE(single_points(cluster).empty());
  const std::vector gpu{cluster.gpus[0]}, nowhere{NodeId{1000}};
  EXPECT_THROW(static_cast<void>(narrowest_cut(cluster, gpu, gpu)), ArgumentError);
  EXPECT_THROW(static_cast<void>(narrowest_cut(cluster, gpu, {})), ArgumentError);
  EXPECT_THROW(static_cast<void>(narrowest_cut(cluster, gpu, nowhere)), ArgumentError);
}

// ---- Against the router ------------------------------------------------------------------------

/// Clusters of all fabrics and kinds of hosts, small enough to try everything.
const std::vector<std::string> small_clusters{
    "h200:1x2",
    "h200:2x2",
    "h200:3x8",
    "l40s:1x4",
    "h200:2x4+l40s:3x2",
    "h200:4x2/single_switch",
    "h200:4x2/leaf_spine,hosts_per_leaf=2,oversubscription=4",
    "h200:4x2/leaf_spine,hosts_per_leaf=1",
    "h200:5x3/fat_tree",
    "h200:6x1/dragonfly,routers_per_group=2,nics_per_router=1",
    "h200:6x1/torus,dimensions=3x2",
    "h200:5x1/torus,dimensions=5"};

/// The links of the route over what is up, if there is one.
std::optional<Route> routed(const Cluster& cluster, NodeId from, NodeId to,
                            const std::set<LinkId>& down) {
  const NetworkView view = cluster.topology.view();
  try {
    return view.router()->route({.src = from, .dst = to, .capacity = [&](LinkId link) {
                                   return down.contains(link)
                                              ? 0.0
                                              : cluster.topology.bandwidth(link).bytes_per_second();
                                 }});
  } catch (const RouteError&) {
    return std::nullopt;
  }
}

TEST(LongestPath, IsThatOfAllPairs) {
  for (const std::string& spec : small_clusters) {
    const Cluster cluster = parse_cluster(spec);
    std::size_t links = 0;
    for (const NodeId from : cluster.gpus)
      for (const NodeId to : cluster.gpus)
        if (from != to) links = std::max(links, cluster.topology.route(from, to).size());
    const LongestPath longest = longest_path(cluster);
    EXPECT_EQ(longest.links, links) << spec;
    // All shortest routes between two GPUs take equally long in these.
    Duration latency{};
    for (const LinkId link : cluster.topology.route(longest.from, longest.to))
      latency += cluster.topology.latency(link);
    EXPECT_EQ(longest.latency, latency) << spec;
  }
}

TEST(LongestPath, OfARailOptimisedFabricLeadsOverASpine) {
  // GPU, PCIe switch, NIC, leaf, spine and back: 4 links of PCIe, 4 of the fabric.
  const LongestPath longest = longest_path(parse_cluster("h200:2x8"));
  EXPECT_EQ(longest.links, 8U);
  EXPECT_EQ(longest.latency, Duration{4 * 115ns + 4 * 180ns});
}

TEST(LongestPath, LeadsAroundWhatIsDown) {
  // A ring of five: two hops at most, and four if one link is down; two of the links are hosts'.
  const std::string ring = R"(
    [[hosts]]
    count = 5
    gpus = 1
    [fabric]
    kind = "torus"
    dimensions = [5]
    [[failures]]
    at = "1ms"
    between = ["switch0", "switch1"]
    [[failures]]
    at = "2ms"
    between = ["switch2", "switch3"]
  )";
  const Cluster cluster = parse_cluster_toml(ring);
  EXPECT_EQ(longest_path(cluster).links, 6U + 2U);
  EXPECT_EQ(longest_path(cluster, Time{} + 1ms).links, 6U + 4U);
  try {
    static_cast<void>(longest_path(cluster, Time{} + 2ms));
    FAIL();
  } catch (const RouteError& error) {
    EXPECT_NE(std::string{error.what()}.find("gpu0"), std::string::npos) << error.what();
  }
}

/// Each node and cable taken away in turn, and who of all pairs is parted then.
using Points = std::map<std::pair<NodeId, std::optional<NodeId>>, std::size_t>;
Points tried(const Cluster& cluster) {
  const Topology& topology = cluster.topology;
  std::vector<std::pair<std::pair<NodeId, std::optional<NodeId>>, std::vector<LinkId>>> losses;
  for (std::uint32_t v = 0; v < topology.node_count(); ++v)
    if (topology.kind(NodeId{v}) != NodeKind::gpu)
      losses.push_back({{NodeId{v}, std::nullopt}, topology.links_of(NodeId{v})});
  std::set<std::pair<NodeId, NodeId>> cables;
  for (std::uint32_t l = 0; l < topology.link_count(); ++l)
    cables.insert(std::minmax({topology.source(LinkId{l}), topology.target(LinkId{l})}));
  for (const auto& [a, b] : cables)
    if (topology.links_between(a, b).size() == 2)
      losses.push_back({{a, b}, topology.links_between(a, b)});
  Points points;
  for (const auto& [loss, links] : losses) {
    const std::set<LinkId> down(links.begin(), links.end());
    for (const NodeId root : {cluster.gpus.front(), cluster.gpus.back()}) {
      std::size_t parted = 0;
      for (const NodeId gpu : cluster.gpus)
        if (gpu != root && !routed(cluster, root, gpu, down)) ++parted;
      if (parted == 0) continue;
      const auto [entry, added] = points.emplace(loss, parted);
      if (!added) entry->second = std::min(entry->second, parted);
    }
  }
  return points;
}

TEST(SinglePoints, AreThoseWhoseLossPartsGpus) {
  for (const std::string& spec : small_clusters) {
    const Cluster cluster = parse_cluster(spec);
    Points found;
    for (const SinglePoint& point : single_points(cluster))
      found[{point.node, point.other_end}] = point.gpus;
    EXPECT_EQ(found, tried(cluster)) << spec;
  }
}

TEST(SinglePoints, OfASingleRailAreItsLeafAndNics) {
  const Cluster cluster = parse_cluster("h200:3x1/leaf_spine,hosts_per_leaf=3");
  std::vector<std::string> points;
  for (const SinglePoint& point : single_points(cluster)) {
    std::string name = cluster.topology.name(point.node);
    if (point.other_end) name += " - " + cluster.topology.name(*point.other_end);
    if (point.node == cluster.hosts[1].gpus[0] || name.starts_with("host1") ||
        name.starts_with("leaf"))
      points.push_back(name + ": " + std::to_string(point.gpus));
  }
  EXPECT_EQ(points,
            (std::vector<std::string>{"host1/pcie0: 1", "host1/nic0: 1", "leaf0: 2",
                                      "host1/gpu0 - host1/pcie0: 1", "host1/pcie0 - host1/nic0: 1",
                                      "host1/nic0 - leaf0: 1"}));
}

TEST(SinglePoints, AppearWhereTheOtherWayIsDown) {
  const std::string ring = R"(
    [[hosts]]
    count = 4
    gpus = 1
    [fabric]
    kind = "torus"
    dimensions = [4]
    [[failures]]
    at = "1ms"
    between = ["switch3", "switch0"]
  )";
  const Cluster cluster = parse_cluster_toml(ring);
  const auto between_switches = [&](Time at) {
    std::map<std::string, std::size_t> found;
    for (const SinglePoint& point : single_points(cluster, at))
      if (point.other_end && cluster.topology.name(point.node).starts_with("switch"))
        found[cluster.topology.name(point.node) + " - " + cluster.topology.name(*point.other_end)] =
            point.gpus;
    return found;
  };
  EXPECT_EQ(between_switches(Time{}), (std::map<std::string, std::size_t>{}));
  EXPECT_EQ(between_switches(Time{} + 1ms),
            (std::map<std::string, std::size_t>{
                {"switch0 - switch1", 1}, {"switch1 - switch2", 2}, {"switch2 - switch3", 1}}));
}

// ---- Size --------------------------------------------------------------------------------------

TEST(TopologyAnalysis, Of16384Gpus) {
  const Cluster cluster = parse_cluster("h200:2048x8");
  expect_cut(cluster, bisection(cluster), 1024 * 8 * nic);
  expect_cut(cluster, narrowest_cut(cluster, cluster.hosts[0], cluster.hosts[2047]), 8 * nic);
  // Other pod, other rail: leaf, spine, core, spine, leaf.
  EXPECT_EQ(longest_path(cluster).links, 10U);
  // Each GPU's PCIe switch, and its cable to that.
  EXPECT_EQ(single_points(cluster).size(), 2 * cluster.gpus.size());
}

}  // namespace
}  // namespace phantora
