#include <phantora/simulation/virtual_clock.hpp>

#include <gtest/gtest.h>

namespace phantora {
namespace {

using namespace std::chrono_literals;

std::chrono::nanoseconds cpu{};
std::chrono::nanoseconds read_cpu() { return cpu; }

TEST(VirtualClock, HostTimeIsChargedOnlyWhileResumed) {
  cpu = 100ns;
  VirtualClock clock{read_cpu, 2.0};
  cpu += 50ns;
  EXPECT_EQ(clock.now(), Time{});
  clock.resume_host();
  cpu += 30ns;
  EXPECT_EQ(clock.now(), Time{60ns});  // 30 ns at scale 2
  clock.pause_host();
  cpu += 1000ns;
  EXPECT_EQ(clock.now(), Time{60ns});
}

TEST(VirtualClock, WaitingNeverGoesBack) {
  VirtualClock clock;
  clock.advance(5us);
  clock.wait_until(Time{3us});
  EXPECT_EQ(clock.now(), Time{5us});
  clock.wait_until(Time{8us});
  EXPECT_EQ(clock.now(), Time{8us});
}

TEST(VirtualClock, WaitingWhileRunningChargesHostTimeOnce) {
  cpu = 0ns;
  VirtualClock clock{read_cpu};
  clock.resume_host();
  cpu += 10ns;
  clock.wait_until(Time{10ns});  // already there
  EXPECT_EQ(clock.now(), Time{10ns});
  clock.wait_until(Time{100ns});
  EXPECT_EQ(clock.now(), Time{100ns});
  cpu += 5ns;
  EXPECT_EQ(clock.now(), Time{105ns});
}

TEST(VirtualClock, TheScaleChangesFromHereOn) {
  cpu = 0ns;
  VirtualClock clock{read_cpu, 2.0};
  clock.resume_host();
  cpu += 10ns;
  clock.set_host_scale(0.5);
  cpu += 10ns;
  EXPECT_EQ(clock.now(), Time{25ns});
  EXPECT_EQ(clock.measured(), 20ns);
  EXPECT_EQ(clock.charged(), 25ns);
}

TEST(VirtualClock, LeavesOutAShareOfWhatComes) {
  cpu = 0ns;
  VirtualClock clock{read_cpu, 2.0};
  clock.resume_host();
  cpu += 10ns;
  clock.leave_out(30ns, 0.5);
  EXPECT_EQ(clock.now(), Time{20ns});  // what was before counts in full
  cpu += 40ns;
  EXPECT_EQ(clock.now(), Time{60ns});  // 20 of 40 ns at scale 2
  EXPECT_EQ(clock.left_out(), 10ns);
  clock.advance(1us);  // modelled time is no host time
  cpu += 100ns;
  EXPECT_EQ(clock.now(), Time{1us + 240ns});  // 90 of 100 ns
  EXPECT_EQ(clock.left_out(), 0ns);
  cpu += 10ns;
  EXPECT_EQ(clock.now(), Time{1us + 260ns});
  EXPECT_EQ(clock.measured(), 160ns);
  EXPECT_EQ(clock.charged(), 260ns);
}

// A timer that is a system call takes part of its own time before the instant that it returns and
// the rest after it: two calls in a row differ by one whole call.
TEST(VirtualClock, ReadingTheTimerIsFree) {
  cpu = 0ns;
  VirtualClock clock{[] { return cpu += 500ns; }, 2.0, 500ns};
  clock.resume_host();
  EXPECT_EQ(clock.now(), Time{});
  cpu += 30ns;
  EXPECT_EQ(clock.now(), Time{60ns});
  EXPECT_EQ(clock.now(), Time{60ns});
  clock.pause_host();
  EXPECT_EQ(clock.now(), Time{60ns});
}

TEST(VirtualClock, WithoutATimerHostTimeIsFree) {
  VirtualClock clock;
  clock.resume_host();
  clock.pause_host();
  EXPECT_EQ(clock.now(), Time{});
}

}  // namespace
}  // namespace phantora
