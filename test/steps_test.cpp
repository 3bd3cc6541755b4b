#include <phantora/steps.hpp>

#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace phantora {
namespace {

using namespace std::chrono_literals;

/// One item per letter, 1 us apart.
std::vector<WorkItem> work(std::string_view letters) {
  std::vector<WorkItem> items;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    items.push_back({static_cast<std::uint64_t>(letters[i]), Time{1us * i}});
  }
  return items;
}

TEST(Steps, TheLongestRepetitionIsTheStep) {
  // Set-up, then four steps of two layers (ab) and an update (c), then a tear-down.
  const Steps steps = find_steps(work("xyzxyabababcabababcabababcabababcq"));
  EXPECT_EQ(steps.items, 7U);
  EXPECT_EQ(steps.count(), 3U);  // the fourth has no successor that would say how long it took
  EXPECT_EQ(steps.median(), 7us);
}

TEST(Steps, NothingRepeatsInALineOfDifferentWork) {
  EXPECT_EQ(find_steps(work("abcdefg")).count(), 0U);
  EXPECT_EQ(find_steps({}).count(), 0U);
  EXPECT_EQ(find_steps({}).median(), Duration{});
}

TEST(Steps, AWarmUpStepOfItsOwnIsLeftOut) {
  const Steps steps = find_steps(work("abcXabcabcabc"));
  EXPECT_EQ(steps.items, 3U);
  EXPECT_EQ(steps.starts.front(), Time{4us});
}

}  // namespace
}  // namespace phantora
