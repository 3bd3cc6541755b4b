#include "run/turns.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace phantora::run {
namespace {

using namespace std::chrono_literals;

Contender runs(ProcessIndex process) { return {.process = process, .uses_turn = true}; }
Contender waits(ProcessIndex process, std::int64_t clock_ps, bool uses_turn = false) {
  return {.process = process, .uses_turn = uses_turn, .next = {{clock_ps, 0}}};
}

TEST(Turns, NobodyGoesOnWhoMayNot) {
  EXPECT_FALSE(next_turn({}, 2));
  EXPECT_FALSE(next_turn(std::vector{runs(0), Contender{.process = 1}}, 2));
}

TEST(Turns, TheLeastClockGoesFirst) {
  EXPECT_EQ(next_turn(std::vector{waits(0, 30), waits(1, 10), waits(2, 20)}, 1)->process, 1U);
  EXPECT_EQ(next_turn(std::vector{waits(0, 30), waits(1, 10), waits(2, 10)}, 1)->process, 1U);
}

TEST(Turns, OnlyAsManyRunAsMay) {
  const std::vector all{runs(0), waits(1, 10), runs(2), waits(3, 5)};
  EXPECT_FALSE(next_turn(all, 2));
  EXPECT_EQ(next_turn(all, 3)->process, 3U);
}

TEST(Turns, AProcessThatRunsWaitsForATurnWithAnotherThreadToo) {
  const std::vector all{waits(0, 10, true), waits(1, 20)};
  EXPECT_FALSE(next_turn(all, 1));
  EXPECT_EQ(next_turn(all, 2)->process, 0U);
}

TEST(Turns, AProcessRunsUntilItsFirstThreadHasAClock) {
  EXPECT_TRUE(uses_turn({.has_threads = false}));
  EXPECT_FALSE(uses_turn({.has_threads = true}));
  EXPECT_TRUE(uses_turn({.has_threads = true, .thread_runs = true}));
}

TEST(Turns, WhoSleepsOrIsSilentForLongHoldsNobodyUp) {
  EXPECT_FALSE(uses_turn({.thread_runs = true, .idle = true}));
  EXPECT_TRUE(uses_turn({.thread_runs = true, .silent_for = 250ms}));
  EXPECT_FALSE(uses_turn({.thread_runs = true, .silent_for = 251ms}));
  EXPECT_FALSE(uses_turn({.has_threads = false, .silent_for = 251ms}));
}

}  // namespace
}  // namespace phantora::run
