#include <phantora/cluster/cluster.hpp>
#include <phantora/cluster/topologies.hpp>
#include <phantora/collectives/communicator.hpp>
#include <phantora/error.hpp>
#include <phantora/kernels/builtin_cost_model.hpp>
#include <phantora/kernels/gpu_model.hpp>
#include <phantora/kernels/kernel_limits.hpp>
#include <phantora/network/flow_network.hpp>
#include <phantora/simulation/session.hpp>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <malloc.h>

namespace phantora {
namespace {

using namespace std::chrono_literals;

/// Every kernel takes as long as its feature "us" says.
struct Told {
  [[nodiscard]] std::optional<CostEstimate> estimate(const KernelQuery& query) const {
    const CostEstimate told{
        .duration = std::chrono::microseconds{static_cast<std::int64_t>(query.features.at("us"))},
        .source = CostSource::measured};
    return with_limits(told, query, gpu_model("h200"));
  }
};

/// The same, of kernels that are all bound as it says.
struct ToldWithLimit {
  std::optional<KernelLimit> limit{};
  std::optional<double> demand{}, memory_share{}, power_share{};
  [[nodiscard]] std::optional<CostEstimate> estimate(const KernelQuery& query) const {
    return CostEstimate{
        .duration = std::chrono::microseconds{static_cast<std::int64_t>(query.features.at("us"))},
        .limit = limit,
        .demand = demand,
        .memory_share = memory_share,
        .power_share = power_share};
  }
};

KernelQuery kernel(int us, const char* name = "copy_kernel") {
  return {.name = name, .features = {{"us", us}}};
}

/// No launch latency, no gap, no interference: times are sums.
constexpr DeviceTiming ideal{
    .launch_latency = {}, .kernel_gap = {}, .broken_waves = 1, .memory_contention = 0};

Time at(Duration d) { return Time{d}; }

class SessionTest : public testing::Test {
 protected:
  void open(const char* spec, DeviceTiming timing = ideal, KernelCostModel costs = Told{}) {
    cluster.emplace(parse_cluster(spec));
    session.emplace(*cluster, gpu_model("h200"), std::move(costs), timing);
  }
  std::vector<Answer> advance(std::vector<Time> bounds) { return session->advance(bounds); }

  std::optional<Cluster> cluster;
  std::optional<Session> session;
};

TEST_F(SessionTest, AStreamRunsItsKernelsOneAfterTheOther) {
  open("h200:1x1", {.launch_latency = 2us, .kernel_gap = 1us});
  const QueryIndex ten = session->add_query(kernel(10));
  session->add_stream(StreamId{1}, 0, 0);
  session->launch(StreamId{1}, at(5us), ten);
  session->launch(StreamId{1}, at(6us), ten);
  session->record(StreamId{1}, at(6us), MarkerId{1});
  session->synchronize(0, 0, at(7us), MarkerId{1});
  const auto answers = advance({never});
  ASSERT_EQ(answers.size(), 1U);
  // 5 issued + 2 latency + 10, a gap of 1, + 10.
  EXPECT_EQ(answers[0].clock, at(28us));
  EXPECT_EQ(session->use(0).busy, 20us);
}

TEST_F(SessionTest, AQueryAnswersForItsClockAndNeverJumps) {
  open("h200:1x1");
  const QueryIndex ten = session->add_query(kernel(10));
  session->add_stream(StreamId{1}, 0, 0);
  session->launch(StreamId{1}, at(0us), ten);
  session->record(StreamId{1}, at(0us), MarkerId{1});
  session->query(0, 0, at(9us), MarkerId{1});
  auto answers = advance({never});
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_FALSE(answers[0].done);
  EXPECT_EQ(answers[0].clock, at(9us));
  session->query(0, 0, at(10us), MarkerId{1});
  answers = advance({never});
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_TRUE(answers[0].done);
  EXPECT_EQ(answers[0].clock, at(10us));
}

TEST_F(SessionTest, KernelsOfTwoStreamsShareTheSms) {
  open("h200:1x1");
  const QueryIndex ten = session->add_query(kernel(10));
  for (const std::uint64_t stream : {1U, 2U}) {
    session->add_stream(StreamId{stream}, 0, 0);
    session->launch(StreamId{stream}, at(0us), ten);
    session->record(StreamId{stream}, at(0us), MarkerId{stream});
  }
  session->synchronize(0, 0, at(0us), MarkerId{1});
  const auto answers = advance({never});
  ASSERT_EQ(answers.size(), 1U);
  // Each fills the GPU: both at half speed.
  EXPECT_EQ(answers[0].clock, at(20us));
}

TEST_F(SessionTest, KernelsOfAStreamThatGoesFirstTakeTheSmsThatTheyCanFill) {
  const auto ends = [&](double demand, std::array<int, 3> priorities) {
    open("h200:1x1", ideal, ToldWithLimit{.limit = KernelLimit::memory, .demand = demand});
    const QueryIndex hundred = session->add_query(kernel(100)),
                     ten = session->add_query(kernel(10));
    std::vector<Duration> times;
    for (const std::uint64_t stream : {0U, 1U, 2U}) {
      session->add_stream(StreamId{stream}, 0, 0, priorities.at(stream));
      const Time issued = at(stream == 0 ? 0us : 50us);
      session->launch(StreamId{stream}, issued, stream == 0 ? hundred : ten);
      session->record(StreamId{stream}, issued, MarkerId{stream});
    }
    for (const std::uint64_t stream : {0U, 1U, 2U}) {
      session->synchronize(0, 0, at(0us), MarkerId{stream});
      times.push_back(advance({never}).at(0).clock.time_since_epoch());
    }
    return times;
  };
  using Times = std::vector<Duration>;
  EXPECT_EQ(ends(1.0, {0, 0, 0}), (Times{120us, 80us, 80us}));
  EXPECT_EQ(ends(1.0, {-1, -1, -1}), (Times{120us, 80us, 80us}));
  // One after the other, those of equal rank side by side; what waits loses nothing.
  EXPECT_EQ(ends(1.0, {0, -1, -2}), (Times{120us, 70us, 60us}));
  EXPECT_EQ(ends(1.0, {0, -1, -1}), (Times{120us, 70us, 70us}));
  EXPECT_EQ(ends(1.0, {-1, 0, 0}), (Times{100us, 120us, 120us}));
  // What they do not fill is left to others: for 10 us a half, for which two contend.
  EXPECT_EQ(ends(0.5, {0, 0, -5}), (Times{105us, 65us, 60us}));
}

TEST_F(SessionTest, CopiesOfOneWayTakeTurnsAndBothWaysSlowEachOther) {
  DeviceTiming timing = ideal;
  timing.both_ways = 1.5;
  const auto ends = [&](const char* first, const char* second) {
    open("h200:1x1", timing);
    std::vector<Duration> times;
    for (const std::uint64_t stream : {1U, 2U}) {
      session->add_stream(StreamId{stream}, 0, 0);
      session->launch(StreamId{stream}, at(0us),
                      session->add_query(kernel(10, stream == 1 ? first : second)));
      session->record(StreamId{stream}, at(0us), MarkerId{stream});
    }
    for (const std::uint64_t stream : {1U, 2U}) {
      session->synchronize(0, 0, at(0us), MarkerId{stream});
      times.push_back(advance({never}).at(0).clock.time_since_epoch());
    }
    return times;
  };
  const std::vector<Duration> in_turn{10us, 20us}, together{15us, 15us}, apart{10us, 10us};
  EXPECT_EQ(ends("memcpy_h2d_pinned", "memcpy_h2d_pageable"), in_turn);
  EXPECT_EQ(ends("memcpy_d2h_pinned", "memcpy_d2h_pinned"), in_turn);
  EXPECT_EQ(ends("memcpy_h2d_pinned", "memcpy_d2h_pinned"), together);
  EXPECT_EQ(ends("memcpy_h2d_pinned", "copy_kernel"), apart);
}

TEST_F(SessionTest, CopiesWithinTheDeviceShareItsMemory) {
  DeviceTiming timing = ideal;
  timing.attained_memory = 0.8;
  const auto both_end = [&](double share) {
    open("h200:1x1", timing,
         ToldWithLimit{.limit = KernelLimit::copy_engine, .memory_share = share});
    const QueryIndex ten = session->add_query(kernel(10));
    for (const std::uint64_t stream : {1U, 2U}) {
      session->add_stream(StreamId{stream}, 0, 0);
      session->launch(StreamId{stream}, at(0us), ten);
      session->record(StreamId{stream}, at(0us), MarkerId{stream});
    }
    session->synchronize(0, 0, at(0us), MarkerId{2});
    return advance({never}).at(0).clock;
  };
  EXPECT_EQ(both_end(0.8), at(20us));
  EXPECT_EQ(both_end(0.4), at(10us));
}

TEST_F(SessionTest, AWaitOrdersStreams) {
  open("h200:1x1");
  const QueryIndex ten = session->add_query(kernel(10));
  for (const std::uint64_t stream : {1U, 2U}) session->add_stream(StreamId{stream}, 0, 0);
  session->launch(StreamId{1}, at(0us), ten);
  session->record(StreamId{1}, at(0us), MarkerId{1});
  session->wait(StreamId{2}, at(0us), MarkerId{1});
  session->drop(MarkerId{1});  // named by the wait: stays until that has passed
  session->launch(StreamId{2}, at(0us), ten);
  session->record(StreamId{2}, at(0us), MarkerId{2});
  session->synchronize(0, 0, at(0us), MarkerId{2});
  EXPECT_EQ(advance({never}).at(0).clock, at(20us));
}

TEST_F(SessionTest, OwnStreamsAreAnsweredWhateverOtherRanksDo) {
  open("h200:1x2");
  const QueryIndex ten = session->add_query(kernel(10));
  session->add_stream(StreamId{1}, 0, 0);
  session->launch(StreamId{1}, at(0us), ten);
  session->record(StreamId{1}, at(0us), MarkerId{1});
  session->synchronize(0, 0, at(0us), MarkerId{1});
  // Process 1 stands at time zero.
  EXPECT_EQ(advance({never, at(0us)}).at(0).clock, at(10us));
}

TEST_F(SessionTest, ACollectiveStartsWithItsLastRankAndHoldsAllAnswers) {
  open("h200:1x2");
  const CommunicatorId world = session->add_communicator({0, 1});
  const QueryIndex ten = session->add_query(kernel(10));
  for (const std::uint32_t rank : {0U, 1U}) {
    session->add_stream(StreamId{rank}, rank, rank);
  }
  const auto join = [&](std::uint32_t rank) {
    session->collective(StreamId{rank}, at(0us), world, static_cast<int>(rank),
                        CollectiveOp::all_reduce, 64_MiB, 0);
    session->record(StreamId{rank}, at(0us), MarkerId{rank});
    session->synchronize(rank, 0, at(0us), MarkerId{rank});
  };
  join(0);
  EXPECT_TRUE(advance({never, at(0us)}).empty());
  EXPECT_EQ(session->incomplete_collectives().size(), 1U);
  session->launch(StreamId{1}, at(0us), ten);
  join(1);
  const auto answers = advance({never, never});
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].clock, answers[1].clock);
  // Rank 0 communicates from the start, rank 1 from the end of its kernel.
  EXPECT_EQ(session->use(0).communication, session->use(1).communication + 10us);
  EXPECT_EQ(session->use(0).exposed, session->use(0).communication);
  EXPECT_TRUE(session->incomplete_collectives().empty());
}

TEST_F(SessionTest, AnAnswerThatAnotherRankCouldChangeWaitsForIt) {
  open("h200:1x4");
  const CommunicatorId pair = session->add_communicator({0, 1});
  for (const std::uint32_t rank : {0U, 1U}) {
    session->add_stream(StreamId{rank}, rank, rank);
    session->collective(StreamId{rank}, at(0us), pair, static_cast<int>(rank),
                        CollectiveOp::all_reduce, 64_MiB, 0);
    session->record(StreamId{rank}, at(0us), MarkerId{rank});
    session->synchronize(rank, 0, at(0us), MarkerId{rank});
  }
  // Rank 2 runs at time zero and might load the links: nothing is safe.
  EXPECT_TRUE(advance({never, never, at(0us)}).empty());
  EXPECT_NE(session->awaited(), never);
  // Once it is far in the future, everything is.
  EXPECT_EQ(advance({never, never, at(1s)}).size(), 2U);
}

TEST_F(SessionTest, SendsMeetReceivesWithinAGroup) {
  open("h200:1x2");
  const CommunicatorId world = session->add_communicator({0, 1});
  // Each rank sends and receives in one group: neither waits for the other's order.
  for (const int rank : {0, 1}) {
    const auto id = static_cast<std::uint32_t>(rank);
    session->add_stream(StreamId{id}, id, id);
    const std::vector<SendRecv> group = {{rank, 1 - rank, 1_MiB}, {1 - rank, rank, 1_MiB}};
    session->send_recv(StreamId{id}, at(0us), world, rank, group);
    session->record(StreamId{id}, at(0us), MarkerId{id});
    session->synchronize(id, 0, at(0us), MarkerId{id});
  }
  EXPECT_EQ(advance({never, never}).size(), 2U);
}

TEST_F(SessionTest, MessagesTakeAsLongAsTheirGroupPlannedAsAWhole) {
  // A ring; an exchange in which rank r gets r + 1 MiB of each rank, itself too; two messages of a
  // pair. The session learns of the messages rank by rank, in any order.
  std::vector<std::vector<SendRecv>> groups(3);
  for (int from = 0; from < 4; ++from) {
    groups[0].push_back({from, (from + 1) % 4, 32_MiB});
    for (int to = 0; to < 4; ++to) groups[1].push_back({from, to, Bytes{(to + 1) << 20}});
  }
  groups[2] = {{0, 1, 8_MiB}, {0, 1, 24_MiB}};
  for (const auto& group : groups) {
    std::vector<std::uint32_t> order{0, 1, 2, 3};
    do {
      open("h200:1x4");
      const CommunicatorId world = session->add_communicator({0, 1, 2, 3});
      for (const std::uint32_t rank : order) {
        const int r = static_cast<int>(rank);
        std::vector<SendRecv> mine;
        for (const SendRecv& message : group)
          if (message.src_rank == r || message.dst_rank == r) mine.push_back(message);
        if (mine.empty()) continue;
        session->add_stream(StreamId{rank}, rank, rank);
        session->send_recv(StreamId{rank}, at(0us), world, r, mine);
        session->record(StreamId{rank}, at(0us), MarkerId{rank});
        session->synchronize(rank, 0, at(0us), MarkerId{rank});
      }
      Time last{};
      for (const Answer& answer : advance({never, never, never, never}))
        last = std::max(last, answer.clock);

      CollectivePlan plan = Communicator{*cluster, cluster->gpus}.plan(group);
      FlowNetwork net{cluster->topology.view()};
      Time expected{plan.latency};
      std::vector<FlowId> flows;
      for (FlowSpec& flow : plan.flows) {
        flow.start = Time{plan.latency};
        flows.push_back(net.start(std::move(flow)));
      }
      net.advance_to(never);
      for (const FlowId flow : flows) expected = std::max(expected, *net.completion(flow));
      const double ratio = to_seconds(last - Time{}) / to_seconds(expected - Time{});
      EXPECT_NEAR(ratio, 1, 0.03) << group.size() << " messages";
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST_F(SessionTest, WhatHasRunBeforeTakesAsLongAgain) {
  // Each in turn on one communicator, which plans what it knows only once, and on one of its own:
  // more sizes than it remembers, roots, and messages alone and beside others.
  struct Step {
    std::vector<GroupedCollective> collectives{};
    std::vector<SendRecv> messages{};
  };
  std::vector<Step> steps;
  for (int round = 0; round < 2; ++round) {
    for (int i = 1; i <= 40; ++i)
      steps.push_back({.collectives = {{CollectiveOp::all_gather, Bytes{i * 1'000'000}}}});
    for (const int root : {0, 1, 3})
      steps.push_back({.collectives = {{CollectiveOp::broadcast, 32_MiB, root}}});
    steps.push_back({.collectives = {{CollectiveOp::all_reduce, 8_MiB}}});
    steps.push_back(
        {.collectives = {{CollectiveOp::all_reduce, 8_MiB}, {CollectiveOp::all_reduce, 8_MiB}}});
    steps.push_back({.messages = {{0, 1, 16_MiB}}});
    steps.push_back({.messages = {{0, 1, 16_MiB}, {1, 0, 16_MiB}}});
    steps.push_back({.messages = {{0, 1, 16_MiB}, {0, 1, 16_MiB}}});
    steps.push_back({.messages = {{1, 0, 16_MiB}}});
    steps.push_back({.messages = {{0, 1, 4_MiB}}});
  }
  const auto duration = [&](const Step& step, CommunicatorId world, Time start) {
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      const int r = static_cast<int>(rank);
      if (!step.collectives.empty()) {
        session->collective(StreamId{rank}, start, world, r, step.collectives);
      } else {
        std::vector<SendRecv> mine;
        for (const SendRecv& message : step.messages)
          if (message.src_rank == r || message.dst_rank == r) mine.push_back(message);
        if (!mine.empty()) session->send_recv(StreamId{rank}, start, world, r, mine);
      }
      session->record(StreamId{rank}, start, MarkerId{rank});
      session->synchronize(rank, 0, start, MarkerId{rank});
    }
    Time last{};
    for (int blocked = 4; blocked > 0;) {
      for (const Answer& answer : advance(std::vector<Time>(4, never))) {
        last = std::max(last, answer.clock);
        --blocked;
      }
    }
    for (std::uint32_t rank = 0; rank < 4; ++rank) session->drop(MarkerId{rank});
    return last - start;
  };
  const auto begin = [&] {
    open("h200:1x4");
    for (std::uint32_t rank = 0; rank < 4; ++rank) session->add_stream(StreamId{rank}, rank, rank);
    return session->add_communicator({0, 1, 2, 3});
  };
  std::vector<Duration> alone;
  for (const Step& step : steps) {
    const CommunicatorId world = begin();
    alone.push_back(duration(step, world, at(1s)));
  }
  const CommunicatorId world = begin();
  for (std::size_t i = 0; i < steps.size(); ++i)
    EXPECT_EQ(duration(steps[i], world, at((i + 1) * 1s)), alone[i]) << "step " << i;
}

TEST_F(SessionTest, RanksGroupCollectivesAlike) {
  open("h200:1x2");
  const CommunicatorId world = session->add_communicator({0, 1});
  const std::vector<GroupedCollective> group{{CollectiveOp::all_reduce, 1_MiB},
                                             {CollectiveOp::all_gather, 1_MiB}};
  for (const std::uint32_t rank : {0U, 1U}) session->add_stream(StreamId{rank}, rank, rank);
  session->collective(StreamId{0}, at(0us), world, 0, group);
  EXPECT_THROW(
      session->collective(StreamId{1}, at(0us), world, 1, CollectiveOp::all_reduce, 1_MiB, 0),
      Error);
}

TEST_F(SessionTest, ACallThatNobodyMatchesCanBeNamedButNotAnswered) {
  open("h200:1x2");
  const CommunicatorId world = session->add_communicator({0, 1});
  session->add_stream(StreamId{0}, 0, 0);
  session->collective(StreamId{0}, at(0us), world, 0, CollectiveOp::broadcast, 1_MiB, 0);
  session->record(StreamId{0}, at(0us), MarkerId{0});
  session->synchronize(0, 0, at(0us), MarkerId{0});
  EXPECT_TRUE(advance({never, never}).empty());
  EXPECT_FALSE(session->force().has_value());
  ASSERT_EQ(session->incomplete_collectives().size(), 1U);
  EXPECT_NE(session->incomplete_collectives()[0].find("missing: 1"), std::string::npos);
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST_F(SessionTest, RanksAgreeOnWhatTheyCall) {
  const auto said_of = [&](const GroupedCollective& one, const GroupedCollective& other) {
    open("h200:1x2");
    const CommunicatorId world = session->add_communicator({0, 1});
    for (const std::uint32_t rank : {0U, 1U}) session->add_stream(StreamId{rank}, rank, rank);
    session->collective(StreamId{1}, at(0us), world, 1, std::span{&other, 1});
    return refusal([&] {
      session->collective(StreamId{0}, at(0us), world, 0, std::span{&one, 1});
    });
  };
  using enum CollectiveOp;
  const std::string fine = "nothing was refused";
  EXPECT_EQ(
      said_of({all_reduce, 1_MiB}, {all_reduce, 2_MiB}),
      "the ranks of a communicator of 2 do not agree on its collective number 1: rank 0 calls "
      "all_reduce of 1048576 bytes (root 0, type 0); rank 1 calls all_reduce of 2097152 bytes "
      "(root 0, type 0)");
  EXPECT_NE(said_of({all_reduce, 1_MiB}, {all_gather, 1_MiB}), fine);
  EXPECT_NE(said_of({broadcast, 1_MiB, 0}, {broadcast, 1_MiB, 1}), fine);
  EXPECT_EQ(said_of({all_reduce, 1_MiB, 0}, {all_reduce, 1_MiB, 1}), fine);
  // Bytes are bytes, but not in a sum.
  EXPECT_NE(said_of({all_reduce, 1_MiB, 0, 1}, {all_reduce, 1_MiB, 0, 2}), fine);
  EXPECT_EQ(said_of({broadcast, 1_MiB, 0, 1}, {broadcast, 1_MiB, 0, 2}), fine);
}

TEST_F(SessionTest, WhatCannotBeIsRefusedByName) {
  open("h200:1x4");
  const CommunicatorId world = session->add_communicator({0, 1});
  const QueryIndex ten = session->add_query(kernel(10));
  session->add_stream(StreamId{1}, 0, 0);
  session->add_stream(StreamId{7}, 3, 0);
  const auto says = [&](const std::function<void()>& call, const std::string& beginning) {
    EXPECT_EQ(refusal(call).substr(0, beginning.size()), beginning);
  };
  says([&] { session->add_stream(StreamId{1}, 2, 1); }, "stream 1 exists (");
  says([&] { session->add_stream(StreamId{2}, 4, 1); }, "no GPU 4 (");
  says([&] { session->launch(StreamId{5}, at(0us), ten); }, "no stream 5 (");
  says([&] { session->launch(StreamId{1}, at(0us), ten + 1); }, "no query 1 (");
  says([&] { session->add_communicator({0, 4}); }, "no GPU 4 (");
  says([&] { (void)session->use(4); }, "no GPU 4 (");
  const auto reduce = [&](CommunicatorId communicator, int rank, std::uint64_t stream, int root) {
    return [&, communicator, rank, stream, root] {
      session->collective(StreamId{stream}, at(0us), communicator, rank, CollectiveOp::reduce,
                          1_MiB, root);
    };
  };
  says(reduce(CommunicatorId{9}, 0, 1, 0), "no communicator 9 (");
  says(reduce(world, 2, 1, 0), "no rank 2 in a communicator of 2 (");
  says(reduce(world, -1, 1, 0), "no rank -1 in a communicator of 2 (");
  says(reduce(world, 0, 7, 0), "rank 0 is on GPU 0, stream 7 on GPU 3 (");
  says(reduce(world, 0, 1, 2), "the root is a rank (");
  const std::vector<SendRecv> others{{1, 1, 1_MiB}}, far{{0, 2, 1_MiB}};
  says([&] { session->send_recv(StreamId{1}, at(0us), world, 0, others); },
       "a rank's group has its own messages (");
  says([&] { session->send_recv(StreamId{1}, at(0us), world, 0, far); },
       "messages go between ranks of the communicator (");
  session->launch(StreamId{1}, at(5us), ten);
  EXPECT_EQ(session->last_issued(StreamId{1}), at(5us));
  says([&] { session->launch(StreamId{1}, at(4us), ten); },
       "nothing is issued on stream 1 before what was issued on it last (");
  // What was refused has left nothing behind.
  session->add_stream(StreamId{2}, 1, 1);
  session->collective(StreamId{1}, at(5us), world, 0, CollectiveOp::all_reduce, 1_MiB, 0);
  session->collective(StreamId{2}, at(5us), world, 1, CollectiveOp::all_reduce, 1_MiB, 0);
  session->record(StreamId{2}, at(5us), MarkerId{1});
  (void)advance({never, never});
  EXPECT_TRUE(session->completion(MarkerId{1}));
  session->drop_communicator(world);
  says(reduce(world, 0, 1, 0), "no communicator 0 (");
}

TEST_F(SessionTest, AMarkerThatNobodyRecordsIsNamed) {
  open("h200:1x2");
  const QueryIndex ten = session->add_query(kernel(10));
  for (const std::uint64_t stream : {1U, 2U, 3U})
    session->add_stream(StreamId{stream}, stream == 3 ? 1 : 0, 0);
  session->wait(StreamId{1}, at(0us), MarkerId{5});
  session->launch(StreamId{1}, at(0us), ten);
  session->record(StreamId{1}, at(0us), MarkerId{1});
  session->synchronize(0, 0, at(0us), MarkerId{1});
  EXPECT_TRUE(advance({never}).empty());
  const std::vector<std::string> expected{
      "stream 1 of GPU 0 waits for marker 5, which nobody has recorded"};
  EXPECT_EQ(session->obstacles(), expected);
  EXPECT_EQ(session->incomplete_collectives(), expected);
  // Recorded at last, by another stream of the same GPU: then nothing outside matters to it.
  session->launch(StreamId{2}, at(0us), ten);
  session->record(StreamId{2}, at(0us), MarkerId{5});
  EXPECT_EQ(advance({never}).at(0).clock, at(20us));
  EXPECT_TRUE(session->obstacles().empty());
  session->record(StreamId{1}, at(20us), MarkerId{2});
  session->synchronize(0, 0, at(20us), MarkerId{2});
  session->launch(StreamId{3}, at(0us), ten);
  EXPECT_EQ(advance({never, at(0us)}).at(0).clock, at(20us));  // whatever process 1 does
}

TEST_F(SessionTest, OnlyTagsAreToldOfCollectivesThatFinish) {
  open("h200:1x2");
  const CommunicatorId world = session->add_communicator({0, 1});
  for (const std::uint32_t rank : {0U, 1U}) {
    session->add_stream(StreamId{rank}, rank, rank);
    for (const std::uint64_t tag : {0U, 7U})
      session->collective(StreamId{rank}, at(0us), world, static_cast<int>(rank),
                          CollectiveOp::all_reduce, 1_MiB, 0, tag);
    const std::vector<SendRecv> group = {{0, 1, 1_MiB}};
    session->send_recv(StreamId{rank}, at(0us), world, static_cast<int>(rank), group);
  }
  (void)advance({never, never});
  EXPECT_EQ(session->finished_collectives(), (std::vector<std::uint64_t>{7, 7}));
}

struct Spans : SessionObserver {
  void on_span(const Span& span) override { all.push_back(span); }
  std::vector<Span> all;
};

TEST_F(SessionTest, SpansBearTheTagsOfTheirCalls) {
  open("h200:1x2");
  Spans told;
  const Subscription spans = session->subscribe(told);
  const QueryIndex ten = session->add_query(kernel(10));
  const CommunicatorId both = session->add_communicator({0, 1});
  for (const GpuIndex gpu : {0U, 1U}) session->add_stream(StreamId{gpu}, gpu, gpu);
  session->launch(StreamId{0}, at(0us), ten, 7);
  session->launch(StreamId{0}, at(0us), ten);
  for (const int rank : {0, 1}) {
    session->collective(StreamId{static_cast<std::uint64_t>(rank)}, at(0us), both, rank,
                        CollectiveOp::all_reduce, 1_MiB, 0, 8 + static_cast<std::uint64_t>(rank));
  }
  advance({never, never});
  ASSERT_EQ(told.all.size(), 4U);
  EXPECT_EQ(told.all[0].tag, 7U);
  EXPECT_EQ(told.all[1].tag, 0U);
  EXPECT_EQ(told.all[2].tag, 8U);
  EXPECT_EQ(told.all[3].tag, 9U);
  EXPECT_FALSE(told.all[0].algorithm);
  EXPECT_TRUE(told.all[2].algorithm);
}

/// Ends its subscription when it hears of a span.
class Once : public SessionObserver {
 public:
  void on_span(const Span&) override {
    ++heard;
    subscription = {};
  }
  Subscription subscription;
  int heard = 0;
};

TEST_F(SessionTest, SubscriptionsEnd) {
  open("h200:1x1");
  Once once, always;
  const Subscription before = session->subscribe(always);
  once.subscription = session->subscribe(once);
  const QueryIndex ten = session->add_query(kernel(10));
  session->add_stream(StreamId{1}, 0, 0);
  for (int i = 0; i < 3; ++i) session->launch(StreamId{1}, at(0us), ten);
  (void)advance({never});
  EXPECT_EQ(once.heard, 1);
  EXPECT_EQ(always.heard, 3);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool counts_memory = false;  // the sanitizer's own allocator does not
#else
constexpr bool counts_memory = true;
#endif

// A step leaves nothing: kernels, waits, collectives, messages; communicators and streams that are
// made and dropped.
TEST_F(SessionTest, NothingGrowsForEver) {
  open("h200:2x1");
  const CommunicatorId world = session->add_communicator({0, 1});
  const QueryIndex one = session->add_query(kernel(1));
  for (const std::uint32_t s : {0U, 1U, 2U, 3U}) session->add_stream(StreamId{s}, s / 2, s / 2);
  std::uint64_t marker = 0;
  Time now{};
  const auto step = [&] {
    const CommunicatorId pair = session->add_communicator({0, 1});
    for (const std::uint32_t rank : {0U, 1U}) {
      const StreamId compute{2 * rank}, communication{2 * rank + 1};
      const int r = static_cast<int>(rank);
      const StreamId passing{4 + marker};
      session->add_stream(passing, rank, rank);
      session->launch(passing, now, one);
      session->record(passing, now, MarkerId{++marker});
      session->drop_stream(passing);
      session->wait(compute, now, MarkerId{marker});
      session->drop(MarkerId{marker});
      session->launch(compute, now, one);
      session->record(compute, now, MarkerId{++marker});
      session->wait(communication, now, MarkerId{marker});
      session->drop(MarkerId{marker});
      for (const CommunicatorId communicator : {world, pair})
        session->collective(communication, now, communicator, r, CollectiveOp::all_reduce, 64_KiB,
                            0);
      const std::vector<SendRecv> group = {{0, 1, 64_KiB}, {1, 0, 64_KiB}};
      session->send_recv(communication, now, world, r, group);
      session->record(communication, now, MarkerId{++marker});
      session->synchronize(rank, 0, now, MarkerId{marker});
      session->drop(MarkerId{marker});
    }
    session->drop_communicator(pair);
    while (!advance({never, never}).empty()) {
    }
    now = session->now();
  };
  for (int i = 0; i < 2000; ++i) step();
  const std::size_t before = mallinfo2().uordblks;
  for (int i = 0; i < 4000; ++i) step();
  const std::size_t after = mallinfo2().uordblks;
  EXPECT_EQ(session->late_operations(), 0U);
  if (counts_memory) {
    EXPECT_LT(after, before + 4096);
  }
}

/// Two GPUs with a stream each for kernels (1, 3) and collectives (0, 2); 24 channels of 132 SMs.
class InterferenceTest : public SessionTest {
 protected:
  void SetUp() override { start(ideal); }
  void start(const DeviceTiming& timing, KernelCostModel costs = Told{}) {
    open("h200:1x2", timing, std::move(costs));
    world = session->add_communicator({0, 1});
    for (const std::uint32_t rank : {0U, 1U}) {
      for (const std::uint32_t s : {0U, 1U})
        session->add_stream(StreamId{2 * rank + s}, rank, rank);
    }
  }
  void reduce(std::uint32_t rank, Time issued) {
    session->collective(StreamId{2 * rank}, issued, world, static_cast<int>(rank),
                        CollectiveOp::all_reduce, 64_MiB, 0);
  }
  Time ends(std::uint64_t stream, Time issued) {
    session->record(StreamId{stream}, issued, MarkerId{++last});
    (void)advance({never, never});
    return *session->completion(MarkerId{last});
  }
  CommunicatorId world{};
  std::uint64_t last = 0;
};

TEST_F(InterferenceTest, AKernelRunsOnTheSmsThatACollectiveLeaves) {
  const QueryIndex query = session->add_query(kernel(108));
  for (const std::uint32_t rank : {0U, 1U}) reduce(rank, at(0us));
  session->launch(StreamId{1}, at(1us), query);
  EXPECT_EQ(ends(1, at(1us)), at(133us));  // 108 us x 132 / (132 - 24)
}

TEST_F(InterferenceTest, ACollectiveHoldsItsSmsWhileItWaitsForOtherRanks) {
  const QueryIndex query = session->add_query(kernel(108));
  reduce(0, at(0us));
  session->launch(StreamId{1}, at(1us), query);
  EXPECT_EQ(ends(1, at(1us)), at(133us));
}

TEST_F(InterferenceTest, ACollectiveBeginsWhenTheKernelsBeforeItLeaveItsSms) {
  for (const std::uint32_t rank : {0U, 1U}) reduce(rank, at(0us));
  const Duration alone = ends(0, at(0us)).time_since_epoch();
  SetUp();
  const QueryIndex query = session->add_query(kernel(50));
  session->launch(StreamId{1}, at(0us), query);
  session->launch(StreamId{1}, at(0us), query);  // after the collective: it does not hold it up
  for (const std::uint32_t rank : {0U, 1U}) reduce(rank, at(10us));
  session->record(StreamId{1}, at(10us), MarkerId{99});
  EXPECT_EQ(ends(0, at(10us)), at(50us) + alone);
  EXPECT_EQ(session->completion(MarkerId{99}),
            Time{50us + duration_from_seconds(50e-6 * 132 / 108)});
}

TEST_F(InterferenceTest, AKernelOfFewBlocksAndACollectiveDoNotMeet) {
  for (const std::uint32_t rank : {0U, 1U}) reduce(rank, at(0us));
  const Duration alone = ends(0, at(0us)).time_since_epoch();
  SetUp();
  KernelQuery few = kernel(50);
  few.grid = {{66}};
  few.block = {1024};  // a quarter of what fits on 132 SMs
  session->launch(StreamId{1}, at(0us), session->add_query(few));
  for (const std::uint32_t rank : {0U, 1U}) reduce(rank, at(10us));
  session->record(StreamId{1}, at(0us), MarkerId{99});
  EXPECT_EQ(ends(0, at(10us)), at(10us) + alone);
  EXPECT_EQ(session->completion(MarkerId{99}), at(50us));
}

// A receive that waits withholds 2 SMs, and breaks the waves of kernels of the tensor cores. Whose
// price is the user's own is slowed as the library's GEMM is, if it says that it is one.
TEST_F(InterferenceTest, PricesOfOnesOwnTakePartInInterference) {
  const DeviceTiming timing{
      .launch_latency = {}, .kernel_gap = {}, .broken_waves = 1.2, .memory_contention = 1.0};
  const auto beside_a_receive = [&](KernelCostModel costs, const char* name) {
    start(timing, std::move(costs));
    const QueryIndex query = session->add_query(kernel(100, name));
    session->send_recv(StreamId{0}, at(0us), world, 0,
                       std::array{SendRecv{.src_rank = 1, .dst_rank = 0, .size = 64_MiB}}, 0);
    session->launch(StreamId{1}, at(1us), query);
    return ends(1, at(1us));
  };
  const Time gemm = beside_a_receive(Told{}, "gemm");
  EXPECT_GT(gemm, at(121us));
  EXPECT_EQ(beside_a_receive(ToldWithLimit{.limit = KernelLimit::arithmetic}, "block"), gemm);
  // What says nothing counts as a kernel that fills the SMs, and one of half of them has room.
  EXPECT_EQ(beside_a_receive(ToldWithLimit{}, "block"),
            beside_a_receive(ToldWithLimit{.limit = KernelLimit::memory, .demand = 1.0}, "gemm"));
  EXPECT_LT(beside_a_receive(ToldWithLimit{}, "block"), gemm);
  EXPECT_EQ(
      beside_a_receive(ToldWithLimit{.limit = KernelLimit::arithmetic, .demand = 0.5}, "gemm"),
      at(101us));
  EXPECT_EQ(beside_a_receive(ToldWithLimit{.limit = KernelLimit::copy_engine}, "gemm"), at(101us));
}

TEST_F(InterferenceTest, AMemoryShareOfOnesOwnSlowsACollective) {
  const DeviceTiming timing{
      .launch_latency = {}, .kernel_gap = {}, .broken_waves = 1, .memory_contention = 1.0};
  const auto beside = [&](double share) {
    start(timing, ToldWithLimit{.memory_share = share});
    const QueryIndex query = session->add_query(kernel(100'000));
    for (const std::uint32_t rank : {0U, 1U}) reduce(rank, at(0us));
    session->launch(StreamId{1}, at(0us), query);
    return ends(0, at(0us));
  };
  EXPECT_GT(beside(1.0), beside(0.5));
  EXPECT_GT(beside(0.5), beside(0.0));
}

class PowerTest : public SessionTest {
 protected:
  /// What a kernel of 1 ms takes that begins `idle` after one of `before` ms has ended, where both
  /// draw `power` times what the GPU's limit allows.
  double microseconds_of_one(int before, Duration idle, KernelLimit limit, double power) {
    open("h200:1x1", ideal, ToldWithLimit{.limit = limit, .demand = 1.0, .power_share = power});
    session->add_stream(StreamId{1}, 0, 0);
    session->launch(StreamId{1}, at(0us), session->add_query(kernel(1000 * before)));
    const Time begin = at(std::chrono::milliseconds{before}) + idle;
    session->launch(StreamId{1}, begin, session->add_query(kernel(1000)));
    session->record(StreamId{1}, begin, MarkerId{1});
    (void)advance({never});
    return 1e6 * to_seconds(*session->completion(MarkerId{1}) - begin);
  }
};

TEST_F(PowerTest, TensorCoresSlowDownWhereTheGpuDrawsMoreThanItsLimit) {
  // After a second the power of the last 50 ms is 1.5 of the limit: 1 ms x 1.5^0.44.
  EXPECT_NEAR(microseconds_of_one(1000, {}, KernelLimit::arithmetic, 1.5), 1195.31, 0.01);
  // After 50 ms it is 1.5 (1 - 1/e) = 0.948 of it, and the clock is still at its highest.
  EXPECT_EQ(microseconds_of_one(50, {}, KernelLimit::arithmetic, 1.5), 1000.0);
  // After 100 ms 1.5 (1 - 1/e^2) = 1.297.
  EXPECT_NEAR(microseconds_of_one(100, {}, KernelLimit::arithmetic, 1.5), 1121.23, 0.01);
}

TEST_F(PowerTest, MemoryIsAsFastAtAnyClock) {
  EXPECT_EQ(microseconds_of_one(1000, {}, KernelLimit::memory, 1.5), 1000.0);
}

TEST_F(PowerTest, AnIdleGpuCoolsDown) {
  // 1.5 / e = 0.55 of the limit.
  EXPECT_EQ(microseconds_of_one(1000, 50ms, KernelLimit::arithmetic, 1.5), 1000.0);
  // 1.5 / e^0.2 = 1.228 of it.
  EXPECT_NEAR(microseconds_of_one(1000, 10ms, KernelLimit::arithmetic, 1.5), 1094.61, 0.01);
}

TEST_F(PowerTest, WhatTheLimitAllowsLasts) {
  EXPECT_EQ(microseconds_of_one(1000, {}, KernelLimit::arithmetic, 1.0), 1000.0);
}

TEST_F(SessionTest, AModelThatSaysWhatCannotBeIsRefused) {
  open("h200:1x1", ideal, ToldWithLimit{.demand = 0.0});
  EXPECT_THROW((void)session->add_query(kernel(1)), CostError);
  open("h200:1x1", ideal, ToldWithLimit{.memory_share = 1.5});
  EXPECT_THROW((void)session->add_query(kernel(1)), CostError);
  open("h200:1x1", ideal, ToldWithLimit{.power_share = -1.0});
  EXPECT_THROW((void)session->add_query(kernel(1)), CostError);
}

TEST_F(InterferenceTest, AKernelThatDrawsTheMemorysBandwidthSlowsACollective) {
  for (const std::uint32_t rank : {0U, 1U}) reduce(rank, at(0us));
  const Duration alone = ends(0, at(0us)).time_since_epoch();
  start({.launch_latency = {}, .kernel_gap = {}, .memory_contention = 1.0});
  KernelQuery stream = kernel(100'000);
  stream.bytes = 4800e9 * 0.1;  // at the H200's peak
  for (const std::uint32_t rank : {0U, 1U}) reduce(rank, at(0us));
  session->launch(StreamId{1}, at(0us), session->add_query(stream));
  const Duration beside = ends(0, at(0us)).time_since_epoch();
  // The kernel has 108 of 132 SMs, and draws as much less. What precedes the data does not slow.
  EXPECT_GT(beside, alone * 3 / 2);
  EXPECT_LT(beside, alone * (132 + 108) / 132);
}

TEST_F(SessionTest, AHostFunctionHoldsItsStream) {
  open("h200:1x1");
  const QueryIndex ten = session->add_query(kernel(10));
  session->add_stream(StreamId{1}, 0, 0);
  session->launch(StreamId{1}, at(0us), ten);
  session->host_function(StreamId{1}, at(0us), 7);
  session->launch(StreamId{1}, at(0us), ten);
  session->record(StreamId{1}, at(0us), MarkerId{1});
  session->synchronize(0, 0, at(0us), MarkerId{1});
  EXPECT_TRUE(advance({never}).empty());
  const auto due = session->due_host_functions();
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0], (std::pair<std::uint64_t, Time>{7, at(10us)}));
  session->host_function_done(7, at(15us));
  EXPECT_EQ(advance({never}).at(0).clock, at(25us));
}

// At rest nobody can issue anything: the session goes on to what makes somebody go on.
TEST_F(SessionTest, AtRestItGoesOnToTheFirstHostFunction) {
  open("h200:1x1");
  const QueryIndex ten = session->add_query(kernel(10));
  session->add_stream(StreamId{1}, 0, 0);
  session->launch(StreamId{1}, at(0us), ten);
  session->host_function(StreamId{1}, at(0us), 7);
  EXPECT_TRUE(advance({at(0us)}).empty());  // the process waits for its host function at 0
  EXPECT_TRUE(session->due_host_functions().empty());
  const auto answers = session->force();
  ASSERT_TRUE(answers.has_value());
  EXPECT_TRUE(answers->empty());
  EXPECT_EQ(session->due_host_functions(),
            (std::vector<std::pair<std::uint64_t, Time>>{{7, at(10us)}}));
  // It runs: nothing more can be gone on to.
  EXPECT_FALSE(session->force().has_value());
}

TEST_F(SessionTest, AtRestItStopsWhereASleeperWakes) {
  open("h200:1x1");
  const QueryIndex ten = session->add_query(kernel(10));
  session->add_stream(StreamId{1}, 0, 0);
  session->launch(StreamId{1}, at(0us), ten);
  session->record(StreamId{1}, at(0us), MarkerId{1});
  session->synchronize(0, 0, at(0us), MarkerId{1});
  EXPECT_FALSE(session->force(at(9us)).has_value());
  const auto answers = session->force(at(11us));
  ASSERT_TRUE(answers.has_value());
  EXPECT_EQ(answers->at(0).clock, at(10us));
}

TEST_F(SessionTest, WorkIssuedInTheSimulatedPastIsCounted) {
  open("h200:1x1");
  const QueryIndex ten = session->add_query(kernel(10));
  for (const std::uint64_t stream : {1U, 2U}) session->add_stream(StreamId{stream}, 0, 0);
  session->launch(StreamId{1}, at(0us), ten);
  EXPECT_TRUE(advance({never}).empty());
  EXPECT_EQ(session->late_operations(), 0U);
  session->launch(StreamId{2}, at(5us), ten);  // its device has gone on to 10 us
  EXPECT_EQ(session->late_operations(), 1U);
}

/// A job of unequal ranks: kernels, overlapping collectives on two communicators and messages down
/// a chain. Played with the ranks taking turns in an order drawn from `seed`, as real scheduling
/// would; each turn issues one call and blocks where the program does.
std::map<std::uint64_t, Time> play(unsigned seed, double cost_factor = 1.0) {
  const Cluster cluster = parse_cluster("h200:2x2");
  Session session{cluster, gpu_model("h200"), scale(Told{}, cost_factor)};
  constexpr std::uint32_t ranks = 4;
  const CommunicatorId world = session.add_communicator({0, 1, 2, 3});
  const CommunicatorId even = session.add_communicator({0, 2});
  const CommunicatorId odd = session.add_communicator({1, 3});
  std::vector<QueryIndex> kernels;
  for (int us = 1; us <= 40; ++us) kernels.push_back(session.add_query(kernel(us)));
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    session.add_stream(StreamId{rank * 2}, rank, rank);      // compute
    session.add_stream(StreamId{rank * 2 + 1}, rank, rank);  // communication
  }
  struct Rank {
    std::deque<std::function<void(Time)>> program;  // a call; moves `clock` itself if it blocks
    Time clock{};
    bool blocked = false;
  };
  std::vector<Rank> job(ranks);
  std::map<std::uint64_t, Time> seen;
  std::uint64_t next_marker = 0;
  std::mt19937 shape{17};  // the same job for every seed
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    for (int step = 0; step < 6; ++step) {
      const StreamId compute{rank * 2}, communication{rank * 2 + 1};
      auto& program = job[rank].program;
      for (unsigned i = 0; i < 3 + rank; ++i) {
        const QueryIndex query = kernels[shape() % kernels.size()];
        program.emplace_back(
            [&, compute, query](Time now) { session.launch(compute, now, query); });
      }
      const CommunicatorId mine = rank % 2 == 0 ? even : odd;
      program.emplace_back([&, communication, mine, rank](Time now) {
        session.collective(communication, now, mine, static_cast<int>(rank / 2),
                           CollectiveOp::all_reduce, 8_MiB, 0);
      });
      program.emplace_back([&, compute, rank](Time now) {
        std::vector<SendRecv> group;
        const int me = static_cast<int>(rank);
        if (me > 0) group.push_back({me - 1, me, 2_MiB});
        session.send_recv(compute, now, world, me, group);
      });
      program.emplace_back([&, compute, rank](Time now) {
        std::vector<SendRecv> group;
        const int me = static_cast<int>(rank);
        if (me + 1 < static_cast<int>(ranks)) group.push_back({me, me + 1, 2_MiB});
        session.send_recv(compute, now, world, me, group);
      });
      const std::uint64_t marker = ++next_marker;
      program.emplace_back([&, compute, marker, rank](Time now) {
        session.record(compute, now, MarkerId{marker});
        session.synchronize(rank, 0, now, MarkerId{marker});
        job[rank].blocked = true;
        seen[marker] = never;
      });
    }
  }
  std::map<std::uint32_t, std::uint64_t> waits_for;
  std::mt19937 order{seed};
  while (true) {
    std::vector<std::uint32_t> ready;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      if (!job[rank].blocked && !job[rank].program.empty()) ready.push_back(rank);
    }
    if (!ready.empty() && order() % 4 != 0) {
      Rank& rank = job[ready[order() % ready.size()]];
      auto call = std::move(rank.program.front());
      rank.program.pop_front();
      call(rank.clock);
      rank.clock += 1us;
    }
    std::vector<Time> bounds;
    for (const Rank& rank : job) {
      bounds.push_back(rank.blocked || rank.program.empty() ? never : rank.clock);
    }
    const auto answers = session.advance(bounds);
    for (const Answer& answer : answers) {
      job[answer.process].clock = answer.clock;
      job[answer.process].blocked = false;
    }
    for (auto& [marker, time] : seen) {
      if (const auto done = session.completion(MarkerId{marker})) time = *done;
    }
    const bool over = std::all_of(job.begin(), job.end(), [](const Rank& rank) {
      return !rank.blocked && rank.program.empty();
    });
    if (over && answers.empty()) return seen;
    if (ready.empty() && answers.empty()) {
      ADD_FAILURE() << "the job is stuck";
      return seen;
    }
  }
}

TEST(Session, TimesDoNotDependOnTheOrderInWhichRanksAreHeard) {
  const auto reference = play(1);
  ASSERT_EQ(reference.size(), 24U);
  for (unsigned seed = 2; seed < 60; ++seed) EXPECT_EQ(play(seed), reference) << "seed " << seed;
}

TEST(Session, DoublingEveryKernelLengthensTheJobByNoMoreThanItsKernels) {
  const auto once = play(1, 1.0), twice = play(1, 2.0);
  const auto end = [](const auto& times) {
    Time last{};
    for (const auto& [marker, time] : times) last = std::max(last, time);
    return last;
  };
  EXPECT_GT(end(twice), end(once));
  EXPECT_LE(end(twice).time_since_epoch(), 2 * end(once).time_since_epoch());
}

TEST_F(SessionTest, DoublingEveryKernelDoublesAComputeBoundMakespan) {
  for (const int factor : {1, 2}) {
    open("h200:1x1", ideal, scale(Told{}, factor));
    const QueryIndex ten = session->add_query(kernel(10));
    session->add_stream(StreamId{1}, 0, 0);
    for (int i = 0; i < 100; ++i) session->launch(StreamId{1}, at(0us), ten);
    session->record(StreamId{1}, at(0us), MarkerId{1});
    session->synchronize(0, 0, at(0us), MarkerId{1});
    EXPECT_EQ(advance({never}).at(0).clock, at(1000us * factor));
  }
}

/// Two ranks all-reduce 1 GiB; marker and stream of each have its number.
void all_reduce_of_two(Session& session, Time when) {
  const CommunicatorId world = session.add_communicator({0, 1});
  for (const std::uint32_t rank : {0U, 1U}) {
    session.add_stream(StreamId{rank}, rank, rank);
    session.collective(StreamId{rank}, when, world, static_cast<int>(rank),
                       CollectiveOp::all_reduce, 1_GiB, 0);
    session.record(StreamId{rank}, when, MarkerId{rank});
  }
}

TEST(Session, ACollectiveThatNoLinkCarriesIsNamed) {
  const Cluster cluster = parse_cluster_toml(
      "[[hosts]]\ncount = 2\ngpus = 1\n[[failures]]\nat = \"1ms\"\nuntil = \"50ms\"\nnode = "
      "\"leaf0\"");
  Session session{cluster, gpu_model("h200"), Told{}, ideal};
  all_reduce_of_two(session, at(0us));
  (void)session.advance(std::vector<Time>(2, at(2ms)));
  const auto lines = session.incomplete_collectives();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("leaf0"), std::string::npos) << lines[0];
  // Repaired, it goes on: about 22 ms of data, 49 ms late.
  (void)session.advance(std::vector<Time>(2, never));
  ASSERT_TRUE(session.completion(MarkerId{0}));
  EXPECT_GT(*session.completion(MarkerId{0}), at(65ms));
}

TEST(Session, ACollectiveThatStartsOverADeadLinkIsNamed) {
  const Cluster cluster = parse_cluster_toml(
      "[[hosts]]\ncount = 2\ngpus = 1\n[[failures]]\nat = \"0ms\"\nnode = \"leaf0\"");
  Session session{cluster, gpu_model("h200"), Told{}, ideal};
  all_reduce_of_two(session, at(1ms));
  (void)session.advance(std::vector<Time>(2, never));
  const auto lines = session.incomplete_collectives();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("leaf0"), std::string::npos) << lines[0];
}

TEST(Session, HalvingTheNicsDoublesACollectiveThatTheyBound) {
  // Two hosts with a GPU each: a ring of 4 GiB moves 4 GiB through each NIC, 86 ms at 400 Gb/s,
  // so that latency does not matter.
  std::vector<double> seconds;
  for (const char* speed : {"400Gbps", "200Gbps"}) {
    const Cluster cluster = parse_cluster_toml(
        std::string{"[[hosts]]\ngpu = \"h200\"\ncount = 2\ngpus = 1\nnic = \""} + speed +
        "\"\n[fabric]\nkind = \"leaf_spine\"\nlink = \"" + speed + "\"\n");
    Session session{cluster, gpu_model("h200"), Told{}, ideal};
    const CommunicatorId world = session.add_communicator({0, 1});
    for (const std::uint32_t rank : {0U, 1U}) {
      session.add_stream(StreamId{rank}, rank, rank);
      session.collective(StreamId{rank}, at(0us), world, static_cast<int>(rank),
                         CollectiveOp::all_reduce, 4_GiB, 0);
      session.record(StreamId{rank}, at(0us), MarkerId{rank});
      session.synchronize(rank, 0, at(0us), MarkerId{rank});
    }
    const std::vector<Time> bounds(2, never);
    seconds.push_back(to_seconds(session.advance(bounds).at(0).clock.time_since_epoch()));
  }
  EXPECT_NEAR(seconds[1] / seconds[0], 2.0, 0.02);
  EXPECT_GT(seconds[0], 0.0858);
}

// --- Mixed clusters ---

/// One kernel on a stream of each GPU; how long each took.
std::vector<Duration> times_on_each_gpu(Session& session, const Cluster& cluster,
                                        QueryIndex kernel) {
  for (GpuIndex gpu = 0; gpu < cluster.gpus.size(); ++gpu) {
    session.add_stream(StreamId{gpu}, gpu, gpu);
    session.launch(StreamId{gpu}, Time{}, kernel);
    session.record(StreamId{gpu}, Time{}, MarkerId{gpu});
  }
  while (!session.advance(std::vector<Time>(cluster.gpus.size(), never)).empty()) {
  }
  std::vector<Duration> times;
  for (GpuIndex gpu = 0; gpu < cluster.gpus.size(); ++gpu)
    times.push_back(session.completion(MarkerId{gpu}).value().time_since_epoch());
  return times;
}

TEST(MixedCluster, AKernelCostsWhatItDoesOnTheGpuThatRunsIt) {
  const Cluster cluster = parse_cluster("h200:1x2+l40s:1x1");
  std::vector<std::string> asked;
  const auto costs = [&](const GpuModel& gpu) {
    asked.push_back(gpu.name);
    return scale(Told{}, gpu.key == "l40s" ? 4 : 1);
  };
  Session session{cluster, costs, ideal};
  EXPECT_EQ(asked, (std::vector<std::string>{"NVIDIA H200", "NVIDIA L40S"}));
  EXPECT_EQ(times_on_each_gpu(session, cluster, session.add_query(kernel(10))),
            (std::vector<Duration>{10us, 10us, 40us}));
}

TEST(MixedCluster, AQueryMayBePricedOnAnyGpuFirst) {
  const Cluster cluster = parse_cluster("h200:1x1+l40s:1x1");
  Session session{
      cluster, [](const GpuModel& gpu) { return scale(Told{}, gpu.key == "l40s" ? 4 : 1); }, ideal};
  (void)session.add_query(kernel(7), 0);
  EXPECT_EQ(times_on_each_gpu(session, cluster, session.add_query(kernel(10), 1)),
            (std::vector<Duration>{10us, 40us}));
}

TEST(MixedCluster, BuiltinCostsAreThoseOfEachGpu) {
  const Cluster cluster = parse_cluster("h200:1x1+l40s:1x1");
  Session session{cluster, builtin_cost_model, ideal};
  const KernelQuery gemm{
      .name = "gemm",
      .features = {{"m", 4096}, {"n", 4096}, {"k", 4096}},
      .attributes = {{"a_type", "bf16"}, {"b_type", "bf16"}, {"c_type", "bf16"}}};
  const auto times = times_on_each_gpu(session, cluster, session.add_query(gemm));
  EXPECT_EQ(times[0], builtin_cost_model(gpu_model("h200")).estimate(gemm)->duration);
  EXPECT_EQ(times[1], builtin_cost_model(gpu_model("l40s")).estimate(gemm)->duration);
  EXPECT_LT(times[0], times[1]);
}

TEST(MixedCluster, KernelsShareTheSmsOfTheirOwnGpu) {
  // Two kernels of half the L40S's 142 SMs: they do not fit the H200's 132.
  const Cluster cluster = parse_cluster("h200:1x1+l40s:1x1");
  struct ToldOn {
    GpuModel gpu;
    [[nodiscard]] std::optional<CostEstimate> estimate(const KernelQuery& query) const {
      return with_limits({.duration = 10us, .source = CostSource::measured}, query, gpu);
    }
  };
  Session session{cluster, [](const GpuModel& gpu) { return ToldOn{gpu}; }, ideal};
  KernelQuery half = kernel(10);
  half.grid = {142, 1, 1};
  half.block = {1024, 1, 1};
  const QueryIndex query = session.add_query(half);
  for (GpuIndex gpu = 0; gpu < 2; ++gpu) {
    session.add_stream(StreamId{10 + gpu}, gpu, gpu);
    session.launch(StreamId{10 + gpu}, Time{}, query);
  }
  const auto times = times_on_each_gpu(session, cluster, query);
  EXPECT_GT(times[0], 10us);
  EXPECT_EQ(times[1], 10us);
}

TEST(MixedCluster, AnAllReduceWaitsForTheSlowerGpu) {
  const Cluster cluster = parse_cluster("h200:1x1+l40s:1x1");
  Session session{
      cluster, [](const GpuModel& gpu) { return scale(Told{}, gpu.key == "l40s" ? 4 : 1); }, ideal};
  const QueryIndex query = session.add_query(kernel(1000));
  const CommunicatorId both = session.add_communicator({0, 1});
  for (GpuIndex gpu = 0; gpu < 2; ++gpu) {
    session.add_stream(StreamId{gpu}, gpu, gpu);
    session.launch(StreamId{gpu}, Time{}, query);
    session.collective(StreamId{gpu}, Time{}, both, static_cast<int>(gpu), CollectiveOp::all_reduce,
                       64_MiB, 0);
    session.record(StreamId{gpu}, Time{}, MarkerId{gpu});
  }
  while (!session.advance(std::vector<Time>(2, never)).empty()) {
  }
  ASSERT_TRUE(session.completion(MarkerId{0}));
  EXPECT_EQ(session.completion(MarkerId{0}), session.completion(MarkerId{1}));
  // NCCL's kernel waits on the H200 from the end of its own kernel.
  EXPECT_EQ(session.use(0).communication - session.use(1).communication, 3000us);
}

TEST(MixedCluster, AKernelThatNoModelOfItsGpuKnowsIsRefusedWhereItIsLaunched) {
  struct Nothing {
    [[nodiscard]] std::optional<CostEstimate> estimate(const KernelQuery&) const {
      return std::nullopt;
    }
  };
  const Cluster cluster = parse_cluster("h200:1x1+l40s:1x1");
  Session session{cluster,
                  [](const GpuModel& gpu) {
                    return gpu.key == "h200" ? KernelCostModel{Told{}} : KernelCostModel{Nothing{}};
                  },
                  ideal};
  const QueryIndex query = session.add_query(kernel(10));
  session.add_stream(StreamId{0}, 0, 0);
  session.add_stream(StreamId{1}, 1, 1);
  session.launch(StreamId{0}, Time{}, query);
  try {
    session.launch(StreamId{1}, Time{}, query);
    ADD_FAILURE();
  } catch (const CostError& error) {
    EXPECT_EQ(std::string{error.what()},
              "no cost model answers for kernel copy_kernel on NVIDIA L40S");
  }
  EXPECT_THROW(session.add_query(kernel(10), 1), CostError);
}

TEST(MixedCluster, OneModelMustFitEveryGpu) {
  EXPECT_EQ(refusal([] {
              Session{parse_cluster("h200:2x8"), gpu_model("a100"), Told{}};
            }),
            "the GPUs of host0 in cluster h200:2x8 are h200, and the session is given a model of "
            "a100 alone; a mixed cluster takes costs by GPU model");
  EXPECT_EQ(refusal([] {
              Session{parse_cluster("h200:1x8+l40s:1x8"), gpu_model("h200"), Told{}};
            }),
            "the GPUs of host1 in cluster h200:1x8+l40s:1x8 are l40s, and the session is given a "
            "model of h200 alone; a mixed cluster takes costs by GPU model");
}

TEST(MixedCluster, GpusThatAreNotNamedNeedAModel) {
  const Cluster cluster = topologies::single_switch({.gpus = 2, .link = {400_Gbps, 1us}});
  Session session{cluster, gpu_model("h200"), Told{}, ideal};
  EXPECT_EQ(times_on_each_gpu(session, cluster, session.add_query(kernel(10))),
            (std::vector<Duration>{10us, 10us}));
  EXPECT_NE(refusal([&] {
              Session{cluster, builtin_cost_model};
            }).find("give the session a GpuModel"),
            std::string::npos);
}

TEST(MixedCluster, AGroupOfHostsHasItsOwnMemory) {
  const Cluster cluster = parse_cluster_toml(R"(
[[hosts]]
gpu = "h200"
memory = "100GB"
[[hosts]]
gpu = "h200"
[[hosts]]
gpu = "l40s"
memory = "24GB"
)");
  EXPECT_EQ(gpu_model(cluster.hosts[0]).memory, 100_GB);
  EXPECT_EQ(gpu_model(cluster.hosts[1]).memory, gpu_model("h200").memory);
  EXPECT_EQ(gpu_model(cluster.hosts[2]).memory, 24_GB);
  EXPECT_EQ(gpu_model(cluster.hosts[2]).name, "NVIDIA L40S");
}

}  // namespace
}  // namespace phantora
