#include "rank/code/block_schedule.hpp"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace phantora::rank {
namespace {

TEST(BlockSchedule, RowsAreTheFirstDimensionOfSeveral) {
  EXPECT_DOUBLE_EQ(row_of({5, 3, 2}), 5);
  EXPECT_DOUBLE_EQ(row_of({1, 3, 2}), 3);
  EXPECT_DOUBLE_EQ(row_of({1, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(row_of({1, 1, 1}), 1);
}

TEST(BlockSchedule, EachBeginsWhereAnotherHasEnded) {
  // On two SMs 1, 2, 3, 4 and again: 1 ends at 1, 2 at 2, 3 at 4, 4 at 6, then 1 at 5, 2 at 7, 3 at
  // 9, 4 at 11. In all 20, on average 10; the SMs work until 9 and 11.
  const std::vector<BlockTime> known{{0, 1}, {1, 2}, {2, 3}, {3, 4}};
  const Unevenness rising = unevenness(known, {4, 2, 1}, 2, 1);
  EXPECT_DOUBLE_EQ(rising.ends, 11.0 / 10);
  EXPECT_DOUBLE_EQ(rising.work, 11.0 / 10);
  // The longest first: 4, 3, 2, 1 end at 4, 3, 5, 5, the others at 9, 8, 10, 10.
  const std::vector<BlockTime> falling{{0, 4}, {1, 3}, {2, 2}, {3, 1}};
  EXPECT_DOUBLE_EQ(unevenness(falling, {4, 2, 1}, 2, 1).ends, 1);
}

TEST(BlockSchedule, AnSmHasTheWorkOfAllItHolds) {
  // One SM with two blocks at a time of 1, 2, 3, 4: they end at 1, 2, 4, 6, on average at 5; all
  // work is the one SM's.
  const std::vector<BlockTime> known{{0, 1}, {1, 2}, {2, 3}, {3, 4}};
  const Unevenness one = unevenness(known, {4, 1, 1}, 1, 2);
  EXPECT_DOUBLE_EQ(one.ends, 6.0 / 5);
  EXPECT_DOUBLE_EQ(one.work, 1);
  // Two SMs get 1 and 3, and 2 and 4: 6 of 10.
  EXPECT_DOUBLE_EQ(unevenness(known, {4, 1, 1}, 2, 2).work, 6.0 / 5);
}

TEST(BlockSchedule, BlocksThatAreAlikeGoInRounds) {
  // Seven of them, three at a time: three rounds for 7/3.
  EXPECT_DOUBLE_EQ(unevenness({{0, 100}}, {7, 1, 1}, 3, 1).ends, 9.0 / 7);
  EXPECT_DOUBLE_EQ(unevenness({{0, 100}}, {6, 1, 1}, 3, 1).ends, 1);
}

TEST(BlockSchedule, UnknownOnesAreLikeTheNearestInTurn) {
  // Of places 0 to 9, 2 and 7 are known, 7 by two blocks, which stand for the rows in turn: 5 x 10
  // and 5 x 20 in the first row, 5 x 10 and 5 x 40 in the second.
  const std::vector<BlockTime> known{{2, 10}, {7, 20}, {17, 40}};
  // One at a time: nothing is uneven.
  EXPECT_DOUBLE_EQ(unevenness(known, {10, 2, 1}, 1, 1).ends, 1);
  // All at a time: the longest, of 20 that take 5 x 10 + 5 x 20 + 5 x 10 + 5 x 40 = 400.
  EXPECT_DOUBLE_EQ(unevenness(known, {10, 2, 1}, 20, 1).ends, 40.0 * 20 / 400);
}

TEST(BlockSchedule, NothingIsLongerThanTheLongestBlockAllows) {
  // Graham: the last ends within the mean and the longest.
  std::mt19937 random{7};
  for (int round = 0; round < 200; ++round) {
    const auto width = 1 + static_cast<std::uint32_t>(random() % 50),
               height = 1 + static_cast<std::uint32_t>(random() % 9);
    const int sms = 1 + static_cast<int>(random() % 8), each = 1 + static_cast<int>(random() % 4);
    std::vector<BlockTime> known;
    double sum = 0, longest = 0;
    for (std::uint32_t block = 0; block < width * height; ++block) {
      const double cycles = 1 + static_cast<double>(random() % 1000);
      known.push_back({static_cast<double>(block), cycles});
      sum += cycles;
      longest = std::max(longest, cycles);
    }
    const Unevenness found = unevenness(known, {width, height, 1}, sms, each);
    const double mean = sum / (sms * each), last = found.ends * mean;
    EXPECT_GE(last, std::max(mean, longest) * (1 - 1e-12));
    EXPECT_LE(last, (mean + longest) * (1 + 1e-12));
    EXPECT_GE(found.work, 1 - 1e-12);
    EXPECT_LE(found.work, sms * (1 + 1e-12));
  }
}

}  // namespace
}  // namespace phantora::rank
