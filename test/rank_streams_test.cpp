#include "engine_fake.hpp"
#include "rank/runtime/communicators.hpp"
#include "rank/runtime/streams.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace phantora::rank {
namespace {

using namespace std::chrono_literals;
using channel::Op;

constexpr unsigned non_blocking = 1;

class RankStreams : public testing::Test {
 protected:
  RankStreams() {
    clocks.connected(*engine.connection);
    thread.clock.wait_until(Time{5us});
    // Everything is complete at 9 us.
    engine.answer = [](const channel::Record&) {
      return channel::Reply{.clock_ps = Duration{9us}.count(), .value = 1};
    };
  }
  Stream& stream(unsigned flags = non_blocking) {
    Stream& made = streams.create(thread, 0, flags, 0);
    (void)engine.records();
    return made;
  }
  /// What was appended: "launch 2" of stream 2, "wait 3<1" of stream 3 for marker 1.
  std::vector<std::string> appended() {
    std::vector<std::string> texts;
    for (const channel::Record& record : engine.records()) {
      const std::string of = std::to_string(record.stream), a = std::to_string(record.a);
      switch (record.op) {
        case Op::create_stream:
          texts.push_back("create " + of + "@" + std::to_string(record.device));
          break;
        case Op::launch:
          texts.push_back("launch " + of);
          break;
        case Op::record:
          texts.push_back("record " + of + ">" + a);
          break;
        case Op::wait:
          texts.push_back("wait " + of + "<" + a);
          break;
        case Op::drop_marker:
          texts.push_back("drop " + a);
          break;
        case Op::collective:
          texts.push_back("collective " + of);
          break;
        case Op::synchronize:
          texts.push_back("synchronize " + a);
          break;
        case Op::query:
          texts.push_back("query " + a);
          break;
        default:
          texts.push_back("op " + std::to_string(static_cast<int>(record.op)));
      }
    }
    return texts;
  }
  using Texts = std::vector<std::string>;

  FakeEngine engine;
  ThreadClocks clocks{HostTimePolicy{.kind = HostTime::off}};
  DataQueue data;
  Activities activities;
  Streams streams{clocks, data, activities, [](int device) { return 4 + device; }};
  HostThread thread, background;
};

TEST_F(RankStreams, AStreamIsMadeOnceAndTold) {
  Stream& legacy = streams.legacy(thread, 1);
  EXPECT_EQ(&streams.legacy(thread, 1), &legacy);
  Stream& own = streams.per_thread(thread, 0);
  EXPECT_EQ(&streams.per_thread(thread, 0), &own);
  EXPECT_EQ(appended(), (Texts{"create 1@5", "create 2@4"}));
}

TEST_F(RankStreams, AStreamsPriorityIsTold) {
  streams.create(thread, 0, non_blocking, -3);
  const auto records = engine.records();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].a, 3U);
}

TEST_F(RankStreams, WhatIsAppendedBearsTheThreadsClock) {
  Stream& s = stream();
  streams.launch(thread, s, 0);
  thread.clock.wait_until(Time{7us});
  streams.launch(thread, s, 0);
  const auto records = engine.records();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].clock_ps, Duration{5us}.count());
  EXPECT_EQ(records[1].clock_ps, Duration{7us}.count());
  EXPECT_EQ(records[1].thread, thread.index);
}

TEST_F(RankStreams, AKernelIsDescribedOnce) {
  KernelQuery query;
  query.name = "fill";
  const QueryId id = streams.intern(thread, query, {});
  EXPECT_EQ(streams.intern(thread, query, {}), id);
  query.name = "copy";
  EXPECT_NE(streams.intern(thread, query, {}), id);
  EXPECT_EQ(engine.records().size(), 2U);
}

TEST_F(RankStreams, TheLegacyStreamsRuleIsMarkersAndWaits) {
  Stream& legacy = streams.legacy(thread, 0);
  Stream& blocking = stream(0);
  Stream& free = stream();
  streams.launch(thread, blocking, 0);
  streams.launch(thread, free, 0);
  EXPECT_EQ(appended(), (Texts{"launch 2", "launch 3"}));
  streams.launch(thread, legacy, 0);
  EXPECT_EQ(appended(), (Texts{"record 2>1", "wait 1<1", "drop 1", "launch 1"}));
  streams.launch(thread, legacy, 0);
  EXPECT_EQ(appended(), (Texts{"launch 1"}));
  streams.launch(thread, blocking, 0);
  EXPECT_EQ(appended(), (Texts{"record 1>2", "wait 2<2", "drop 2", "launch 2"}));
}

TEST_F(RankStreams, DataKeepsTheOrderOfTime) {
  Stream& legacy = streams.legacy(thread, 0);
  Stream& blocking = stream(0);
  Stream& free = stream();
  std::string log;
  constexpr DataQueue::Ticket ticket = 8;
  streams.next_data(thread, blocking).exchange(blocking, ticket, [] {}, {});
  streams.enqueue(thread, legacy, [&] { log += 'l'; });
  streams.enqueue(thread, free, [&] { log += 'f'; });
  EXPECT_EQ(log, "f");
  EXPECT_TRUE(streams.holds_back(thread, legacy));
  EXPECT_FALSE(streams.holds_back(thread, free));
  // What is recorded behind the exchange has not been reached: who waits for it is held back too.
  const Marker behind = streams.record(thread, blocking);
  streams.wait(thread, free, behind);
  streams.enqueue(thread, free, [&] { log += 'F'; });
  EXPECT_EQ(log, "f");
  data.deliver(ticket, {});
  EXPECT_EQ(log.substr(0, 1), "f");
  EXPECT_EQ(log.size(), 3U);
  EXPECT_FALSE(streams.holds_back(thread, legacy));
}

TEST_F(RankStreams, WaitingMovesTheClockToTheCompletion) {
  Stream& s = stream();
  streams.launch(thread, s, 0);
  const Marker marker = streams.record(thread, s);
  streams.synchronize(thread, marker);
  EXPECT_EQ(thread.clock.now(), Time{9us});
  EXPECT_EQ(appended(), (Texts{"launch 1", "record 1>1", "synchronize 1"}));
}

TEST_F(RankStreams, WhatIsKnownIsNotAskedAgain) {
  Stream& s = stream();
  const Marker first = streams.record(thread, s), second = streams.record(thread, s);
  streams.synchronize(thread, second);
  (void)engine.records();
  EXPECT_TRUE(streams.done(thread, second));
  EXPECT_TRUE(streams.done(thread, first));  // it is before it in its stream
  streams.synchronize(thread, first);
  EXPECT_EQ(appended(), Texts{});
  EXPECT_TRUE(streams.done(thread, streams.record(thread, s)));
  EXPECT_EQ(appended(), (Texts{"record 1>3", "query 3"}));
}

TEST_F(RankStreams, AStreamThatHasGotNothingSinceIsNotWaitedForAgain) {
  Stream& s = stream();
  streams.synchronize(thread, s);
  EXPECT_EQ(appended(), Texts{});
  streams.launch(thread, s, 0);
  streams.synchronize(thread, s);
  EXPECT_EQ(appended(), (Texts{"launch 1", "record 1>1", "synchronize 1", "drop 1"}));
  streams.synchronize(thread, s);
  EXPECT_TRUE(streams.done(thread, s));
  streams.synchronize_device(thread, 0);
  EXPECT_EQ(appended(), Texts{});
}

TEST_F(RankStreams, AStreamThatWasFoundDoneIsNotAskedAboutAgain) {
  Stream& s = stream();
  streams.launch(thread, s, 0);
  EXPECT_TRUE(streams.done(thread, s));
  EXPECT_EQ(appended(), (Texts{"launch 1", "record 1>1", "query 1", "drop 1"}));
  EXPECT_EQ(thread.clock.now(), Time{9us});
  EXPECT_TRUE(streams.done(thread, s));
  EXPECT_EQ(appended(), Texts{});
  // Nobody whose clock is behind that knows.
  HostThread behind;
  clocks.become_issuer(behind);
  (void)streams.done(behind, s);
  EXPECT_EQ(appended(), (Texts{"record 1>2", "query 2", "drop 2"}));
  // Nor does anybody of what came since.
  streams.launch(thread, s, 0);
  EXPECT_TRUE(streams.done(thread, s));
  EXPECT_EQ(appended(), (Texts{"launch 1", "record 1>3", "query 3", "drop 3"}));
}

TEST_F(RankStreams, AskingInVainTakesAMicrosecond) {
  engine.answer = [](const channel::Record& asked) {
    return channel::Reply{.clock_ps = asked.clock_ps, .value = 0, .counts = true};
  };
  Stream& s = stream();
  const Marker marker = streams.record(thread, s);
  EXPECT_FALSE(streams.done(thread, marker));
  EXPECT_EQ(thread.clock.now(), Time{6us});
  // A watchdog asks for a process that waits for it: only what it carries goes on.
  EXPECT_FALSE(streams.done(background, marker));
  EXPECT_FALSE(background.issues);
  EXPECT_EQ(background.carried_ps, Duration{6us}.count());
}

TEST_F(RankStreams, AGroupIsARecordForEachCommunicatorAndStream) {
  Communicators communicators{clocks, streams, activities};
  Stream& s = stream();
  Stream& other = stream();
  engine.answer = [](const channel::Record& asked) {
    return channel::Reply{.value = static_cast<std::int64_t>(10 + asked.b)};
  };
  const std::array<std::byte, 128> id{};
  const auto a = communicators.join(thread, id, {.ranks = 2, .rank = 0, .device = 0}, 4);
  const auto b = communicators.join(thread, id, {.ranks = 2, .rank = 1, .device = 0}, 4);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(communicators.info(*b).rank, 1);
  (void)engine.records();
  const auto reduce = [](std::uint64_t communicator, Stream& on) {
    return CollectiveCall{.op = Collective::all_reduce,
                          .communicator = communicator,
                          .count = std::size_t{1} << 30,
                          .type = channel::DataType::float32,
                          .stream = &on};
  };
  const std::array group{reduce(*a, s), reduce(*b, s), reduce(*a, other), reduce(*a, s)};
  communicators.enqueue(thread, group);
  const auto records = engine.records();
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[0].stream, s.id);
  EXPECT_EQ(records[0].payload_bytes, 2 * sizeof(channel::CollectiveRecord));
  EXPECT_EQ(records[1].stream, s.id);
  EXPECT_EQ(records[2].stream, other.id);
  communicators.leave(thread, *a);
  EXPECT_EQ(communicators.info(*a).ranks, 0);
}

TEST_F(RankStreams, UniqueIdsDiffer) {
  Communicators communicators{clocks, streams, activities};
  std::array<std::byte, 128> first{}, second{};
  communicators.make_unique_id(first);
  communicators.make_unique_id(second);
  EXPECT_NE(first, second);
}

}  // namespace
}  // namespace phantora::rank
