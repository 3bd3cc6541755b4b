#include "rank/code/warp_timing.hpp"

#include <gtest/gtest.h>

namespace phantora::rank::code {
namespace {

Asked load(unsigned scoreboard, double received) {
  Asked asked;
  asked.giver = Giver::memory;
  asked.latency = memory_latency;
  asked.received = received;
  asked.writes = scoreboard;
  return asked;
}

Asked copy(double received) {
  Asked asked = load(Asked::no_scoreboard, received);
  asked.copies = true;
  return asked;
}

Asked end_of_copies() {
  Asked asked;
  asked.latency = 1;
  asked.ends_copies = true;
  asked.writes = 0;
  return asked;
}

TEST(WarpTiming, ResultsAreWaitedForByScoreboard) {
  Timing timing{{}};
  timing.issue(load(0, 0));
  timing.issue(load(1, 0));
  EXPECT_DOUBLE_EQ(timing.clock(), 2);
  timing.wait(0b01);
  EXPECT_DOUBLE_EQ(timing.clock(), memory_latency);
  timing.wait(0b10);  // was asked for a cycle later
  EXPECT_DOUBLE_EQ(timing.clock(), memory_latency + 1);
  timing.wait(0b11);
  EXPECT_DOUBLE_EQ(timing.clock(), memory_latency + 1);
}

TEST(WarpTiming, TheL2CacheSendsOneAfterTheOther) {
  Timing timing{{.memory = l2_latency}};
  timing.issue(load(0, 10));
  timing.issue(load(1, 10));  // asked for at 1, sent from 10 to 20
  timing.wait(0b01);
  EXPECT_DOUBLE_EQ(timing.clock(), 10 + l2_latency);
  timing.wait(0b10);
  EXPECT_DOUBLE_EQ(timing.clock(), 20 + l2_latency);
}

TEST(WarpTiming, CopiesAreWaitedForByGroups) {
  // Three groups of 100 cycles each, issued by 6 cycles: there at 1000, 1100 and 1200.
  Timing timing{{.memory = 900}};
  for (int group = 0; group < 3; ++group) {
    timing.issue(copy(100));
    timing.issue(end_of_copies());
  }
  EXPECT_DOUBLE_EQ(timing.clock(), 6);
  timing.wait_for_copies(3);
  EXPECT_DOUBLE_EQ(timing.clock(), 6);
  timing.wait_for_copies(2);
  EXPECT_DOUBLE_EQ(timing.clock(), 1000);
  timing.wait_for_copies(1);
  EXPECT_DOUBLE_EQ(timing.clock(), 1100);
  timing.wait_for_copies(0);
  EXPECT_DOUBLE_EQ(timing.clock(), 1200);
  // The scoreboard of their ends stands for all of them.
  Timing all{{.memory = 900}};
  all.issue(copy(100));
  all.issue(end_of_copies());
  all.wait(0b1);
  EXPECT_DOUBLE_EQ(all.clock(), 1000);
}

TEST(WarpTiming, ProductsFollowOneAnotherAndTheWarpGoesOn) {
  // Trips of 30 cycles beside products of 100, each of which waits for the one before: from the
  // second on a trip takes 100.
  Timing timing{{}};
  double last = 0;
  for (int trip = 0; trip < 5; ++trip) {
    timing.multiply(100, true);
    timing.wait_for_products(1);
    timing.pause(30);
    if (trip > 1) {
      EXPECT_DOUBLE_EQ(timing.clock() - last, 100);
    }
    last = timing.clock();
  }
  timing.wait_for_products(0);
  EXPECT_DOUBLE_EQ(timing.clock(), 500);
}

TEST(WarpTiming, PipesAreBusy) {
  Timing timing{{}};
  Asked special;
  special.busy[3] = 8;
  special.latency = special_latency;
  special.writes = 2;
  timing.issue(special);
  timing.issue(special);  // begins at 8, its last comes out 7 cycles after its first
  EXPECT_DOUBLE_EQ(timing.clock(), 9);
  timing.wait(0b100);
  EXPECT_DOUBLE_EQ(timing.clock(), 8 + special_latency + 7);
}

TEST(WarpTiming, StacksAreAnsweredAsAssumed) {
  Asked reload;
  reload.giver = Giver::stack;
  reload.latency = shared_latency;
  reload.writes = 0;
  Timing near{{}}, far{{.stack = l2_latency - shared_latency}};
  for (Timing* timing : {&near, &far}) {
    timing->issue(reload);
    timing->wait(0b1);
  }
  EXPECT_DOUBLE_EQ(near.clock(), shared_latency);
  EXPECT_DOUBLE_EQ(far.clock(), l2_latency);
}

TEST(WarpTiming, SkippedTripsChangeNothingElse) {
  const auto begin = [] {
    Timing timing{{}};
    timing.issue(load(3, 50));
    timing.issue(copy(20));
    timing.issue(end_of_copies());
    timing.multiply(2000, true);
    return timing;
  };
  Timing straight = begin(), skipped = begin();
  skipped.skip(12345);
  EXPECT_DOUBLE_EQ(skipped.clock(), straight.clock() + 12345);
  for (Timing* timing : {&straight, &skipped}) timing->wait(0b1000);
  EXPECT_DOUBLE_EQ(skipped.clock(), straight.clock() + 12345);
  for (Timing* timing : {&straight, &skipped}) timing->wait_for_copies(0);
  EXPECT_DOUBLE_EQ(skipped.clock(), straight.clock() + 12345);
  for (Timing* timing : {&straight, &skipped}) timing->wait_for_products(0);
  EXPECT_DOUBLE_EQ(skipped.clock(), straight.clock() + 12345);
}

}  // namespace
}  // namespace phantora::rank::code
