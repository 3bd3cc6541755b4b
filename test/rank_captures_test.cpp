#include "rank/runtime/captures.hpp"
#include "rank/runtime/refusal.hpp"

#include <memory>
#include <thread>

#include <gtest/gtest.h>

namespace phantora::rank {
namespace {

class RankCaptures : public testing::Test {
 protected:
  RankCaptures() {
    first.id = 1;
    second.id = 2;
    legacy.id = 3;
    legacy.legacy = true;
  }
  void begin(Stream& stream, CaptureMode mode = CaptureMode::global) {
    captures.begin(stream, mode, nullptr, {});
  }
  Node& add(Stream& stream) { return captures.add(stream, std::make_shared<EmptyWork>()); }
  template <class Call>
  static Refusal::Status refused(Call&& call) {
    try {
      call();
    } catch (const Refusal& refusal) {
      return refusal.status;
    }
    return Refusal::Status{};
  }

  std::atomic<int> count{0};
  Captures captures{count};
  Stream first, second, legacy;
};

TEST_F(RankCaptures, WhatComesInAStreamFollowsOnWhatCame) {
  begin(first);
  EXPECT_EQ(count, 1);
  Node& one = add(first);
  Node& two = add(first);
  EXPECT_TRUE(captures.capturing(first));
  EXPECT_FALSE(captures.capturing(second));
  EXPECT_EQ(captures.info(first).dependencies, std::vector<Edge>{{&two}});
  const std::unique_ptr<Graph> graph{captures.end(first)};
  EXPECT_EQ(count, 0);
  ASSERT_EQ(graph->nodes().size(), 2u);
  EXPECT_TRUE(one.dependencies.empty());
  EXPECT_EQ(two.dependencies, std::vector<Edge>{{&one}});
  EXPECT_EQ(captures.info(first).status, CaptureStatus::none);
}

// An event brings the second stream in, and another has to bring it back.
TEST_F(RankCaptures, StreamsForkAndJoinByEvents) {
  begin(first);
  Node& fork = add(first);
  Event forked, joined;
  captures.record(first, forked);
  EXPECT_TRUE(captures.wait(second, forked));
  Node& side = add(second);
  Node& straight = add(first);
  captures.record(second, joined);
  EXPECT_TRUE(captures.wait(first, joined));
  Node& last = add(first);
  const std::unique_ptr<Graph> graph{captures.end(first)};
  EXPECT_EQ(side.dependencies, std::vector<Edge>{{&fork}});
  EXPECT_EQ(straight.dependencies, std::vector<Edge>{{&fork}});
  EXPECT_EQ(last.dependencies, (std::vector<Edge>{{&straight}, {&side}}));
}

TEST_F(RankCaptures, AStreamThatIsNotJoinedSpoilsTheCapture) {
  begin(first);
  add(first);
  Event forked;
  captures.record(first, forked);
  captures.wait(second, forked);
  add(second);
  EXPECT_EQ(refused([&] { captures.end(first); }), Refusal::capture_unjoined);
  EXPECT_EQ(count, 0);
}

TEST_F(RankCaptures, TheLegacyStreamWouldWait) {
  begin(first);
  EXPECT_EQ(refused([&] { captures.capturing(legacy); }), Refusal::capture_implicit);
  EXPECT_EQ(captures.info(first).status, CaptureStatus::invalidated);
  EXPECT_EQ(refused([&] { add(first); }), Refusal::capture_invalidated);
}

TEST_F(RankCaptures, CapturesDoNotMeet) {
  begin(first);
  begin(second);
  Event event;
  captures.record(first, event);
  EXPECT_EQ(refused([&] { captures.wait(second, event); }), Refusal::capture_merge);
  EXPECT_EQ(captures.info(first).status, CaptureStatus::invalidated);
  EXPECT_EQ(captures.info(second).status, CaptureStatus::invalidated);
}

TEST_F(RankCaptures, OthersAreAskedByTheirMode) {
  begin(first, CaptureMode::thread_local_mode);
  std::thread{[&] {
    // Neither disturbs a capture of another thread that is of that thread alone.
    EXPECT_EQ(refused([&] { captures.refuse_if_unsafe(CaptureMode::global); }), Refusal::Status{});
    EXPECT_EQ(refused([&] { captures.refuse_if_unsafe(CaptureMode::relaxed); }), Refusal::Status{});
  }}.join();
  EXPECT_EQ(refused([&] { captures.refuse_if_unsafe(CaptureMode::relaxed); }), Refusal::Status{});
  EXPECT_EQ(refused([&] { captures.refuse_if_unsafe(CaptureMode::thread_local_mode); }),
            Refusal::capture_unsupported);
  EXPECT_EQ(captures.info(first).status, CaptureStatus::invalidated);
}

TEST_F(RankCaptures, EndsOnTheThreadThatBegan) {
  begin(first);
  Refusal::Status status{};
  std::thread{[&] { status = refused([&] { captures.end(first); }); }}.join();
  EXPECT_EQ(status, Refusal::capture_wrong_thread);
}

}  // namespace
}  // namespace phantora::rank
