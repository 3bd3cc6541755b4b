#include "rank/runtime/followed_clock.hpp"

#include <gtest/gtest.h>

namespace phantora::rank {
namespace {

constexpr std::int64_t ps_per_ns = 1000;

class FollowedClockTest : public testing::Test {
 protected:
  channel::RunShared run{};
  FollowedClock clock{run};
};

TEST_F(FollowedClockTest, IsRealBeforeTheRunGoesOn) {
  EXPECT_EQ(clock.monotonic_ns(100), 100);
  EXPECT_EQ(clock.monotonic_ns(150), 150);
}

TEST_F(FollowedClockTest, GoesBySimulatedTimeWhileTheRunGoesOn) {
  EXPECT_EQ(clock.monotonic_ns(100), 100);
  run.goes_since_ns = 120;
  EXPECT_EQ(clock.monotonic_ns(500), 120);
  run.answered_ps = 7 * ps_per_ns;
  EXPECT_EQ(clock.monotonic_ns(501), 127);
  EXPECT_EQ(clock.monotonic_ns(900), 127);
  run.answered_ps = 4000 * ps_per_ns;  // faster than real time
  EXPECT_EQ(clock.monotonic_ns(901), 4120);
}

TEST_F(FollowedClockTest, GoesByRealTimeWhileTheRunStands) {
  run.went_ns = 300;  // of which 7 were simulated
  run.answered_ps = 7 * ps_per_ns;
  EXPECT_EQ(clock.monotonic_ns(1000), 707);
  EXPECT_EQ(clock.monotonic_ns(1050), 757);
  run.goes_since_ns = 1060;
  EXPECT_EQ(clock.monotonic_ns(2000), 767);
}

TEST_F(FollowedClockTest, NeverGoesBack) {
  run.goes_since_ns = 100;
  EXPECT_EQ(clock.monotonic_ns(400), 100);
  // The run has just come to stand, and its last stretch counts twice for whoever looks now.
  run.went_ns = 300;
  EXPECT_EQ(clock.monotonic_ns(400), 100);
  run.goes_since_ns = 0;
  EXPECT_EQ(clock.monotonic_ns(401), 101);
}

TEST_F(FollowedClockTest, TellsTheEngineThatSomebodyWaits) {
  EXPECT_FALSE(run.followed);
  clock.wait();
  EXPECT_TRUE(run.followed);
}

TEST(FollowedClock, NeedsTheMemoryOfARun) {
  EXPECT_EQ(FollowedClock::open(""), nullptr);
  EXPECT_EQ(FollowedClock::open("/proc/self/fd/999999"), nullptr);
}

}  // namespace
}  // namespace phantora::rank
