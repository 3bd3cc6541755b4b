#include "engine_fake.hpp"
#include "rank/runtime/thread_clocks.hpp"

#include <thread>

#include <gtest/gtest.h>

namespace phantora::rank {
namespace {

using namespace std::chrono_literals;
using channel::ThreadState;
using channel::Wait;

constexpr Time at(Duration time) { return Time{time}; }

/// Threads of one process, each of which the test plays in turn. Host time is free, so that clocks
/// stand where the test puts them.
class RankThreadClocks : public testing::Test {
 protected:
  RankThreadClocks() { clocks.connected(*engine.connection); }
  /// `thread` has issued work, and its clock has come to `time`.
  void comes_to(HostThread& thread, Duration time) {
    clocks.become_issuer(thread);
    thread.clock.wait_until(at(time));
    clocks.publish(thread);
  }
  void begins_to_wait(HostThread& thread, const void* object, Wait wait = Wait::condition) {
    clocks.wait_begins(thread, object, wait, {});
  }
  void wakes_up(HostThread& thread) { clocks.wait_ends(thread, channel::no_time); }

  FakeEngine engine;
  ThreadClocks clocks{HostTimePolicy{.kind = HostTime::off}};
  HostThread sleeper, waker, third;
  const int condition = 0, other = 0;
};

TEST_F(RankThreadClocks, WhoIsWokenGoesOnNoEarlierThanWhoWokeIt) {
  comes_to(sleeper, 5us);
  comes_to(waker, 9us);
  begins_to_wait(sleeper, &condition);
  EXPECT_EQ(sleeper.slot->state, ThreadState::waiting);
  clocks.wakes(waker, &other);
  EXPECT_EQ(sleeper.slot->state, ThreadState::waiting);
  clocks.wakes(waker, &condition);
  // The engine sees it run before it does: it may not be passed over.
  EXPECT_EQ(sleeper.slot->state, ThreadState::running);
  EXPECT_EQ(sleeper.slot->clock_ps, Duration{9us}.count());
  comes_to(waker, 20us);
  wakes_up(sleeper);
  EXPECT_EQ(sleeper.clock.now(), at(9us));
}

TEST_F(RankThreadClocks, WhoIsWokenByAThreadBehindKeepsItsClock) {
  comes_to(sleeper, 12us);
  comes_to(waker, 9us);
  begins_to_wait(sleeper, &condition);
  clocks.wakes(waker, &condition);
  wakes_up(sleeper);
  EXPECT_EQ(sleeper.clock.now(), at(12us));
}

TEST_F(RankThreadClocks, WhoIsWokenUnseenGoesOnWhereTheEngineWasTold) {
  comes_to(sleeper, 5us);
  comes_to(third, 6us);
  comes_to(waker, 7us);
  begins_to_wait(sleeper, nullptr, Wait::descriptor);
  wakes_up(sleeper);
  EXPECT_EQ(sleeper.clock.now(), at(6us));  // of those that run, the least
  begins_to_wait(waker, nullptr, Wait::descriptor);
  begins_to_wait(third, nullptr, Wait::descriptor);
  begins_to_wait(sleeper, nullptr, Wait::descriptor);
  wakes_up(sleeper);
  EXPECT_EQ(sleeper.clock.now(), at(7us));  // of all that wait, the latest
}

TEST_F(RankThreadClocks, WhoSleepsOnAfterALockWasTakenIsWokenAgain) {
  comes_to(sleeper, 1us);
  comes_to(waker, 2us);
  begins_to_wait(sleeper, &condition, Wait::lock);
  EXPECT_TRUE(clocks.someone_waits_for_a_lock());
  clocks.wakes(waker, &condition);
  clocks.waits_again(sleeper, &condition);
  EXPECT_EQ(sleeper.slot->state, ThreadState::waiting);
  comes_to(waker, 4us);
  clocks.wakes(waker, &condition);
  wakes_up(sleeper);
  EXPECT_EQ(sleeper.clock.now(), at(4us));
  EXPECT_FALSE(clocks.someone_waits_for_a_lock());
}

TEST_F(RankThreadClocks, TimeIsLeftForWhoComesWithoutSleeping) {
  comes_to(sleeper, 5us);
  comes_to(waker, 9us);
  clocks.leaves_time(waker, &condition);
  comes_to(waker, 30us);
  clocks.takes_time(sleeper, &other);
  EXPECT_EQ(sleeper.clock.now(), at(5us));
  clocks.takes_time(sleeper, &condition);
  EXPECT_EQ(sleeper.clock.now(), at(9us));
}

TEST_F(RankThreadClocks, HostFunctionsTakeTheTimeThatTheySleepAndFollowOneAnother) {
  HostThread& drivers = third;  // issues no work
  comes_to(sleeper, 5us);
  begins_to_wait(sleeper, &condition);
  clocks.host_function_begins(drivers, at(10us));
  EXPECT_EQ(clocks.now(drivers), at(10us));
  clocks.sleeps_until(drivers, at(30us));
  clocks.wakes(drivers, &condition);
  EXPECT_EQ(ThreadClocks::host_function_ends(drivers), at(30us));
  wakes_up(sleeper);
  EXPECT_EQ(sleeper.clock.now(), at(30us));
  clocks.host_function_begins(drivers, at(20us));
  EXPECT_EQ(ThreadClocks::host_function_ends(drivers), at(30us));
  EXPECT_FALSE(drivers.issues);
}

TEST_F(RankThreadClocks, WhoGivesItsCoreUpAgainAndAgainNeedsNoTurn) {
  comes_to(waker, 5us);
  for (int i = 0; i < 63; ++i) clocks.spins(waker, 0ns);
  EXPECT_EQ(waker.slot->state, ThreadState::running);
  clocks.spins(waker, 0ns);
  EXPECT_EQ(waker.slot->state, ThreadState::sleeping);
  clocks.goes_on(waker);
  EXPECT_EQ(waker.slot->state, ThreadState::running);
  EXPECT_EQ(waker.clock.now(), at(5us));
}

TEST_F(RankThreadClocks, WhoLooksAtMemoryForLongGoesOnAsLateAsOthersThen) {
  comes_to(sleeper, 5us);
  engine.run().goes_since_ns = 1;
  engine.run().answered_ps = Duration{7us}.count();
  clocks.spins(sleeper, 500us);
  EXPECT_EQ(sleeper.slot->state, ThreadState::waiting);
  EXPECT_EQ(sleeper.slot->wait, Wait::memory);
  // What was answered before is none of its business.
  clocks.spins(sleeper, 500us);
  EXPECT_EQ(clocks.now(sleeper), at(5us));
  engine.run().answered_ps = Duration{9us}.count();
  clocks.spins(sleeper, 500us);
  EXPECT_EQ(clocks.now(sleeper), at(9us));
  EXPECT_EQ(sleeper.slot->clock_ps, Duration{5us}.count());  // which the engine has let others pass
  engine.run().answered_ps = Duration{11us}.count();
  clocks.goes_on(sleeper);
  EXPECT_EQ(sleeper.slot->state, ThreadState::running);
  EXPECT_EQ(sleeper.slot->clock_ps, Duration{11us}.count());
  EXPECT_EQ(sleeper.clock.now(), at(11us));
}

TEST_F(RankThreadClocks, WhoLooksAtMemoryGoesOnWhenTheEngineHasLetOthersPass) {
  comes_to(sleeper, 5us);
  clocks.spins(sleeper, 500us);
  engine.run().passes = 1;  // the engine has read that it waits
  std::thread rest_of_the_pass{[this] {
    while (sleeper.slot->state.load() != ThreadState::running) std::this_thread::yield();
    engine.run().answered_ps = Duration{9us}.count();
    engine.run().passes = 2;
  }};
  clocks.goes_on(sleeper);
  rest_of_the_pass.join();
  EXPECT_EQ(sleeper.clock.now(), at(9us));
  EXPECT_EQ(sleeper.slot->clock_ps, Duration{9us}.count());
}

TEST_F(RankThreadClocks, WhoLooksAtMemoryWhileNothingIsSimulatedSeesTimeGoOn) {
  comes_to(sleeper, 5us);
  clocks.spins(sleeper, 500us);
  clocks.spins(sleeper, 500us);
  EXPECT_EQ(clocks.now(sleeper), at(505us));
}

TEST_F(RankThreadClocks, WhoLooksAtMemoryMaySleepInstead) {
  comes_to(sleeper, 5us);
  comes_to(waker, 9us);
  clocks.spins(sleeper, 500us);
  begins_to_wait(sleeper, &condition);
  EXPECT_EQ(sleeper.slot->wait, Wait::condition);
  clocks.wakes(waker, &condition);
  wakes_up(sleeper);
  EXPECT_EQ(sleeper.clock.now(), at(9us));
}

TEST_F(RankThreadClocks, WithinAnInterceptedCallNothingIsHandedOver) {
  comes_to(sleeper, 5us);
  comes_to(waker, 9us);
  waker.api_depth = 1;
  clocks.leaves_time(waker, &condition);
  clocks.takes_time(sleeper, &condition);
  EXPECT_EQ(sleeper.clock.now(), at(5us));
  sleeper.api_depth = 1;
  begins_to_wait(sleeper, &condition);
  EXPECT_EQ(sleeper.slot->state, ThreadState::running);
}

TEST_F(RankThreadClocks, AThreadBeginsWhereWhoStartedItWas) {
  comes_to(waker, 9us);
  clocks.begins_at(third, at(4us));
  clocks.become_issuer(third);
  EXPECT_EQ(third.clock.now(), at(4us));
  // Of one that nobody was seen to start, all that is known is the latest clock.
  clocks.become_issuer(sleeper);
  EXPECT_EQ(sleeper.clock.now(), at(9us));
}

TEST_F(RankThreadClocks, APoolsThreadBeginsWhereWhoWokeItWas) {
  comes_to(waker, 3us);
  clocks.wakes(waker, &condition);
  comes_to(waker, 9us);
  clocks.begins_as_woken(third, &condition);
  clocks.become_issuer(third);
  EXPECT_EQ(third.clock.now(), at(3us));
}

TEST_F(RankThreadClocks, MessagesCarryTime) {
  constexpr std::uint64_t key = 77;
  comes_to(sleeper, 5us);
  comes_to(waker, 9us);
  clocks.sends_time(waker, key);
  clocks.receives_time(sleeper, key + 1, 1);
  EXPECT_EQ(sleeper.clock.now(), at(5us));
  // A thread without a part in time reads, and wakes who has one.
  begins_to_wait(sleeper, &condition);
  clocks.receives_time(third, key, 1);
  clocks.wakes(third, &condition);
  wakes_up(sleeper);
  EXPECT_EQ(sleeper.clock.now(), at(9us));
}

TEST_F(RankThreadClocks, ShortWaitsThatTimeOutTakeTimeAndLongOnesShowIt) {
  comes_to(sleeper, 5us);
  const Time soon = at(100ms), late = at(100s);
  clocks.wait_timed_out(sleeper, soon);
  EXPECT_EQ(sleeper.clock.now(), soon + 50us);
  clocks.wait_timed_out(sleeper, late);
  EXPECT_EQ(sleeper.clock.now(), soon + 50us);
  EXPECT_EQ(clocks.read(sleeper, ProgramClock::monotonic), late + 50us);
  EXPECT_EQ(clocks.read(sleeper, ProgramClock::monotonic), soon + 50us);  // once
  EXPECT_EQ(clocks.read(sleeper, ProgramClock::realtime), late + 50us);   // of each clock
}

TEST_F(RankThreadClocks, LookingInVainTakesTimeSoThatLoopsEnd) {
  comes_to(sleeper, 5us);
  clocks.looked_in_vain(sleeper);
  EXPECT_EQ(sleeper.clock.now(), at(6us));
  clocks.looked_in_vain(third);  // without a part in time: only what it reads goes on
  EXPECT_EQ(clocks.now(third), at(6us));
  EXPECT_EQ(clocks.now(sleeper), at(6us));
}

TEST_F(RankThreadClocks, AClockThatIsReadAgainAndAgainGoesOn) {
  comes_to(sleeper, 5us);
  for (int i = 0; i < 100'000; ++i) (void)clocks.read(sleeper, ProgramClock::monotonic);
  EXPECT_EQ(sleeper.clock.now(), at(5us));
  (void)clocks.read(sleeper, ProgramClock::monotonic);
  EXPECT_EQ(sleeper.clock.now(), at(6us));
}

TEST_F(RankThreadClocks, TheDoorbellRingsOnceWhereAClockIsAwaited) {
  comes_to(sleeper, 5us);
  engine.shared().doorbell_at = Duration{8us}.count();
  comes_to(sleeper, 7us);
  EXPECT_EQ(engine.shared().doorbell_at, Duration{8us}.count());
  comes_to(sleeper, 8us);
  EXPECT_EQ(engine.shared().doorbell_at, channel::no_time);  // rung: not again until it is set
}

TEST_F(RankThreadClocks, AThreadThatEndsGivesItsSlotBack) {
  comes_to(sleeper, 5us);
  comes_to(waker, 6us);
  const std::uint32_t slot = waker.index;
  clocks.remove(waker);
  comes_to(third, 7us);
  EXPECT_EQ(third.index, slot);
  EXPECT_EQ(engine.shared().thread_count, 2U);
}

}  // namespace
}  // namespace phantora::rank
