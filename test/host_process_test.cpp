#include <phantora/simulation/host_process.hpp>

#include <gtest/gtest.h>

namespace phantora {
namespace {

Time at(std::int64_t ns) { return Time{std::chrono::nanoseconds{ns}}; }

TEST(HostProcess, WithoutThreadsThereIsNoBound) {
  EXPECT_FALSE(HostProcess{}.bound());
  EXPECT_FALSE(HostProcess{}.bound(true));
}

TEST(HostProcess, TheThreadThatRunsAndIsFurthestBehindDecides) {
  HostProcess process;
  process.runs(at(7));
  process.runs(at(5));
  process.waits(at(2), at(3));
  process.is_blocked();
  EXPECT_EQ(process.bound(), at(5));
  EXPECT_EQ(process.bound(true), at(5));
}

TEST(HostProcess, WhereNoneRunsTheSessionWakesWhoIsBlocked) {
  HostProcess process;
  process.waits(at(9), at(10));
  process.is_blocked();
  EXPECT_EQ(process.bound(), never);
}

TEST(HostProcess, WhereAllWaitTheyGoOnNoEarlierThanTheLatest) {
  HostProcess process;
  EXPECT_FALSE(process.waiting_at());
  process.waits(at(9), at(40));
  process.waits(at(4), at(30));
  EXPECT_EQ(process.waiting_at(), at(9));
  EXPECT_EQ(process.bound(), at(9));
}

TEST(HostProcess, WhereOnlyRanksWakeThemTheyHoldNobodyUp) {
  HostProcess process;
  process.waits(at(9));
  EXPECT_EQ(process.bound(true), never);
  process.waits(at(4), at(30));
  process.waits(at(5), at(40));
  EXPECT_EQ(process.bound(true), at(30));  // by a timeout of its own
}

TEST(HostProcess, AClockAtZeroIsAClock) {
  HostProcess process;
  process.waits(Time{});
  EXPECT_EQ(process.bound(), Time{});
  process.runs(Time{});
  EXPECT_EQ(process.bound(), Time{});
}

}  // namespace
}  // namespace phantora
