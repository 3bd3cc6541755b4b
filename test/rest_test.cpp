#include "run/rest.hpp"

#include <gtest/gtest.h>

namespace phantora::run {
namespace {

using namespace std::chrono_literals;

/// A run that is looked at every so often.
class RestTest : public testing::Test {
 protected:
  bool look(Found found, std::chrono::milliseconds later = 10ms) {
    now_ += later;
    rest_.looked(found, now_);
    return rest_.rests();
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

// A service that is no rank wakes and sleeps again for ever: nobody waits for it longer.
TEST_F(RestTest, NapsForLonger) {
  EXPECT_FALSE(look(Found::naps));
  EXPECT_FALSE(look(Found::naps, 500ms));
  EXPECT_FALSE(look(Found::naps, 500ms));
  EXPECT_TRUE(look(Found::naps, 1ms));
}

TEST_F(RestTest, OneLookThatFindsSomebodyAwakeIsAMomentOfANap) {
  EXPECT_FALSE(look(Found::naps));
  EXPECT_FALSE(look(Found::activity, 500ms));
  EXPECT_TRUE(look(Found::naps, 501ms));
  EXPECT_TRUE(look(Found::activity));
  EXPECT_FALSE(look(Found::activity));  // two: somebody works
  EXPECT_FALSE(look(Found::naps));
  EXPECT_FALSE(look(Found::naps, 1s));
  EXPECT_TRUE(look(Found::naps, 1ms));
}

TEST_F(RestTest, WhatMovesDoesNotRest) {
  EXPECT_FALSE(look(Found::naps));
  EXPECT_TRUE(look(Found::naps, 1001ms));
  rest_.moved();
  EXPECT_FALSE(rest_.rests());
  EXPECT_FALSE(look(Found::naps));
  EXPECT_FALSE(look(Found::naps, 1s));
  EXPECT_TRUE(look(Found::naps, 1ms));

  look(Found::activity);
  EXPECT_FALSE(look(Found::activity));
  EXPECT_FALSE(look(Found::sleep));
  rest_.moved();
  EXPECT_FALSE(look(Found::sleep));
  EXPECT_TRUE(look(Found::sleep));
}

}  // namespace
}  // namespace phantora::run
