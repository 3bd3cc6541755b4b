#include "rank/runtime/cpu_clock.hpp"

#include <gtest/gtest.h>

namespace {

using phantora::rank::CpuClock;
using namespace std::chrono_literals;
using std::chrono::nanoseconds;

/// A machine whose counter ticks twice in a nanosecond.
struct Machine {
  static inline std::uint64_t now_ticks = 0;
  static inline nanoseconds on_core{};
  static inline bool lost = false;
  static inline int looks = 0;
  static inline nanoseconds look_cost{};

  static std::uint64_t ticks() { return now_ticks; }
  static nanoseconds cpu_time() {
    ++looks;
    runs(look_cost / 2);
    const nanoseconds seen = on_core;
    runs(look_cost / 2);
    return seen;
  }
  static void watch() { lost = false; }
  static bool lost_core() { return lost; }
  static double ns_per_tick() { return 0.5; }
  static nanoseconds cost() { return look_cost; }

  static void runs(nanoseconds time) {
    now_ticks += 2 * static_cast<std::uint64_t>(time.count());
    on_core += time;
  }
  static void sleeps(nanoseconds time) {
    now_ticks += 2 * static_cast<std::uint64_t>(time.count());
    lost = true;
  }
  /// A hypervisor takes the core from the whole machine: the kernel finds out later.
  static void is_stolen(nanoseconds time) {
    now_ticks += 2 * static_cast<std::uint64_t>(time.count());
  }
};

class RankCpuClock : public testing::Test {
 protected:
  RankCpuClock() {
    Machine::now_ticks = 1'000'000;
    Machine::on_core = 70us;
    Machine::lost = false;
    Machine::looks = 0;
    Machine::look_cost = 0ns;
  }
  CpuClock<Machine> clock;
};

TEST_F(RankCpuClock, TicksWhileTheThreadKeepsItsCore) {
  EXPECT_EQ(clock.now(), 70us);
  for (int i = 1; i <= 400; ++i) {
    Machine::runs(1us);
    EXPECT_EQ(clock.now(), 70us + i * 1us);
  }
  EXPECT_EQ(Machine::looks, 1);
}

TEST_F(RankCpuClock, ChargesNothingWhileTheThreadHasNoCore) {
  const nanoseconds begin = clock.now();
  Machine::runs(3us);
  Machine::sleeps(100us);
  Machine::runs(4us);
  EXPECT_EQ(clock.now() - begin, 7us);
  Machine::sleeps(20ms);
  EXPECT_EQ(clock.now() - begin, 7us);
  Machine::runs(5us);
  EXPECT_EQ(clock.now() - begin, 12us);
  EXPECT_EQ(Machine::looks, 3);
}

TEST_F(RankCpuClock, StolenTimeIsTakenBack) {
  const nanoseconds begin = clock.now();
  Machine::is_stolen(100us);
  Machine::runs(100us);
  EXPECT_EQ(clock.now() - begin, 200us);  // who keeps the core cannot know
  Machine::runs(350us);
  EXPECT_EQ(clock.now() - begin, 450us);  // looked: 500 us of the counter are over
  EXPECT_EQ(Machine::looks, 2);
}

TEST_F(RankCpuClock, NeverGoesBack) {
  const nanoseconds begin = clock.now();
  Machine::is_stolen(400us);
  Machine::runs(10us);
  EXPECT_EQ(clock.now() - begin, 410us);
  Machine::runs(100us);
  EXPECT_EQ(clock.now() - begin, 410us);
  Machine::runs(299us);
  EXPECT_EQ(clock.now() - begin, 410us);
  Machine::runs(2us);
  EXPECT_EQ(clock.now() - begin, 411us);
}

TEST_F(RankCpuClock, LookingIsNotCharged) {
  Machine::look_cost = 900ns;
  const nanoseconds begin = clock.now();
  for (int i = 1; i <= 100; ++i) {
    Machine::runs(1us);
    Machine::sleeps(1us);
    EXPECT_EQ(clock.now() - begin, i * 1us);
  }
  EXPECT_EQ(Machine::looks, 101);
}

TEST_F(RankCpuClock, AChildStartsAnew) {
  clock.now();
  Machine::on_core = 2us;  // the child's own
  Machine::sleeps(1us);
  const nanoseconds begin = clock.now();
  EXPECT_EQ(begin, 2us);
  Machine::runs(6us);
  EXPECT_EQ(clock.now() - begin, 6us);
}

/// Of this machine itself: work is measured by the kernel's clock, which does not stand.
TEST(RankCpuTimeOf, IsNoLessThanTheWork) {
  for (int i = 0; i < 100; ++i) {
    const nanoseconds took = phantora::rank::cpu_time_of([] {
      const nanoseconds begin = phantora::rank::kernels_cpu_time();
      while (phantora::rank::kernels_cpu_time() - begin < 15us) {
      }
    });
    EXPECT_GE(took + phantora::rank::kernels_reading_cost(), 15us);
  }
}

/// Of this machine itself: what is read lies between what the kernel's clock says before and after.
TEST(RankThreadCpuTime, IsTheThreadsOwn) {
  const auto kernels = [] {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::chrono::seconds{now.tv_sec} + nanoseconds{now.tv_nsec};
  };
  const nanoseconds before = kernels();
  const nanoseconds begin = phantora::rank::thread_cpu_time();
  for (int i = 0; i < 20; ++i) {
    const timespec sleep{.tv_sec = 0, .tv_nsec = 1'000'000};
    nanosleep(&sleep, nullptr);
    (void)phantora::rank::thread_cpu_time();
  }
  const timespec sleep{.tv_sec = 0, .tv_nsec = 1};
  nanosleep(&sleep, nullptr);  // so that the kernel is asked
  EXPECT_LE(phantora::rank::thread_cpu_time() - begin, kernels() - before);
}

}  // namespace
