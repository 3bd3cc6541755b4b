#include "channel/wire.hpp"
#include "rank/runtime/helper.hpp"
#include "rank/runtime/message_times.hpp"

#include <chrono>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

namespace phantora::rank {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t pipe = key_of(KeyKind::pipe, 7);
constexpr Time at(Duration time) { return Time{time}; }

/// A process that a rank forked at 5 ms. Host time is free, so that only what the test says passes.
class RankHelper : public testing::Test {
 protected:
  std::unique_ptr<channel::RunShared> run = std::make_unique<channel::RunShared>();
  Helper helper{*run, HostTimePolicy{.kind = HostTime::off}, at(5ms)};
  const int object = 0, other = 0;

  void rank_writes(Duration when) {
    leave_message_time(*run, pipe, {.clock_ps = when.count()});
    message_was_written(*run, pipe, 1);
  }
  std::int64_t rank_reads() { return message_was_read(*run, pipe, 1).clock_ps; }
  void sends() {
    helper.sends_time(pipe);
    helper.has_sent(pipe, 1);
  }
};

TEST_F(RankHelper, GoesOnFromWhereItWasForked) {
  EXPECT_EQ(helper.now(), at(5ms));
  helper.slept(2ms);
  EXPECT_EQ(helper.now(), at(7ms));
}

// Asked for a batch at 8 ms, of which it knows at once, it answers 20 ms later.
TEST_F(RankHelper, AnswersNoEarlierThanItWasAsked) {
  rank_writes(8ms);
  helper.receives_time(pipe, 1);
  helper.slept(20ms);
  sends();
  EXPECT_EQ(rank_reads(), Duration{28ms}.count());
  // Asked earlier than it is ready, it goes on at once.
  rank_writes(9ms);
  helper.receives_time(pipe, 1);
  EXPECT_EQ(helper.now(), at(28ms));
}

TEST_F(RankHelper, ItsThreadsHaveClocksOfTheirOwnAndHandThemOver) {
  helper.slept(10ms);
  helper.leaves_time(&object);
  std::thread{[&] {
    helper.begins_at(at(6ms));
    EXPECT_EQ(helper.now(), at(6ms));
    helper.takes_time(&other);
    EXPECT_EQ(helper.now(), at(6ms));
    helper.takes_time(&object);
    EXPECT_EQ(helper.now(), at(15ms));
    helper.slept(50ms);
  }}.join();
  EXPECT_EQ(helper.now(), at(15ms));
}

TEST_F(RankHelper, AForkedChildGoesOnByItself) {
  helper.slept(1ms);
  Helper child{*run, HostTimePolicy{.kind = HostTime::off}, helper.now()};
  EXPECT_EQ(child.now(), at(6ms));
}

// As the ranks of this machine found it to be: half as fast as the host that is simulated.
TEST_F(RankHelper, ItsWorkCountsAsTheRanksDoes) {
  Helper measured{*run, HostTimePolicy{.kind = HostTime::measured}, at(0ms)};
  const auto work = [&] {
    const Time begin = measured.now();
    const auto until = std::chrono::steady_clock::now() + 20ms;
    while (std::chrono::steady_clock::now() < until) {
    }
    return measured.now() - begin;
  };
  run->host_scale = 0.5;
  const Duration halved = work();
  EXPECT_GT(halved, Duration{0});
  EXPECT_LE(halved, Duration{11ms});
  Helper told{*run, HostTimePolicy{.kind = HostTime::measured, .scale = 0.0}, at(0ms)};
  const Time begin = told.now();
  work();
  EXPECT_EQ(told.now(), begin);
}

}  // namespace
}  // namespace phantora::rank
