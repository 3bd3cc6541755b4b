#include "channel/lookout.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace phantora::channel {
namespace {

/// How often it was asked for what never comes: once where it does not look on.
int looks_in_vain(Lookout& lookout) {
  int asked = 0;
  EXPECT_FALSE(lookout.sees([&] { return ++asked < 0; }));
  return asked;
}

TEST(ChannelLookout, WhatIsThereAndWhatComesSoonIsSeen) {
  Lookout lookout;
  EXPECT_TRUE(lookout.sees([] { return true; }));
  int asked = 0;
  EXPECT_TRUE(lookout.sees([&] { return ++asked == 2; }));
}

TEST(ChannelLookout, WhoLooksInVainLooksMoreSeldom) {
  Lookout lookout;
  for (int skipped = 1; skipped < 1000; skipped = 2 * skipped + 1) {
    EXPECT_GT(looks_in_vain(lookout), 1);
    for (int i = 0; i < std::min(skipped, Lookout::most_skipped); ++i)
      EXPECT_EQ(looks_in_vain(lookout), 1) << skipped;
  }
}

TEST(ChannelLookout, WhatIsSeenMakesItLookAgain) {
  Lookout lookout;
  for (int i = 0; i < 12; ++i) looks_in_vain(lookout);
  EXPECT_EQ(looks_in_vain(lookout), 1);
  EXPECT_TRUE(lookout.sees([] { return true; }));  // while it skipped
  EXPECT_GT(looks_in_vain(lookout), 1);
  EXPECT_EQ(looks_in_vain(lookout), 1);
  EXPECT_GT(looks_in_vain(lookout), 1);
}

}  // namespace
}  // namespace phantora::channel
