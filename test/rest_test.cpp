#include "run/rest.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace phantora::run {
namespace {

using namespace std::chrono_literals;

/// A run that is looked at every so often.
class RestTest : public testing::Test {
 protected:
  bool look(Found found, std::chrono::milliseconds later = 10ms,
            const std::vector<AwakeThread>& awake = {}) {
    now_ += later;
    rest_.looked(found, now_, awake);
    return rest_.rests();
  }
  /// So many looks. @return what the last one said.
  bool looks(int count, Found found) {
    while (--count > 0) look(found);
    return look(found);
  }

  Rest rest_;

 private:
  Rest::Instant now_{};
};

TEST_F(RestTest, TwoLooksInARowThatFindEverybodyAsleep) {
  EXPECT_FALSE(look(Found::sleep));
  EXPECT_FALSE(look(Found::activity));
  EXPECT_FALSE(look(Found::sleep));
  EXPECT_TRUE(look(Found::sleep));
  EXPECT_FALSE(look(Found::activity));
}

// Those that wake by a timer of their own never let two looks find everybody asleep.
TEST_F(RestTest, CalmForLongEnough) {
  EXPECT_FALSE(look(Found::calm));
  EXPECT_FALSE(look(Found::calm, Rest::long_enough));
  EXPECT_TRUE(look(Found::calm, 1ms));
  EXPECT_FALSE(look(Found::naps));
  EXPECT_FALSE(look(Found::calm));  // from the start
  EXPECT_FALSE(look(Found::calm, Rest::long_enough));
  EXPECT_TRUE(look(Found::sleep, 1ms));
}

// On a busy machine a thread that something woke waits for a core: nothing is known of what it
// does.
TEST_F(RestTest, WhoWaitsForACoreMayBeAboutToAct) {
  const std::vector<AwakeThread> woken = {{7, 40ms}};
  EXPECT_FALSE(look(Found::calm, 10ms, woken));
  EXPECT_FALSE(look(Found::calm, 10s, woken));
  EXPECT_FALSE(look(Found::calm, 10ms, {{7, 40ms + 249us}}));
  EXPECT_TRUE(look(Found::calm, 10ms, {{7, 40ms + 250us}}));
  // Another one.
  EXPECT_FALSE(look(Found::calm, 10ms, {{7, 41ms}, {8, 2s}}));
  EXPECT_TRUE(look(Found::calm, 10ms, {{7, 41ms}}));
}

TEST_F(RestTest, WhoWasWokenByWhatMovedHasToRunAfterwards) {
  EXPECT_FALSE(look(Found::calm, 10ms, {{7, 40ms}}));
  EXPECT_TRUE(look(Found::calm, 1s, {{7, 41ms}}));
  rest_.moved();
  EXPECT_FALSE(look(Found::calm, 1s, {{7, 41ms}}));
  EXPECT_TRUE(look(Found::calm, 1ms, {{7, 42ms}}));
}

// A service that is no rank wakes and sleeps again for ever: nobody waits for it longer.
TEST_F(RestTest, NapsAtMostLooks) {
  EXPECT_FALSE(looks(Rest::looks_napping - 1, Found::naps));
  EXPECT_TRUE(look(Found::naps));
}

TEST_F(RestTest, AFewLooksThatFindSomebodyAwakeAreMomentsOfANap) {
  EXPECT_FALSE(looks(Rest::awake_at_most, Found::activity));
  EXPECT_TRUE(looks(Rest::looks_napping - Rest::awake_at_most, Found::naps));
  EXPECT_FALSE(look(Found::activity));  // now, whatever was before
  EXPECT_FALSE(looks(Rest::looks_napping - 1, Found::naps));
  EXPECT_TRUE(look(Found::naps));
}

TEST_F(RestTest, WhoWorksIsFoundAwake) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(look(Found::activity));
    EXPECT_FALSE(looks(4, Found::naps));
  }
}

TEST_F(RestTest, WhatMovesEndsNaps) {
  EXPECT_FALSE(looks(Rest::looks_napping - 1, Found::naps));
  rest_.moved();
  EXPECT_FALSE(looks(Rest::looks_napping - 1, Found::naps));
  EXPECT_TRUE(look(Found::naps));
}

}  // namespace
}  // namespace phantora::run
