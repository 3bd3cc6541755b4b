#include <phantora/cluster/topologies.hpp>
#include <phantora/error.hpp>
#include <phantora/simulation/simulation.hpp>

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace phantora {
namespace {

using namespace std::chrono_literals;

// Numbers without the latencies of launches and the gaps between kernels, so that they add up by
// hand. What the network adds is computed from plans.
constexpr DeviceTiming no_overhead{.launch_latency = Duration{}, .kernel_gap = Duration{}};
const Kernel ten_us = known_time(10us);

Simulation on(const std::string& cluster) {
  return Simulation{parse_cluster(cluster), {.timing = no_overhead}};
}

/// How long a plan takes on an idle network.
Duration alone(const Cluster& cluster, const CollectivePlan& plan) {
  FlowNetwork network{cluster.topology.view()};
  std::vector<FlowId> flows;
  for (FlowSpec flow : plan.flows) {
    flow.start = Time{plan.latency};
    flows.push_back(network.start(flow));
  }
  network.advance_to(never);
  Time end{plan.latency};
  for (const FlowId flow : flows) end = std::max(end, *network.completion(flow));
  return end.time_since_epoch();
}

Duration all_reduce_alone(const Cluster& cluster, std::vector<GpuIndex> gpus, Bytes size) {
  std::vector<NodeId> nodes;
  for (const GpuIndex gpu : gpus) nodes.push_back(cluster.gpus[gpu]);
  return alone(cluster, Communicator{cluster, nodes}.plan(CollectiveOp::all_reduce, size));
}

Duration message_alone(const Cluster& cluster, GpuIndex from, GpuIndex to, Bytes size) {
  const SendRecv message{0, 1, size};
  const RankMessages sender{0, {&message, 1}}, receiver{1, {&message, 1}};
  return alone(cluster, Communicator{cluster, {cluster.gpus[from], cluster.gpus[to]}}.plan(
                            message, sender, receiver));
}

/// A rank's time is divided without rest; so is the critical path.
void expect_whole(const Report& report) {
  for (const RankReport& rank : report.ranks)
    EXPECT_EQ(rank.computing + rank.exposed + rank.waiting + rank.idle, report.makespan);
  Duration sum{};
  for (const PathPart& part : report.critical_path) sum += part.time;
  EXPECT_EQ(sum, report.makespan);
}

Duration on_path(const Report& report, PathKind kind) {
  Duration sum{};
  for (const PathPart& part : report.critical_path)
    if (part.kind == kind) sum += part.time;
  return sum;
}

TEST(Simulation, RunsKernelsOneAfterTheOther) {
  Workload w;
  w.launch(0, ten_us).launch(0, known_time(5us, "short")).launch(0, ten_us);
  const Report report = on("h200:1x1").run(w);
  EXPECT_EQ(report.makespan, 25us);
  EXPECT_EQ(report.ranks[0].computing, 25us);
  EXPECT_EQ(report.ranks[0].kernels.kernels, 3U);
  ASSERT_EQ(report.critical_path.size(), 2U);
  EXPECT_EQ(report.critical_path[0].time, 20us);
  EXPECT_EQ(report.critical_path[0].count, 2U);
  EXPECT_EQ(report.critical_path[1].name, "short");
  expect_whole(report);
}

TEST(Simulation, LaunchesTakeTime) {
  // Issued at 0, ready after the latency; the second has the gap.
  Workload w;
  w.launch(0, ten_us).launch(0, ten_us);
  const DeviceTiming timing{.launch_latency = 3us, .kernel_gap = 1us};
  const Report report = Simulation{parse_cluster("h200:1x1"), {.timing = timing}}.run(w);
  EXPECT_EQ(report.makespan, 3us + 10us + 1us + 10us);
  EXPECT_EQ(on_path(report, PathKind::launch), 4us);
  EXPECT_EQ(report.ranks[0].idle, 4us);
  expect_whole(report);
}

TEST(Simulation, HostsIssueInOrderAndBlock) {
  // 0: kernel until 10; the host works 4, blocks until 10, works 7, launches at 17, until 27.
  Workload w;
  w.launch(0, ten_us).host(0, 4us).synchronize(0, StreamNumber{0}).host(0, 7us).launch(0, ten_us);
  const Report report = on("h200:1x1").run(w);
  EXPECT_EQ(report.makespan, 27us);
  EXPECT_EQ(report.ranks[0].idle, 7us);
  EXPECT_EQ(on_path(report, PathKind::host), 7us);
  EXPECT_EQ(on_path(report, PathKind::kernel), 20us);
  expect_whole(report);
}

TEST(Simulation, StreamsRunSideBySideUnlessTheyAreOrdered) {
  // Kernels that fill a tenth of the GPU each leave one another alone.
  CostEstimate small{.duration = 10us, .source = CostSource::measured};
  small.demand = 0.1;
  const Kernel kernel{{.name = "small"}, small};
  Workload free, ordered;
  free.launch(0, kernel, 0).launch(0, kernel, 1);
  ordered.launch(0, kernel, 0).order(0, 0, 1).launch(0, kernel, 1);
  const Simulation simulation = on("h200:1x1");
  EXPECT_EQ(simulation.run(free).makespan, 10us);
  EXPECT_EQ(simulation.run(ordered).makespan, 20us);
  expect_whole(simulation.run(ordered));
}

TEST(Simulation, AnAllReduceTakesWhatItsPlanDoes) {
  const Simulation simulation = on("h200:2x8");
  std::vector<Rank> all(16);
  for (Rank rank = 0; rank < 16; ++rank) all[rank] = rank;
  Workload w;
  w.all_reduce(all, 1_GB);
  const Report report = simulation.run(w);
  EXPECT_EQ(report.makespan, all_reduce_alone(simulation.cluster(), all, 1_GB));
  // nvls_tree over 16 H200 (examples/all_reduce.cpp: 4.57 ms).
  EXPECT_NEAR(to_seconds(report.makespan), 4.57e-3, 0.01e-3);
  EXPECT_EQ(report.ranks[3].exposed, report.makespan);
  ASSERT_EQ(report.critical_path.size(), 1U);
  EXPECT_EQ(report.critical_path[0].name, "all_reduce of 1000000000 bytes by 16 ranks");
  EXPECT_TRUE(report.critical_path[0].link);
  expect_whole(report);
}

TEST(Simulation, RanksThatComeEarlyWaitForTheOthers) {
  // Rank 1 computes 30 us before it takes part: rank 0 waits so long, which is no communication.
  const Simulation simulation = on("h200:1x2");
  Workload w;
  for (int i = 0; i < 3; ++i) w.launch(1, ten_us);
  w.all_reduce({0, 1}, 64_MiB);
  const Report report = simulation.run(w);
  const Duration moving = all_reduce_alone(simulation.cluster(), {0, 1}, 64_MiB);
  EXPECT_EQ(report.makespan, 30us + moving);
  EXPECT_EQ(report.ranks[0].waiting, 30us);
  EXPECT_EQ(report.ranks[0].exposed, moving);
  EXPECT_EQ(report.ranks[1].waiting, 0us);
  EXPECT_EQ(report.ranks[1].computing, 30us);
  EXPECT_EQ(on_path(report, PathKind::kernel), 30us);
  EXPECT_EQ(on_path(report, PathKind::communication), moving);
  expect_whole(report);
}

TEST(Simulation, APipelinesBubbleIsWaiting) {
  // Two stages, m micro-batches of 1 ms forward each; between them a message of time c. The second
  // stage waits until the first micro-batch has arrived, 1 ms + c, of which the message moves for
  // c; after that they come each millisecond, and it computes for m ms: 1 + c + m.
  constexpr int m = 4;
  const Simulation simulation = on("h200:1x2");
  Workload w;
  // It leaves room for the SMs and the memory that messages take.
  CostEstimate price{.duration = 1ms, .source = CostSource::measured};
  price.demand = 0.1;
  const Kernel forward{{.name = "forward"}, price};
  for (int i = 0; i < m; ++i) {
    w.launch(0, forward).order(0, 0, 1).send(0, 1, 8_MiB, 1);
    w.receive(1, 0, 8_MiB, 1).order(1, 1, 0).launch(1, forward);
  }
  const Duration c = message_alone(simulation.cluster(), 0, 1, 8_MiB);
  const Report report = simulation.run(w);
  EXPECT_EQ(report.makespan, 1ms + c + m * 1ms);
  // The bubble: the first stage's first micro-batch.
  EXPECT_EQ(report.ranks[1].waiting, 1ms);
  EXPECT_EQ(report.ranks[1].exposed, c);
  EXPECT_EQ(report.ranks[1].idle, 0us);
  expect_whole(report);
}

TEST(Simulation, StepsEndWhereTheyAreMarked) {
  Workload w;
  for (const auto length : {50us, 10us, 30us, 20us}) {
    w.launch(0, known_time(length)).launch(1, known_time(2 * length));
    w.end_step();
  }
  const Report report = on("h200:1x2").run(w);
  EXPECT_EQ(report.steps, (std::vector<Time>{Time{100us}, Time{120us}, Time{180us}, Time{220us}}));
  EXPECT_EQ(report.step(), 40us);  // of 20, 60 and 40: the first warms up
}

TEST(Simulation, MemoryPeaksInTheOrderOfTheHost) {
  Workload w;
  const auto a = w.allocate(0, 10_GB, "a");
  const auto b = w.allocate(0, 20_GB, "b");
  w.free(a).allocate(0, 5_GB);
  w.free(b);
  w.allocate(1, 150_GB);
  const Report report = on("h200:1x2").run(w);
  const GpuModel gpu = gpu_model("h200");
  EXPECT_EQ(report.ranks[0].peak_memory, gpu.context_memory + 30_GB);
  EXPECT_TRUE(report.ranks[0].fits());
  EXPECT_FALSE(report.ranks[1].fits());
  EXPECT_FALSE(report.fits());
  EXPECT_EQ(report.peak_memory(), gpu.context_memory + 150_GB);
}

TEST(Simulation, ErrorBarsAddUpByKernel) {
  // Two launches of one kernel are off together, 2 x 3 us; another kernel by 8 us on its own: 10.
  const auto priced = [](Duration stddev) {
    return CostEstimate{.duration = 100us, .stddev = stddev, .source = CostSource::fitted};
  };
  Workload w;
  const Kernel a{{.name = "a"}, priced(3us)}, b{{.name = "b"}, priced(8us)};
  w.launch(0, a).launch(0, b).launch(0, a);
  const Report report = on("h200:1x1").run(w);
  EXPECT_EQ(report.deviation, 10us);
  EXPECT_EQ(report.ranks[0].kernels.deviation, 10us);
  EXPECT_EQ(report.kernels().by_source[static_cast<std::size_t>(CostSource::fitted)], 300us);
}

TEST(Simulation, PlacementDecidesWhereRanksRun) {
  const Simulation simulation = on("h200:2x8");
  Workload w;
  w.all_reduce({0, 1}, 256_MiB);
  const std::vector<GpuIndex> near{3, 5}, far{0, 8};
  EXPECT_EQ(simulation.run(w, near).makespan,
            all_reduce_alone(simulation.cluster(), near, 256_MiB));
  EXPECT_EQ(simulation.run(w, far).makespan, all_reduce_alone(simulation.cluster(), far, 256_MiB));
  EXPECT_GT(simulation.run(w, far).makespan, simulation.run(w, near).makespan);
}

TEST(Simulation, CostsAreThoseOfTheGpuThatRuns) {
  Workload w;
  w.launch(0, gemm(4096, 4096, 4096)).launch(1, gemm(4096, 4096, 4096));
  const Report report = on("h200:1x1+l40s:1x1").run(w);
  for (const auto& [rank, key] : {std::pair{0U, "h200"}, {1U, "l40s"}}) {
    EXPECT_EQ(report.ranks[rank].computing,
              builtin_cost_model(gpu_model(key)).estimate(gemm(4096, 4096, 4096))->duration);
  }
}

/// A user's own model: no base class.
struct Mine {
  [[nodiscard]] std::optional<CostEstimate> estimate(const KernelQuery& query) const {
    if (query.name != "mine") return std::nullopt;
    return CostEstimate{.duration = duration_from_seconds(query.flops * 1e-12)};
  }
};

TEST(Simulation, CostsArePluggable) {
  const SimulationOptions options{
      .costs = [](const GpuModel& gpu) { return first_of(Mine{}, builtin_cost_model(gpu)); },
      .timing = no_overhead};
  Workload w;
  w.launch(0, custom({.name = "mine", .flops = 1e9}));
  EXPECT_EQ(Simulation(parse_cluster("h200:1x1"), options).run(w).makespan, 1ms);
  // A cluster without hosts says nothing of its GPUs.
  const Cluster bare = topologies::single_switch({.gpus = 2, .link = {50_GBps, 1us}});
  EXPECT_THROW(Simulation{bare}, ConfigError);
  SimulationOptions told = options;
  told.gpu = gpu_model("h200");
  EXPECT_EQ(Simulation(bare, told).run(w).makespan, 1ms);
}

TEST(Simulation, SaysWhatASessionDrivenByHandSays) {
  const Cluster cluster = parse_cluster("h200:1x4");
  Workload w;
  const std::vector<Rank> all{0, 1, 2, 3};
  for (int layer = 0; layer < 5; ++layer) {
    for (const Rank rank : all) w.launch(rank, gemm(4096, 4096, 4096)).order(rank, 0, 1);
    w.all_reduce(all, 64_MiB, 1);
  }
  const Report report = Simulation{cluster}.run(w);
  Session session{cluster, builtin_cost_model};
  const QueryIndex kernel = session.add_query(gemm(4096, 4096, 4096));
  const CommunicatorId world = session.add_communicator({0, 1, 2, 3});
  std::uint64_t marker = 0;
  for (const Rank rank : all) {
    const StreamId compute{rank}, beside{rank + std::uint64_t{4}};
    for (const StreamId stream : {compute, beside}) session.add_stream(stream, rank, rank);
    for (int layer = 0; layer < 5; ++layer) {
      session.launch(compute, Time{}, kernel);
      session.record(compute, Time{}, MarkerId{++marker});
      session.wait(beside, Time{}, MarkerId{marker});
      session.collective(beside, Time{}, world, static_cast<int>(rank), CollectiveOp::all_reduce,
                         64_MiB, 0);
    }
    session.record(beside, Time{}, MarkerId{++marker});
    session.synchronize(rank, 0, Time{}, MarkerId{marker});
  }
  for (std::size_t left = 4; left > 0;) {
    for (const Answer& answer : session.advance(std::vector<Time>(4, never))) {
      EXPECT_EQ(answer.clock, report.ranks[answer.process].end);
      --left;
    }
  }
  for (const Rank rank : all) {
    EXPECT_EQ(session.use(rank).exposed, report.ranks[rank].exposed + report.ranks[rank].waiting);
    EXPECT_EQ(session.use(rank).busy, report.makespan - report.ranks[rank].idle);
  }
  expect_whole(report);
}

TEST(Simulation, ObserversSeeSpans) {
  struct Count final : SessionObserver {
    void on_span(const Span& span) override {
      ++spans;
      busy += span.end - span.start;
    }
    int spans = 0;
    Duration busy{};
  } count;
  Workload w;
  w.launch(0, ten_us).launch(1, ten_us);
  const std::vector<SessionObserver*> observers{&count};
  (void)on("h200:1x2").run(w, {}, observers);
  EXPECT_EQ(count.spans, 2);
  EXPECT_EQ(count.busy, 20us);
}

/// Data parallel training with buckets, on as many ranks.
Workload training(Rank ranks, int steps) {
  Workload w;
  std::vector<Rank> all(ranks);
  for (Rank rank = 0; rank < ranks; ++rank) all[rank] = rank;
  for (int step = 0; step < steps; ++step) {
    for (int layer = 0; layer < 4; ++layer) {
      for (const Rank rank : all) {
        w.launch(rank, gemm(8192, 4096, 4096)).host(rank, Duration{1'000'000 * (rank + 1)});
        w.order(rank, 0, 1);
      }
      w.all_reduce(all, 32_MiB, 1);
    }
    for (const Rank rank : all) w.order(rank, 1, 0).launch(rank, gemm(128, 128, 128));
    w.end_step();
    for (const Rank rank : all) w.synchronize(rank);
  }
  return w;
}

bool same(const Report& a, const Report& b) {
  bool equal = a.makespan == b.makespan && a.steps == b.steps && a.deviation == b.deviation &&
               a.ranks.size() == b.ranks.size();
  for (std::size_t i = 0; equal && i < a.ranks.size(); ++i)
    equal = a.ranks[i].end == b.ranks[i].end && a.ranks[i].exposed == b.ranks[i].exposed &&
            a.ranks[i].waiting == b.ranks[i].waiting &&
            a.ranks[i].computing == b.ranks[i].computing;
  return equal;
}

TEST(Simulation, IsReproducibleInAnyNumberOfThreads) {
  const Simulation simulation{parse_cluster("h200:2x8")};
  std::vector<Workload> variants;
  for (const Rank ranks : {2U, 4U, 8U, 16U}) variants.push_back(training(ranks, 3));
  variants.resize(16);
  for (std::size_t i = 4; i < variants.size(); ++i) variants[i] = variants[i % 4];
  const auto reports = simulation.run_all(variants, 4);
  for (std::size_t i = 0; i < variants.size(); ++i) {
    EXPECT_TRUE(same(reports[i], simulation.run(variants[i]))) << i;
    expect_whole(reports[i]);
  }
  // And as it is written and read.
  EXPECT_TRUE(same(reports[3], simulation.run(Workload::from_json(variants[3].to_json()))));
}

template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(Simulation, ChecksBeforeItRuns) {
  const Simulation simulation = on("h200:1x4");
  const auto refused = [&](const Workload& w, std::vector<GpuIndex> gpus = {}) {
    return refusal([&] { (void)simulation.run(w, gpus); });
  };
  Workload five;
  five.host(4, 1us);
  EXPECT_EQ(refused(five), "a workload of 5 ranks on 4 GPUs of h200:1x4: expected one for each");
  Workload two;
  two.host(1, 1us);
  EXPECT_EQ(refused(two, {0, 7}), "rank 1 on GPU 7: h200:1x4 has 4");
  EXPECT_EQ(refused(two, {2, 2}), "rank 1 on GPU 2: another rank has it");
  Workload unpriced;
  unpriced.launch(0, ten_us).launch(1, ten_us).launch(1, KernelQuery{.name = "what"});
  EXPECT_EQ(refused(unpriced).substr(0, 48), "rank 1, operation 1 (launch of what): kernel 'wh");
  const std::vector<Rank> pair{0, 1};
  Workload sizes;
  sizes.collective(0, pair, CollectiveOp::all_reduce, 8_B).host(1, 1us);
  sizes.collective(1, pair, CollectiveOp::all_reduce, 9_B);
  EXPECT_EQ(refused(sizes),
            "rank 1, operation 1 (all_reduce of 9 bytes by ranks 0, 1) meets rank 0, operation 0 "
            "(all_reduce of 8 bytes by ranks 0, 1): they have to be the same");
  Workload lone;
  lone.collective(1, pair, CollectiveOp::all_reduce, 8_B);
  EXPECT_EQ(refused(lone),
            "rank 1, operation 0 (all_reduce of 8 bytes by ranks 0, 1): rank 0 takes part in 0 "
            "collectives of the group, and not in this one");
  Workload beyond;
  const std::vector<Rank> wide{0, 3};
  beyond.collective(0, wide, CollectiveOp::all_reduce, 8_B);
  EXPECT_EQ(refused(beyond),
            "rank 0, operation 0 (all_reduce of 8 bytes by ranks 0, 3): its group has rank 3, the "
            "workload 1 ranks");
  Workload unheard;
  unheard.send(0, 1, 8_B).host(1, 1us);
  EXPECT_EQ(refused(unheard),
            "rank 0, operation 0 (message of 8 bytes from rank 0 to rank 1): rank 1 receives 0 "
            "such messages, and not this one");
  Workload cut;
  cut.send(0, 1, 8_B).receive(1, 0, 9_B);
  EXPECT_EQ(refused(cut),
            "rank 1, operation 0 (message of 9 bytes from rank 0 to rank 1) receives from rank 0, "
            "operation 0 (message of 8 bytes from rank 0 to rank 1): they have to be as large");
}

TEST(Simulation, SaysWhyItStandsStill) {
  // Each waits for the other's first, on one stream.
  Workload w;
  w.receive(0, 1, 8_B).send(0, 1, 8_B);
  w.receive(1, 0, 8_B).send(1, 0, 8_B);
  EXPECT_EQ(refusal([&] { (void)on("h200:1x2").run(w); }),
            "the workload cannot go on:\n"
            "  its stream 0 at rank 0, operation 0 (message of 8 bytes from rank 1 to rank 0)\n"
            "  its stream 0 at rank 1, operation 0 (message of 8 bytes from rank 0 to rank 1)");
  // A host that blocks in what only it could let come.
  Workload circle;
  const auto event = circle.wait(0, circle.record(1), 0).record(0);
  circle.synchronize(1, event);
  EXPECT_EQ(on("h200:1x2").run(circle).makespan, 0us);
  // Two all_reduces of two groups, in opposite order on one stream.
  Workload crossed;
  const std::vector<Rank> a{0, 1}, b{1, 0};
  for (const Rank rank : a) {
    crossed.collective(rank, rank == 0 ? a : b, CollectiveOp::all_reduce, 8_B);
    crossed.collective(rank, rank == 0 ? b : a, CollectiveOp::all_reduce, 8_B).synchronize(rank);
  }
  EXPECT_EQ(refusal([&] { (void)on("h200:1x2").run(crossed); }),
            "the workload cannot go on:\n"
            "  rank 0, operation 3 (synchronize with event 0 of rank 0); its stream 0 at rank 0, "
            "operation 0 (all_reduce of 8 bytes by ranks 0, 1)\n"
            "  rank 1, operation 3 (synchronize with event 0 of rank 1); its stream 0 at rank 1, "
            "operation 0 (all_reduce of 8 bytes by ranks 1, 0)");
}

TEST(Simulation, LinkLoadsAreWhatPlansPutThere) {
  // One message of 1 GB from host to host goes over each link of its path once.
  const Simulation simulation = on("h200:2x8");
  Workload w;
  w.send(0, 1, 1_GB).receive(1, 0, 1_GB);
  const std::vector<GpuIndex> gpus{0, 8};
  const auto loads = simulation.link_loads(w, gpus);
  ASSERT_FALSE(loads.empty());
  // Between hosts, headers come on top: a NIC's 400 Gbps carry 388.
  constexpr double headers = 1 / 0.97;
  const Bytes framed{static_cast<std::int64_t>(1e9 * headers + 0.5)};
  for (const LinkLoad& load : loads)
    EXPECT_TRUE(load.bytes == 1_GB || load.bytes == framed) << load.bytes.count();
  EXPECT_EQ(loads.front().bytes, framed);
  EXPECT_EQ(loads.front().time, duration_from_seconds(1e9 * headers / 50e9));
  Workload twice = w;
  twice.send(0, 1, 1_GB).receive(1, 0, 1_GB);
  EXPECT_EQ(simulation.link_loads(twice, gpus).front().time,
            duration_from_seconds(2e9 * headers / 50e9));
}

TEST(Jobs, ShareTheFabricAndTheGpusInTurn) {
  const Simulation simulation = on("h200:2x2");
  Workload job;
  job.launch(0, known_time(1ms)).all_reduce({0, 1}, 1_GB);
  const std::vector<GpuIndex> left{0, 2}, right{1, 3};
  const Duration once = simulation.run(job, left).makespan;
  Jobs jobs{simulation};
  const JobId first = jobs.add(job, left);
  EXPECT_EQ(jobs.free_gpus(), right);
  EXPECT_THROW((void)jobs.add(job, left), ArgumentError);
  EXPECT_THROW((void)jobs.report(first), ArgumentError);
  EXPECT_EQ(jobs.next(Time{1us}), std::nullopt);
  EXPECT_EQ(jobs.now(), Time{1us});
  const JobId second = jobs.add(job, right, Time{10us});
  EXPECT_THROW((void)jobs.add(job, right, Time{0us}), ArgumentError);
  EXPECT_EQ(jobs.next(), first);
  EXPECT_EQ(jobs.next(), second);
  EXPECT_EQ(jobs.next(), std::nullopt);
  // Rails of their own: neither slows the other.
  EXPECT_EQ(jobs.report(first).makespan, once);
  EXPECT_EQ(jobs.report(second).makespan, once);
  EXPECT_EQ(jobs.report(second).end(), Time{10us + once});
  expect_whole(jobs.report(second));
  // And again, on GPUs that have been used.
  const JobId third = jobs.add(job, left);
  EXPECT_EQ(jobs.next(), third);
  EXPECT_EQ(jobs.report(third).makespan, once);
  EXPECT_EQ(jobs.report(third).start, Time{10us + once});
}

TEST(Jobs, SlowOneAnotherWhereTheyShareLinks) {
  // Both cross the one spine of two leaves of one host each, at the same time.
  const Simulation simulation = on("h200:2x8/leaf_spine,hosts_per_leaf=1,oversubscription=8");
  Workload job;
  job.all_reduce({0, 1}, 1_GB);
  const std::vector<GpuIndex> one{0, 8}, other{1, 9};
  const Duration on_spine = simulation.link_loads(job, one).front().time;
  EXPECT_LT(simulation.run(job, one).makespan, on_spine * 5 / 4);
  Jobs jobs{simulation};
  jobs.add(job, one);
  jobs.add(job, other);
  const auto first = jobs.next(), second = jobs.next();
  ASSERT_TRUE(first && second);
  EXPECT_GE(jobs.report(*second).makespan, on_spine * 2);
  EXPECT_LT(jobs.report(*second).makespan, on_spine * 41 / 20);
}

TEST(Jobs, EndInTheOrderOfTime) {
  // A GPU that nothing else influences is simulated ahead; its job still ends in its turn.
  Jobs jobs{on("h200:1x4")};
  Workload late, early;
  late.launch(0, known_time(5ms));
  early.launch(0, known_time(1ms)).launch(1, known_time(1ms)).all_reduce({0, 1}, 1_MiB);
  const std::vector<GpuIndex> a{0}, b{1, 2}, c{3};
  const JobId first = jobs.add(late, a), second = jobs.add(early, b),
              third = jobs.add(late, c, Time{2ms});
  EXPECT_EQ(jobs.next(), second);
  EXPECT_EQ(jobs.next(Time{3ms}), std::nullopt);
  EXPECT_EQ(jobs.next(), first);
  EXPECT_EQ(jobs.now(), Time{5ms});
  EXPECT_EQ(jobs.next(), third);
  EXPECT_EQ(jobs.now(), Time{7ms});
}

}  // namespace
}  // namespace phantora
