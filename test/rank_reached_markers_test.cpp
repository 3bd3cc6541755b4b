#include "rank/runtime/reached_markers.hpp"

#include <memory>

#include <gtest/gtest.h>

namespace phantora::rank {
namespace {

class RankReachedMarkers : public testing::Test {
 protected:
  const std::unique_ptr<ReachedMarkers> known = std::make_unique<ReachedMarkers>();
  ReachedMarkers& markers = *known;
};

TEST_F(RankReachedMarkers, WhatIsBeforeAReachedMarkerOfItsStreamIsReached) {
  markers.recorded(1, 10);
  markers.recorded(2, 11);
  markers.recorded(1, 12);
  markers.recorded(1, 13);
  EXPECT_FALSE(markers.knows(10, 1000));
  markers.reached(12, 500);
  EXPECT_TRUE(markers.knows(10, 500));
  EXPECT_TRUE(markers.knows(12, 500));
  EXPECT_FALSE(markers.knows(13, 1000));  // behind it
  EXPECT_FALSE(markers.knows(11, 1000));  // of another stream
}

TEST_F(RankReachedMarkers, AThreadWhoseClockIsBehindDoesNotKnow) {
  markers.recorded(1, 10);
  markers.reached(10, 500);
  EXPECT_FALSE(markers.knows(10, 499));
  EXPECT_TRUE(markers.knows(10, 500));
  markers.recorded(1, 11);
  markers.reached(11, 700);
  // Of the earlier one the instant is no longer known: at worst the engine is asked.
  EXPECT_FALSE(markers.knows(10, 600));
  EXPECT_TRUE(markers.knows(10, 700));
}

TEST_F(RankReachedMarkers, ThoseLongAgoAndOfStreamsBeyondAreNotKnown) {
  markers.recorded(1, 10);
  markers.reached(10, 500);
  markers.recorded(1, 10 + (1 << 14));
  EXPECT_FALSE(markers.knows(10, 1000));
  markers.recorded(5000, 11);
  markers.reached(11, 500);
  EXPECT_FALSE(markers.knows(11, 1000));
  EXPECT_FALSE(markers.knows(12, 1000));  // never recorded
}

}  // namespace
}  // namespace phantora::rank
