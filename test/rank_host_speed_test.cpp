#include "rank/runtime/host_speed.hpp"

#include <thread>

#include <gtest/gtest.h>

namespace phantora::rank {
namespace {

using namespace std::chrono_literals;
using Nanoseconds = std::chrono::duration<double, std::nano>;

std::chrono::nanoseconds cpu{};
std::chrono::nanoseconds read_cpu() { return cpu; }

/// What of a thread's work is left out after 20 ms, or more, that pass between two of its calls.
/// @param meanwhile  with the thread's clock
template <class Meanwhile>
Nanoseconds left_out_after_a_while(double scale, Meanwhile meanwhile) {
  VirtualClock clock{read_cpu, scale};
  HostSpeed speed;
  speed.refill_caches(clock);
  EXPECT_EQ(clock.left_out(), 0ns);  // since when is not known
  std::this_thread::sleep_for(20ms);
  meanwhile(clock);
  speed.refill_caches(clock);
  return clock.left_out();
}

TEST(HostSpeed, LeavesOutWhatOtherWorkCosts) {
  const Nanoseconds left_out = left_out_after_a_while(1, [](VirtualClock&) {});
  EXPECT_GE(left_out, CacheRefill::after(0ns, 20ms) - 1ns);
  EXPECT_LE(left_out, CacheRefill::whole);
}

// 20 ms here are 40 ms of a host that is half as fast, whose caches take so long to be filled.
TEST(HostSpeed, CountsOtherWorkAsTheHostsOwn) {
  const Nanoseconds left_out = left_out_after_a_while(2, [](VirtualClock&) {});
  EXPECT_GE(left_out, CacheRefill::after(0ns, 40ms) / 2 - 1ns);
  EXPECT_LE(left_out, Nanoseconds{CacheRefill::whole} / 2);
}

TEST(HostSpeed, LeavesOutNothingForWaitsThatAreSimulated) {
  EXPECT_EQ(left_out_after_a_while(1, [](VirtualClock& clock) { clock.advance(1h); }), 0ns);
  EXPECT_EQ(left_out_after_a_while(
                1, [](VirtualClock& clock) { clock.wait_until(clock.now() + Duration{1h}); }),
            0ns);
}

TEST(HostSpeed, LeavesOutNothingForTheThreadsOwnWork) {
  EXPECT_EQ(left_out_after_a_while(1,
                                   [](VirtualClock& clock) {
                                     clock.resume_host();
                                     cpu += 1h;
                                     clock.pause_host();
                                   }),
            0ns);
}

TEST(HostSpeed, LeavesOutNothingWhereHostWorkTakesNoTime) {
  EXPECT_EQ(left_out_after_a_while(0, [](VirtualClock&) {}), 0ns);
}

}  // namespace
}  // namespace phantora::rank
