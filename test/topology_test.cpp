#include <phantora/cluster/topologies.hpp>
#include <phantora/cluster/topology.hpp>
#include <phantora/cluster/topology_render.hpp>
#include <phantora/error.hpp>
#include <phantora/network/flow_network.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace phantora {
namespace {

using namespace std::chrono_literals;
using topologies::make_cluster;

/// The message of the error that `act` throws.
template <class Thrown, class Act>
std::string message_of(Act act) {
  try {
    act();
  } catch (const Thrown& error) {
    return error.what();
  }
  return "nothing thrown";
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// ---- Validation ---------------------------------------------------------------------------------

TEST(Topology, ValidationNamesWhatIsWrong) {
  const auto build = [](auto fill) {
    return message_of<TopologyError>([&] {
      TopologyBuilder builder;
      fill(builder);
      std::move(builder).build();
    });
  };
  EXPECT_TRUE(contains(build([](auto& b) {
                         b.add_gpu("a");
                         b.add_gpu("a");
                       }),
                       "\"a\""));
  EXPECT_TRUE(
      contains(build([](auto& b) { b.add_link(b.add_gpu("a"), b.add_gpu("b"), {}); }), "a->b"));
  EXPECT_TRUE(contains(build([](auto& b) {
                         const auto a = b.add_gpu("a");
                         b.add_link(a, a, {1_GBps, 0ns});
                       }),
                       "itself"));
  EXPECT_TRUE(contains(build([](auto& b) {
                         b.add_duplex_link(b.add_gpu("a"), b.add_switch("s"), {1_GBps, 0ns});
                         b.add_gpu("lonely");
                       }),
                       "\"lonely\""));
  EXPECT_TRUE(contains(build([](auto& b) {
                         b.add_link(b.add_gpu("a"), b.add_gpu("b"), {1_GBps, 0ns});
                       }),
                       "\"b\""));
  EXPECT_TRUE(contains(build([](auto& b) {
                         const auto a = b.add_gpu("a"), c = b.add_gpu("c");
                         b.add_duplex_link(a, c, {1_GBps, 0ns, "x"});
                         b.add_duplex_link(a, c, {1_GBps, 0ns, "x"});
                       }),
                       "\"x/up\""));
}

TEST(Topology, ParallelLinksHaveNamesOfTheirOwn) {
  TopologyBuilder builder;
  const auto a = builder.add_gpu("a"), b = builder.add_gpu("b");
  builder.add_duplex_link(a, b, {1_GBps, 0ns});
  const auto [second, back] = builder.add_duplex_link(a, b, {1_GBps, 0ns});
  const Topology topology = std::move(builder).build();
  EXPECT_EQ(topology.name(second), "a->b#2");
  EXPECT_EQ(topology.find_link("b->a#2"), back);
  EXPECT_EQ(topology.find_node("b"), b);
  EXPECT_EQ(topology.find_node("c"), std::nullopt);
}

// ---- Routes ----------------------------------------------------------------------------------

std::vector<std::string> kinds_along(const Cluster& cluster, NodeId from, NodeId to,
                                     std::uint64_t key = 0) {
  std::vector<std::string> kinds;
  for (const LinkId link : cluster.topology.route(from, to, key))
    kinds.emplace_back(to_string(cluster.topology.kind(cluster.topology.target(link))));
  return kinds;
}

TEST(Routing, PrefersNvlinkThenTheRailThenTheSpine) {
  const Cluster cluster = parse_cluster("h200:2x8");
  using Kinds = std::vector<std::string>;
  EXPECT_EQ(kinds_along(cluster, cluster.gpus[0], cluster.gpus[5]), (Kinds{"nvswitch", "gpu"}));
  EXPECT_EQ(kinds_along(cluster, cluster.gpus[3], cluster.gpus[11]),
            (Kinds{"pcie_switch", "nic", "switch", "nic", "pcie_switch", "gpu"}));
  EXPECT_EQ(
      kinds_along(cluster, cluster.gpus[0], cluster.gpus[9]),
      (Kinds{"pcie_switch", "nic", "switch", "switch", "switch", "nic", "pcie_switch", "gpu"}));
  EXPECT_EQ(kinds_along(cluster, cluster.gpus[0], cluster.hosts[0].memory),
            (Kinds{"pcie_switch", "host_bridge", "host_bridge", "memory"}));
}

TEST(Routing, PcieCardsMeetAtTheCpu) {
  const Cluster cluster = parse_cluster("l40s:1x4");
  EXPECT_EQ(kinds_along(cluster, cluster.gpus[0], cluster.gpus[3]),
            (std::vector<std::string>{"pcie_switch", "host_bridge", "host_bridge", "host_bridge",
                                      "pcie_switch", "gpu"}));
}

TEST(Routing, EcmpSpreadsKeysOverAllShortestPathsAndRepeatsItself) {
  // 8 spines between rails of 8 hosts: 800 keys should put about 100 on each.
  const Cluster cluster = parse_cluster("h200:8x8");
  const Topology& topology = cluster.topology;
  std::map<NodeId, int> spines;
  for (std::uint64_t key = 0; key < 800; ++key) {
    const auto route = topology.route(cluster.gpus[0], cluster.gpus[9], key);
    EXPECT_EQ(route, topology.route(cluster.gpus[0], cluster.gpus[9], key));
    ++spines[topology.target(route.at(3))];
  }
  EXPECT_EQ(spines.size(), 8U);
  for (const auto& [spine, count] : spines) {
    EXPECT_GT(count, 60);  // 100 - 4 standard deviations
    EXPECT_LT(count, 140);
  }
}

TEST(Routing, AroundAFailedLeafMeetsAtNoGpu) {
  // The searches from both ends reach host0/gpu1 before any node that leads on: the way is over the
  // CPUs, the other NICs and the other leaf.
  const Cluster cluster = parse_cluster("h200:2x2");
  const Topology& topology = cluster.topology;
  const std::vector<LinkId> down = topology.links_of(topology.find_node("leaf0").value());
  const auto capacity = [&](LinkId link) {
    return std::find(down.begin(), down.end(), link) == down.end() ? 1.0 : 0.0;
  };
  const NetworkView view = topology.view();
  const Route route =
      view.router()->route({.src = cluster.gpus[0], .dst = cluster.gpus[2], .capacity = capacity});
  EXPECT_EQ(route.links.size(), 14U);
}

TEST(Routing, SprayUsesEverySpineEvenly) {
  const Cluster cluster = parse_cluster("h200:4x8");
  FlowNetwork net{cluster.topology.view({.routing = Routing::spray})};
  const FlowId f = net.start({.src = cluster.gpus[0], .dst = cluster.gpus[9], .size = 1_GB});
  net.advance_to(Time{});
  std::map<double, int> parts;
  for (const LinkUse& use : net.links(f)) ++parts[use.bytes_per_byte];
  EXPECT_EQ(parts, (std::map<double, int>{{0.25, 8}, {1.0, 6}}));  // 4 spines, two links each
  EXPECT_EQ(net.rate(f), 400_Gbps);
}

TEST(Routing, AdaptiveAvoidsTheLoadedSpine) {
  // 4 flows from 4 hosts' rail 0 to rail 1 share the leaves; 4 spines take one each.
  const Cluster cluster = parse_cluster("h200:4x8");
  FlowNetwork net{cluster.topology.view({.routing = Routing::adaptive})};
  std::vector<FlowId> flows;
  for (std::size_t h = 0; h < 4; ++h)
    flows.push_back(net.start({.src = cluster.hosts[h].gpus[0],
                               .dst = cluster.hosts[(h + 1) % 4].gpus[1],
                               .size = 50_MB}));
  net.advance_to(never);
  for (const FlowId f : flows)
    EXPECT_EQ(net.completion(f)->time_since_epoch(), 1ms + 4 * 115ns + 4 * 180ns);
}

TEST(Routing, TheFabricsTablesGiveTheRoutesOfASearch) {
  // A request that says every link is up is searched for; one that says nothing may be looked up.
  std::mt19937_64 random{5};
  for (const char* spec :
       {"h200:96x8", "h200:12x8/leaf_spine,hosts_per_leaf=2,oversubscription=2",
        "l40s:20x4/fat_tree", "a100:9x8/dragonfly,routers_per_group=3,nics_per_router=4",
        "h200:12x4/torus,dimensions=3x4"}) {
    const Cluster cluster = parse_cluster(spec);
    for (const Routing routing : {Routing::ecmp, Routing::spray}) {
      const NetworkView view = cluster.topology.view({.routing = routing});
      for (int i = 0; i < 300; ++i) {
        RouteRequest request{.src = cluster.gpus[random() % cluster.gpus.size()],
                             .dst = cluster.gpus[random() % cluster.gpus.size()],
                             .key = random()};
        if (request.src == request.dst) continue;
        const Route looked_up = view.router()->route(request);
        request.capacity = [](LinkId) { return 1.0; };
        const Route searched = view.router()->route(request);
        ASSERT_EQ(looked_up.links, searched.links) << spec;
        ASSERT_EQ(looked_up.latency, searched.latency) << spec;
      }
    }
  }
}

TEST(Routing, UnreachableEndsAreReported) {
  TopologyBuilder builder;
  const auto a = builder.add_switch("a"), b = builder.add_switch("b");
  builder.add_link(a, b, {1_GBps, 0ns});
  const Topology topology = std::move(builder).build();
  const std::string message = message_of<RouteError>([&] { (void)topology.route(b, a); });
  EXPECT_TRUE(contains(message, "\"b\"") && contains(message, "\"a\"")) << message;
}

// ---- Failures ----------------------------------------------------------------------------------

constexpr const char* failing = R"([[hosts]]
gpu = "h200"
count = 2
[[failures]]
at = "1ms"
until = "3ms"
between = ["host0/nic0", "leaf0"]
speed = 0.5
)";

TEST(Failures, ACableAtHalfSpeedForAWhile) {
  const Cluster cluster = parse_cluster_toml(failing);
  ASSERT_EQ(cluster.failures.size(), 1U);
  EXPECT_EQ(cluster.failures[0].links.size(), 2U);
  FlowNetwork net{cluster.topology.view()};
  schedule_failures(cluster, net);
  // 50 GB/s for 1 ms, half of it for 2 ms, then the last 100 MB of 200 MB at full speed.
  const FlowId f = net.start({.src = cluster.gpus[0], .dst = cluster.gpus[8], .size = 200_MB});
  net.advance_to(never);
  EXPECT_EQ(*net.completion(f), Time{5ms + 2 * 180ns + 4 * 115ns});
}

TEST(Failures, FlowsMoveOffASwitchThatGoesDown) {
  Cluster cluster = parse_cluster("h200:2x8");
  const auto route = cluster.topology.route(cluster.gpus[0], cluster.gpus[9]);
  const NodeId spine = cluster.topology.target(route.at(3));
  cluster.failures.push_back({.at = Time{1ms}, .links = cluster.topology.links_of(spine)});
  FlowNetwork net{cluster.topology.view()};
  schedule_failures(cluster, net);
  const FlowId f = net.start({.src = cluster.gpus[0], .dst = cluster.gpus[9], .size = 100_MB});
  net.advance_to(Time{1500us});
  EXPECT_EQ(net.rate(f), 400_Gbps);
  for (const LinkUse& use : net.links(f)) {
    EXPECT_NE(cluster.topology.source(use.link), spine);
    EXPECT_NE(cluster.topology.target(use.link), spine);
  }
  net.advance_to(never);
  EXPECT_EQ(net.completion(f)->time_since_epoch(), 2ms + 4 * 115ns + 4 * 180ns);
}

// ---- Generators --------------------------------------------------------------------------------

std::size_t switches(const Cluster& cluster, std::string_view prefix) {
  std::size_t count = 0;
  for (std::uint32_t v = 0; v < cluster.topology.node_count(); ++v)
    count += cluster.topology.kind(NodeId{v}) == NodeKind::network_switch &&
             cluster.topology.name(NodeId{v}).starts_with(prefix);
  return count;
}

TEST(Topologies, FatTreeHasTheSwitchesOfTheBook) {
  // k = 4: 16 NICs; 4 pods of 2 edge and 2 aggregation switches, 4 cores.
  const Cluster cluster = parse_cluster("h200:2x8/fat_tree,k=4");
  EXPECT_EQ(switches(cluster, "edge"), 8U);
  EXPECT_EQ(switches(cluster, "agg"), 8U);
  EXPECT_EQ(switches(cluster, "core"), 4U);
  // Pods apart: edge, aggregation, core, aggregation, edge.
  EXPECT_EQ(cluster.topology.route(cluster.gpus[0], cluster.gpus[15]).size(), 10U);
}

TEST(Topologies, OversubscriptionThinsTheUplinks) {
  // 32 ports down, 16 up: an all-to-all between leaves gets half.
  const Cluster full = parse_cluster("h200:8x8/leaf_spine,hosts_per_leaf=4");
  const Cluster half = parse_cluster("h200:8x8/leaf_spine,hosts_per_leaf=4,oversubscription=2");
  EXPECT_EQ(switches(full, "spine"), 32U);
  EXPECT_EQ(switches(half, "spine"), 16U);
  for (const auto& [cluster, expected] : {std::pair{&full, 1.0}, std::pair{&half, 2.0}}) {
    FlowNetwork net{cluster->topology.view({.routing = Routing::spray})};
    std::vector<FlowId> flows;
    for (std::size_t g = 0; g < 32; ++g)
      flows.push_back(
          net.start({.src = cluster->gpus[g], .dst = cluster->gpus[32 + g], .size = 50_MB}));
    net.advance_to(never);
    for (const FlowId f : flows)
      EXPECT_NEAR(to_seconds(net.completion(f)->time_since_epoch()), expected * 1e-3, 2e-6);
  }
}

TEST(Topologies, DragonflyGroupsAreOneGlobalHopApart) {
  const Cluster cluster =
      parse_cluster("h200:16x8/dragonfly,routers_per_group=4,nics_per_router=8");
  EXPECT_EQ(switches(cluster, "g"), 16U);
  for (const auto& [a, b] : {std::pair{0U, 127U}, {5U, 64U}, {31U, 32U}}) {
    std::set<std::string> groups;
    for (const LinkId link : cluster.topology.route(cluster.gpus[a], cluster.gpus[b])) {
      const std::string& name = cluster.topology.name(cluster.topology.target(link));
      if (name.starts_with('g')) groups.insert(name.substr(0, name.find('r')));
    }
    EXPECT_LE(groups.size(), 2U);
  }
}

TEST(Topologies, TorusRoutesTakeTheShortWayRound) {
  const Cluster cluster = parse_cluster("h200:16x8/torus,dimensions=4x4");
  // Hosts 0 and 3 are neighbours around the circle: NIC, switch, switch, NIC.
  EXPECT_EQ(cluster.topology.route(cluster.hosts[0].gpus[0], cluster.hosts[3].gpus[0]).size(), 7U);
  EXPECT_EQ(cluster.topology.route(cluster.hosts[0].gpus[0], cluster.hosts[10].gpus[0]).size(),
            10U);
}

TEST(Topologies, MixedAndUnevenHosts) {
  const Cluster cluster = make_cluster({{.gpu_model = "h200", .hosts = 2, .gpus_per_host = 8},
                                        {.gpu_model = "l40s", .hosts = 3, .gpus_per_host = 4}});
  EXPECT_EQ(cluster.gpus.size(), 28U);
  EXPECT_EQ(cluster.hosts.at(4).gpu_model, "l40s");
  EXPECT_EQ(cluster.host_of(cluster.gpus.back()).name, "host4");
  EXPECT_GT(cluster.topology.route(cluster.gpus.front(), cluster.gpus.back()).size(), 0U);
}

TEST(Topologies, AMeshJoinsGpusInPairs) {
  const Cluster cluster =
      parse_cluster_toml("[[hosts]]\ngpu = \"a100\"\ngpus = 4\nnvlink_mesh = true");
  EXPECT_FALSE(cluster.hosts[0].nvswitch);
  const auto route = cluster.topology.route(cluster.gpus[0], cluster.gpus[3]);
  ASSERT_EQ(route.size(), 1U);
  EXPECT_EQ(cluster.topology.bandwidth(route[0]), 100_GBps);  // 4 of 12 NVLinks
}

TEST(Topologies, EveryPresetAndFabricJoinsAllGpus) {
  for (const char* model : {"h200", "h100", "a100", "b200", "l40s"}) {
    for (const char* fabric : {"", "/rail_optimized", "/leaf_spine", "/fat_tree", "/dragonfly",
                               "/torus,dimensions=3x2", "/single_switch"}) {
      const Cluster cluster = parse_cluster(std::string{model} + ":5x8" + fabric);
      EXPECT_EQ(cluster.gpus.size(), 40U);
      EXPECT_NO_THROW((void)cluster.topology.route(cluster.gpus[1], cluster.gpus[38]))
          << model << fabric;
    }
  }
}

TEST(Topologies, SixteenThousandGpusBuildQuickly) {
  const auto start = std::chrono::steady_clock::now();
  const Cluster cluster = parse_cluster("h100:2048x8");
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(cluster.gpus.size(), 16'384U);
  EXPECT_LT(seconds.count(), 5);  // 0.3 s on an idle machine; the target is 1 s
  EXPECT_EQ(switches(cluster, "leaf"), 512U);
}

// ---- Specs and TOML
// ------------------------------------------------------------------------------

std::string spec_error(std::string_view spec) {
  return message_of<ConfigError>([&] { (void)parse_cluster(spec); });
}

TEST(ClusterSpec, ErrorsSayWhatWasExpected) {
  for (const char* spec : {"", "h200", "h200:", "h200:2", "h200:0x8", "h200:2x9", "h200:x8",
                           "h200:2x8x2", "h300:2x8", ":2x8", "h200:-1x8"}) {
    const std::string message = spec_error(spec);
    EXPECT_TRUE(contains(message, "PRESET:HOSTSxGPUS") && contains(message, "h200"))
        << spec << message;
  }
  EXPECT_TRUE(contains(spec_error("h200:2x8/mesh"), "rail_optimized"));
  EXPECT_TRUE(contains(spec_error("h200:2x8+"), "no colon"));
  EXPECT_TRUE(contains(spec_error("h200:2x8/torus,dimensions=2,routing=luck"), "adaptive"));
  EXPECT_TRUE(contains(spec_error("h200:2x8/fat_tree,k=3"), "even"));
  EXPECT_TRUE(contains(spec_error("h200:2x8/fat_tree,q=4"), "\"q\""));
  EXPECT_TRUE(contains(spec_error("h200:2x8/leaf_spine,oversubscription=half"), "a number"));
  EXPECT_TRUE(contains(spec_error("nowhere.toml"), "cannot be read"));
}

TEST(ClusterSpec, MixesHostsAndChoosesRouting) {
  const Cluster cluster = parse_cluster("h200:2x8+l40s:3x4/single_switch,routing=spray,seed=3");
  EXPECT_EQ(cluster.gpus.size(), 28U);
  EXPECT_EQ(cluster.hosts.back().gpu_model, "l40s");
  EXPECT_EQ(cluster.routing.routing, Routing::spray);
  EXPECT_EQ(cluster.routing.seed, 3U);
  // PCIe switch, NIC, switch, NIC, PCIe switch, GPU.
  EXPECT_EQ(cluster.topology.route(cluster.gpus.front(), cluster.gpus.back()).size(), 6U);
}

constexpr const char* full_toml = R"(name = "two racks"
[[hosts]]
gpu = "h100"
count = 4
gpus = 8
memory = "80GB"
nic = "200Gbps"
[[hosts]]
gpu = "l40s"
gpus = 4
[fabric]
kind = "leaf_spine"
link = "800Gbps"
latency = "250ns"
oversubscription = 2
hosts_per_leaf = 2
[routing]
mode = "spray"
seed = 7
[[failures]]
at = "10ms"
until = "20ms"
node = "spine0"
speed = 0.25
[[failures]]
at = "10ms"
link = "leaf0->spine0"
)";

TEST(ClusterToml, ReadsEverything) {
  const Cluster cluster = parse_cluster_toml(full_toml, "racks.toml");
  EXPECT_EQ(cluster.name, "two racks");
  EXPECT_EQ(cluster.gpus.size(), 36U);
  EXPECT_EQ(cluster.hosts.front().gpu_memory, 80_GB);
  EXPECT_EQ(cluster.hosts.back().gpu_memory, std::nullopt);
  EXPECT_EQ(cluster.routing.routing, Routing::spray);
  EXPECT_EQ(cluster.routing.seed, 7U);
  const auto nic_link = cluster.topology.find_link("host0/nic0->leaf0");
  ASSERT_TRUE(nic_link);
  EXPECT_EQ(cluster.topology.bandwidth(*nic_link), 200_Gbps);
  EXPECT_EQ(cluster.topology.latency(*nic_link), 250ns);
  const auto spine_link = cluster.topology.find_link("leaf0->spine0");
  ASSERT_TRUE(spine_link);
  EXPECT_EQ(cluster.topology.bandwidth(*spine_link), 800_Gbps);
}

TEST(ClusterToml, EachGroupOfHostsHasItsOwnMemory) {
  const Cluster cluster = parse_cluster_toml(R"(
[[hosts]]
gpu = "h200"
memory = "100GB"
[[hosts]]
gpu = "h200"
count = 2
[[hosts]]
gpu = "l40s"
memory = "24GB"
)");
  ASSERT_EQ(cluster.hosts.size(), 4U);
  EXPECT_EQ(cluster.hosts[0].gpu_memory, 100_GB);
  EXPECT_EQ(cluster.hosts[1].gpu_memory, std::nullopt);
  EXPECT_EQ(cluster.hosts[2].gpu_memory, std::nullopt);
  EXPECT_EQ(cluster.hosts[3].gpu_memory, 24_GB);
  const std::string table = render_table(cluster);
  EXPECT_TRUE(contains(table, "8 x h200, 100 GB")) << table;
  EXPECT_TRUE(contains(table, "host1..host2  8 x h200  ")) << table;
  EXPECT_EQ(nlohmann::json::parse(render_json(cluster))["hosts"][3]["gpu_memory_bytes"],
            24'000'000'000);
}

TEST(ClusterToml, ErrorsNameLineFieldAndExpectation) {
  const auto error = [](std::string_view text) {
    return message_of<ConfigError>([&] { (void)parse_cluster_toml(text, "c.toml"); });
  };
  const auto names = [&](std::string_view text, std::initializer_list<std::string_view> parts) {
    const std::string message = error(text);
    for (const std::string_view part : parts)
      EXPECT_TRUE(contains(message, part)) << part << ": " << message;
  };
  names("", {"c.toml", "[[hosts]]"});
  names("name = 3\n[[hosts]]", {"c.toml:1", "cluster.name = 3", "text"});
  names("[[hosts]]\nmemory = \"0GB\"", {"c.toml:1", "memory", "more than nothing"});
  names("hosts = 3", {"c.toml:1", "[[hosts]]"});
  names("[[hosts]]\ngpu = \"h300\"", {"c.toml:2", "hosts.gpu", "h300", "h200"});
  names("[[hosts]]\n\ncount = \"two\"", {"c.toml:3", "hosts.count", "two", "whole number"});
  names("[[hosts]]\nmemory = \"80 bananas\"", {"c.toml:2", "hosts.memory", "141GB"});
  names("[[hosts]]\nnic = 400", {"c.toml:2", "hosts.nic", "400Gbps"});
  names("[[hosts]]\ncolour = \"red\"", {"c.toml:2", "colour", "expected one of"});
  names("[[hosts]]\n[fabric]\nkind = \"mesh\"", {"c.toml:3", "fabric.kind", "torus"});
  names("[[hosts]]\ncount=2\n[fabric]\nlatency = \"fast\"",
        {"c.toml:4", "fabric.latency", "180ns"});
  names("[[hosts]]\ncount=2\n[fabric]\nkind=\"fat_tree\"\nk = 5", {"c.toml:3", "even"});
  names("[[hosts]]\n[routing]\nmode = \"guess\"", {"c.toml:3", "routing.mode", "ecmp"});
  names("[[hosts]]\n[fabrik]", {"c.toml:2", "fabrik"});
  const auto failure = [&](const std::string& lines,
                           std::initializer_list<std::string_view> parts) {
    names("[[hosts]]\ncount = 2\n[[failures]]\n" + lines, parts);
  };
  failure("", {"c.toml:3", "failures: at", "10ms"});
  failure("at = \"1ms\"", {"c.toml:3", "node, link and between"});
  failure("at = \"soon\"", {"c.toml:4", "failures.at", "10ms"});
  failure("at = \"1ms\"\nnode = \"spine99\"", {"c.toml:3", "spine99", "--format json"});
  failure("at = \"1ms\"\nlink = \"leaf0->leaf1\"", {"c.toml:3", "leaf0->leaf1"});
  failure("at = \"1ms\"\nbetween = [\"leaf0\"]", {"c.toml:3", "two nodes"});
  failure("at = \"1ms\"\nbetween = [\"leaf0\", \"leaf1\"]", {"c.toml:3", "no link"});
  failure("at = \"1ms\"\nnode = \"leaf0\"\nspeed = 2", {"c.toml:3", "speed", "0 to 1"});
  failure("at = \"1ms\"\nnode = \"leaf0\"\nuntil = \"1ms\"", {"c.toml:3", "until", "after"});
  failure("at = \"1ms\"\nnode = \"leaf0\"\nwhy = \"rain\"", {"c.toml:6", "why"});
  names("[[hosts]\n", {"c.toml:1"});
}

TEST(ClusterToml, GpusOfItsOwn) {
  const Cluster cluster = parse_cluster_toml(R"(
[gpu.h20]
like = "h200"
name = "NVIDIA H20"
sms = 78
memory = "96GB"
memory_bandwidth = "4TB/s"
half = "148TFLOPS"
[gpu.new-one]
capability = "12.1"
sms = 160
clock = "2500 MHz"
memory = "288GB"
memory_bandwidth = "13TB/s"
l2 = "128MiB"
nvlink = "1.8TB/s"
pcie = "128GB/s"
fp8 = "10PFLOPS"
half = "5 PFLOP/s"
fp32 = "100TFLOPS"
[[hosts]]
gpu = "h20"
[[hosts]]
gpu = "new-one"
memory = "100GB"
[[hosts]]
)");
  ASSERT_EQ(cluster.hosts.size(), 3U);
  GpuModel h20 = gpu_model("h200");
  h20.key = "h20";
  h20.name = "NVIDIA H20";
  h20.sm_count = 78;
  h20.memory = 96_GB;
  h20.memory_bandwidth = 4000_GBps;
  h20.half = 148_TFLOPS;
  h20.tensor_power = h20.memory_power = 0.0;  // not known
  EXPECT_EQ(gpu_model(cluster.hosts[0]), h20);
  const GpuModel other = gpu_model(cluster.hosts[1]);
  EXPECT_EQ(other.name, "new-one");
  EXPECT_EQ(other.capability_major, 12);
  EXPECT_EQ(other.capability_minor, 1);
  EXPECT_EQ(other.clock_hz, 2.5e9);
  EXPECT_EQ(other.memory, 100_GB);
  EXPECT_EQ(gpu_kind(cluster.hosts[1]).memory, 288_GB);
  EXPECT_EQ(other.half, 5000_TFLOPS);
  EXPECT_EQ(other.tf32, FlopRate{});
  EXPECT_EQ(gpu_model(cluster.hosts[2]), gpu_model("h200"));
  // Wired as their data sheets say: all NVLinks of a GPU together, and PCIe as presets have it.
  const auto speed = [&](const char* link) {
    return cluster.topology.bandwidth(*cluster.topology.find_link(link));
  };
  EXPECT_EQ(speed("host0/gpu0->host0/nvswitch"), 450_GBps);
  EXPECT_EQ(speed("host1/gpu0->host1/nvswitch"), 1800_GBps);
  EXPECT_EQ(speed("host0/gpu0->host0/pcie0"), speed("host2/gpu0->host2/pcie0"));
  EXPECT_EQ(speed("host1/gpu0->host1/pcie0"), speed("host2/gpu0->host2/pcie0") * 2.0);
}

TEST(ClusterToml, APowerLimitLeavesTensorCoresAndMemoryLess) {
  const auto limited = [](const std::string& fields) {
    return gpu_model(
        parse_cluster_toml("[gpu.mine]\nlike = \"h100\"\n" + fields + "[[hosts]]\ngpu = \"mine\"\n")
            .hosts[0]);
  };
  // Beyond the 125 W of idling and the 10 W by which the clock falls early, 700 W leave 565, 500 W
  // 365.
  const GpuModel h100 = gpu_model("h100");
  EXPECT_DOUBLE_EQ(limited("power_limit = \"700W\"\n").tensor_power, h100.tensor_power);
  EXPECT_DOUBLE_EQ(limited("power_limit = \"500W\"\n").tensor_power, h100.tensor_power * 565 / 365);
  // A slower memory draws less.
  EXPECT_DOUBLE_EQ(
      limited("power_limit = \"0.5 kW\"\nmemory_bandwidth = \"1675GB/s\"\n").memory_power,
      h100.memory_power * 565 / 365 / 2);
  EXPECT_EQ(limited("").tensor_power, 0.0);
}

TEST(ClusterToml, AnUnnamedGpuIsThatOfAllHosts) {
  const Cluster cluster = parse_cluster_toml(
      "[gpu]\nlike = \"l40s\"\nname = \"NVIDIA L40\"\nhalf = \"181TFLOPS\"\n[[hosts]]\n[[hosts]]\n"
      "gpu = \"l40s\"");
  EXPECT_EQ(gpu_model(cluster.hosts[0]).half, 181_TFLOPS);
  EXPECT_EQ(gpu_model(cluster.hosts[0]).nvlink, Bandwidth{});
  EXPECT_FALSE(cluster.hosts[0].nvswitch);
  EXPECT_EQ(gpu_model(cluster.hosts[1]), gpu_model("l40s"));
}

TEST(ClusterToml, ErrorsOfGpusNameLineFieldAndExpectation) {
  const auto names = [](const std::string& text, std::initializer_list<std::string_view> parts) {
    const std::string message =
        message_of<ConfigError>([&] { (void)parse_cluster_toml(text + "\n[[hosts]]", "c.toml"); });
    for (const std::string_view part : parts)
      EXPECT_TRUE(contains(message, part)) << part << ": " << message;
  };
  names("gpu = 3", {"c.toml:1", "gpu", "table"});
  names("[gpu.mine]\nlike = \"h300\"", {"c.toml:2", "gpu.mine.like", "h300", "h200"});
  names("[gpu.mine]\nsms = 78", {"c.toml:1", "gpu.mine", "capability", "like"});
  names("[gpu.mine]\nlike = \"h200\"\nclock = \"2\"", {"c.toml:3", "gpu.mine.clock", "1.98GHz"});
  names("[gpu]\nlike = \"h200\"\nhalf = 989", {"c.toml:3", "gpu.half = 989", "989TFLOPS"});
  names("[gpu.mine]\nlike = \"h200\"\nhalf = \"0TFLOPS\"", {"c.toml:1", "half", "more than"});
  names("[gpu.mine]\nlike = \"h200\"\ncapability = \"9\"", {"c.toml:3", "capability", "9.0"});
  names("[gpu.mine]\nlike = \"h200\"\ncapability = \"9.0a\"", {"c.toml:3", "capability"});
  names("[gpu.mine]\nlike = \"h200\"\nmemory = \"1MB\"", {"c.toml:1", "memory", "context"});
  names("[gpu.mine]\nlike = \"h200\"\ntensor = 4", {"c.toml:3", "tensor", "expected one of"});
  names("[gpu.mine]\nlike = \"h200\"\npower_limit = \"130W\"",
        {"c.toml:1", "power_limit", "135 W"});
  names("[gpu.mine]\nlike = \"a100\"\npower_limit = \"300W\"", {"c.toml:1", "power_limit", "h100"});
  names("[gpu.mine]\nlike = \"h200\"\npower_limit = 500", {"c.toml:3", "power_limit", "500W"});
  names("[gpu.h200]\nlike = \"h200\"", {"c.toml:1", "gpu.h200", "name of its own"});
  names("[gpu.\"a b\"]\nlike = \"h200\"", {"c.toml:1", "letters"});
  names("[gpu.mine]\nlike = \"h200\"\n[gpu]\nhalf = \"1TFLOPS\"", {"c.toml:4", "gpu.half"});
}

/// Cuts, doubles and overwrites pieces of a text.
std::string mutated(std::string text, std::mt19937_64& random,
                    const std::vector<std::string>& pieces) {
  for (std::uint64_t edits = 1 + random() % 4; edits > 0 && !text.empty(); --edits) {
    const std::size_t at = random() % text.size(), length = random() % 12;
    switch (random() % 4) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, text.substr(random() % text.size(), length));
        break;
      case 2:
        text[at] = static_cast<char>(1 + random() % 255);  // what() ends at a zero
        break;
      default:
        text.insert(at, pieces[random() % pieces.size()]);
    }
  }
  return text;
}

TEST(ClusterToml, NoTextBreaksTheParser) {
  // Each gives a cluster, or a ConfigError that names the source.
  std::mt19937_64 random{3};
  int accepted = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string text = mutated(
        full_toml, random, {"=", "[", "]", "\"", "9", "-", "\n", ".", "1e999", "nan", "{}"});
    try {
      (void)parse_cluster_toml(text, "fuzz");
      ++accepted;
    } catch (const ConfigError& error) {
      EXPECT_TRUE(std::string_view{error.what()}.starts_with("fuzz")) << error.what();
    }
  }
  EXPECT_GT(accepted, 30);  // or the edits are too wild to reach the depths
}

TEST(ClusterSpec, NoTextBreaksTheParser) {
  const std::vector<std::string> good{"h200:2x8",
                                      "h100:4x8/leaf_spine,oversubscription=2,hosts_per_leaf=2",
                                      "l40s:3x4/fat_tree,k=8,latency=1us",
                                      "b200:2x8/dragonfly,routers_per_group=2,nics_per_router=4",
                                      "a100:4x8/torus,dimensions=2x2,link=200Gbps"};
  std::mt19937_64 random{4};
  int accepted = 0;
  for (int i = 0; i < 5000; ++i) {
    const std::string text = mutated(good[random() % good.size()], random,
                                     {":", "x", "/", ",", "=", "9", "-", "0", ".toml", "torus"});
    int digits = 0, most = 0;
    for (const char c : text) most = std::max(most, digits = c >= '0' && c <= '9' ? digits + 1 : 0);
    if (most > 3) continue;  // may be a large cluster, which takes its time
    try {
      (void)parse_cluster(text);
      ++accepted;
    } catch (const ConfigError& error) {
      EXPECT_TRUE(contains(error.what(), text)) << error.what();
    }
  }
  EXPECT_GT(accepted, 50);
}

TEST(ClusterSpec, NumbersThatWouldFillTheMemoryAreRefused) {
  for (const char* spec :
       {"h200:2x8/torus,dimensions=1000000x1000000x1000000", "h200:2x8/fat_tree,k=1000000",
        "h200:2x8/dragonfly,routers_per_group=1000000", "h200:65536x8"}) {
    const std::string message = spec_error(spec);
    EXPECT_TRUE(contains(message, "4194304") || contains(message, "4096")) << spec << message;
  }
}

// ---- Descriptions
// ---------------------------------------------------------------------------------

TEST(TopologyRender, TableAndRouteSayWhatThereIs) {
  const Cluster cluster = parse_cluster("h200:2x8");
  const std::string table = render_table(cluster);
  EXPECT_TRUE(contains(table, "16 GPUs in 2 hosts"));
  EXPECT_TRUE(contains(table, "host0..host1"));
  EXPECT_TRUE(contains(table, "450 GB/s"));
  EXPECT_TRUE(contains(render_table(parse_cluster_toml(failing)),
                       "0.001 s   0.003 s  50 %  host0/nic0->leaf0 and 1 more"));
  const std::string route = render_route(cluster, cluster.gpus[0], cluster.gpus[8]);
  EXPECT_TRUE(contains(route, "host0/nic0->leaf0"));
  EXPECT_TRUE(contains(route, "6 links, 50 GB/s"));
}

TEST(TopologyRender, JsonHoldsEveryNodeAndLink) {
  const Cluster cluster = parse_cluster("a100:2x4");
  const auto it = nlohmann::json::parse(render_json(cluster));
  EXPECT_EQ(it["nodes"].size(), cluster.topology.node_count());
  EXPECT_EQ(it["links"].size(), cluster.topology.link_count());
  EXPECT_EQ(it["hosts"][1]["gpus"].size(), 4U);
  EXPECT_EQ(it["links"][0]["bytes_per_second"],
            cluster.topology.bandwidth(LinkId{0}).bytes_per_second());
}

TEST(TopologyRender, FilesMayHaveAnyName) {
  const Cluster cluster = parse_cluster_toml("[[hosts]]", "caf\xe9.toml");
  EXPECT_EQ(nlohmann::json::parse(render_json(cluster))["name"], "caf\xef\xbf\xbd.toml");  // U+FFFD
  EXPECT_TRUE(contains(render_dot(cluster), "caf\xef\xbf\xbd.toml"));
}

TEST(TopologyRender, DotAndSvgDrawEveryGpuOfASmallCluster) {
  const Cluster cluster = parse_cluster("h200:2x8");
  const std::string dot = render_dot(cluster), svg = render_svg(cluster);
  for (const NodeId gpu : cluster.gpus) {
    EXPECT_TRUE(contains(dot, "\"" + cluster.topology.name(gpu) + "\" --") ||
                contains(dot, "-- \"" + cluster.topology.name(gpu) + "\""));
    EXPECT_TRUE(contains(svg, "<title>" + cluster.topology.name(gpu) + "</title>"));
  }
  EXPECT_EQ(std::count(svg.begin(), svg.end(), '<'), std::count(svg.begin(), svg.end(), '>'));
  EXPECT_TRUE(contains(render_svg(parse_cluster("h200:64x8")), "48 more"));
}

}  // namespace
}  // namespace phantora
