#include <phantora/simulation/steps.hpp>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace phantora {
namespace {

using namespace std::chrono_literals;

/// One item per letter, which takes 1 us. Capitals end steps, signs may stand between them.
std::vector<WorkItem> work(std::string_view letters) {
  std::vector<WorkItem> items;
  const auto role = [](char letter) {
    if (letter >= 'A' && letter <= 'Z') return StepRole::ends_step;
    return letter >= 'a' && letter <= 'z' ? StepRole::work : StepRole::aside;
  };
  for (std::size_t i = 0; i < letters.size(); ++i) {
    items.push_back({.identity = static_cast<std::uint64_t>(letters[i]),
                     .start = Time{1us * i},
                     .end = Time{1us * (i + 1)},
                     .role = role(letters[i])});
  }
  return items;
}

std::string times(std::size_t count, std::string_view text) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

std::size_t typical(const Steps& steps) {
  return static_cast<std::size_t>(std::count(steps.typical.begin(), steps.typical.end(), true));
}

// --- With updates that end the steps ---

TEST(Steps, OfAPlainLoopEndWithTheUpdate) {
  const Steps steps = find_steps(work("xyz" + times(5, "abcabcdefU")));
  EXPECT_EQ(steps.count(), 4U);  // where the first begins nothing says
  EXPECT_EQ(typical(steps), 4U);
  EXPECT_EQ(steps.items, 10U);
  EXPECT_EQ(steps.median(), 10us);
  EXPECT_EQ(steps.bounds.front(), Time{13us});
  EXPECT_FALSE(steps.rival);
}

TEST(Steps, HoldTheMicroBatchesOfAnAccumulation) {
  for (const std::size_t k : {2U, 4U, 32U}) {
    const Steps steps = find_steps(work(times(6, times(k, "abcdefgh") + "nUUV")));
    EXPECT_EQ(steps.count(), 5U) << k;
    EXPECT_EQ(steps.items, 8 * k + 4) << k;
    EXPECT_FALSE(steps.rival) << k;
  }
}

TEST(Steps, HoldTheForwardAndBackwardPassesOfAPipeline) {
  // 1F1B: two forward passes to fill it, then one of each in turn, then two backward to drain it.
  const std::string forward = "abcabcabc", backward = "fedfedfed";
  const std::string step = forward + forward + times(6, forward + backward) + backward + backward;
  const Steps steps = find_steps(work(times(4, step + "nUV")));
  EXPECT_EQ(steps.count(), 3U);
  EXPECT_EQ(steps.items, step.size() + 3);
}

TEST(Steps, HoldAllKernelsOfAnOptimizer) {
  // A foreach optimizer: updates with other kernels between, in equal chunks.
  const Steps steps = find_steps(work(times(4, "abcdefghijklmnop" + times(5, "+U*/U"))));
  EXPECT_EQ(steps.count(), 3U);
  EXPECT_EQ(steps.items, 41U);
}

TEST(Steps, OfATinyModelWithAForeachOptimizer) {
  // Less work between the optimizers than within one.
  const Steps steps = find_steps(work(times(6, "abcU-+*/V")));
  EXPECT_EQ(steps.count(), 5U);
  EXPECT_EQ(steps.items, 9U);
  EXPECT_EQ(steps.median(), 9us);
}

TEST(Steps, OfAnOptimizerWithinTheBackwardPass) {
  const Steps steps =
      find_steps(work(times(5, times(4, "abcd") + "hH" + times(4, "dcbaU") + "eE")));
  EXPECT_EQ(steps.count(), 4U);
  EXPECT_EQ(steps.items, 40U);
}

// llm.c makes its master weights of each parameter between the updates of the first step.
TEST(Steps, OfAnOptimizerThatSetsUpItsStateBetweenItsUpdates) {
  const Steps steps = find_steps(work("abcdefUiViW" + times(4, "abcdefUVW")));
  EXPECT_EQ(steps.count(), 4U);
  EXPECT_EQ(typical(steps), 4U);
  EXPECT_EQ(steps.median(), 9us);
  // Nor do parts that happen to look like another whole.
  const Steps rounds = find_steps(work(times(5, "abcUabcUxyzzzzzUU")));
  EXPECT_EQ(rounds.items, 17U);
  EXPECT_EQ(rounds.median(), 17us);
}

TEST(Steps, OfTwoModelsThatAreTrainedInTurn) {
  const Steps steps = find_steps(work(times(6,
                                            "abcdefG"
                                            "hijklmnD")));
  EXPECT_EQ(steps.count(), 5U);
  EXPECT_EQ(steps.items, 15U);
}

TEST(Steps, DoNotBeginWithTheWarmUp) {
  // Lazy initialisation in the first step, other buckets in the second.
  const Steps steps =
      find_steps(work("abcxyzzyU"
                      "abdcU" +
                      times(5, "abcU")));
  EXPECT_EQ(steps.count(), 6U);
  EXPECT_EQ(typical(steps), 5U);
  EXPECT_EQ(steps.items, 4U);
  EXPECT_EQ(steps.median(), 4us);
}

TEST(Steps, AreNeitherMergedNorSplitByCheckpoints) {
  const std::string step = "abcdefghU";
  const Steps steps = find_steps(work(times(3, times(2, step) + times(50, "s"))));
  EXPECT_EQ(steps.count(), 5U);
  EXPECT_EQ(typical(steps), 3U);  // the other two have a checkpoint in them
  EXPECT_EQ(steps.items, step.size());
  EXPECT_EQ(steps.median(), 9us);
}

TEST(Steps, AreNeitherMergedNorSplitByEvaluations) {
  for (const std::size_t every : {1U, 2U, 5U}) {
    // Each evaluation is heavier than all steps between two of them.
    const Steps steps =
        find_steps(work(times(20 / every, times(every, "abcdefghU") + times(30, "abcd") + "r")));
    EXPECT_EQ(steps.count(), 19U) << every;
    EXPECT_EQ(steps.items, every == 1 ? 130U : 9U) << every;
  }
}

TEST(Steps, OfTwoShapesInTurn) {
  // Sequences of two lengths: other kernels, the same update.
  const Steps steps = find_steps(work(times(6,
                                            "abcdefU"
                                            "ghijklmnoU")));
  EXPECT_EQ(steps.count(), 11U);
  EXPECT_EQ(typical(steps), 11U);
}

TEST(Steps, OfDifferentShapesEachTime) {
  const Steps steps =
      find_steps(work("abcdU"
                      "efghU"
                      "ijklmU"
                      "nopqU"
                      "rstU"));
  EXPECT_EQ(steps.count(), 4U);
  EXPECT_EQ(steps.items, 5U);
}

TEST(Steps, OfTrainingAreNotThePassesOfSamplingThatFollow) {
  const std::string step = times(12, "abcd") + times(12, "efgh") + "UUUU";
  const Steps steps = find_steps(work(times(8, step) + times(62, times(12, "ab") + "s")));
  EXPECT_EQ(steps.count(), 7U);
  EXPECT_EQ(steps.items, step.size());
  ASSERT_TRUE(steps.rival);  // they take longer than the training did
  EXPECT_EQ(steps.rival->count, 62U);
  EXPECT_EQ(steps.rival->length, 25us);
  EXPECT_FALSE(find_steps(work(times(8, step) + times(6, times(12, "ab") + "s"))).rival);
}

TEST(Steps, EndWhereTheUserSaysAndNowhereElse) {
  const std::string two =
      "abcUU"
      "defVV";
  EXPECT_EQ(find_steps(work(times(4, two)), StepEnds::guessed).count(), 3U);
  EXPECT_EQ(find_steps(work(times(4, two)), StepEnds::given).count(), 7U);
  EXPECT_EQ(find_steps(work(times(9, "abc")), StepEnds::given).count(), 0U);
}

// --- With nothing but their repetition ---

TEST(Steps, AreTheOutermostRepetition) {
  // Set-up, then four steps of two layers (ab) and an update (c), then a tear-down.
  const Steps steps = find_steps(work("xyzxyabababcabababcabababcabababcq"));
  EXPECT_EQ(steps.items, 7U);
  EXPECT_EQ(steps.count(), 3U);
  EXPECT_EQ(steps.median(), 7us);
}

TEST(Steps, OfADecodeLoopWhoseKernelsGrow) {
  // Attention over a longer and longer context is other work for each token.
  std::vector<WorkItem> items;
  for (std::uint64_t token = 0; token < 20; ++token) {
    for (std::uint64_t i = 0; i < 10; ++i) {
      const Time start{1us * (10 * token + i)};
      items.push_back({.identity = i % 3 == 0 ? 1000 + 100 * token + i : 1 + i,
                       .start = start,
                       .end = start + 1us});
    }
  }
  const Steps steps = find_steps(items);
  EXPECT_EQ(steps.items, 10U);
  EXPECT_EQ(steps.count(), 19U);
  EXPECT_EQ(steps.median(), 10us);
}

TEST(Steps, AreUnsureWhereTheRestIsNextToNothing) {
  // A log line after every ten requests, or ten micro-batches and what ends a step?
  const Steps steps = find_steps(work(times(5, times(10, "abcdefgh") + "l")));
  EXPECT_EQ(steps.items, 81U);
  ASSERT_TRUE(steps.rival);
  EXPECT_EQ(steps.rival->length, 8us);
  EXPECT_EQ(steps.rival->count, 50U);
}

TEST(Steps, AreUnsureWhereTheyComeInEqualGroups) {
  // Three steps of eight micro-batches, of which the first initialises, or steps and checkpoints?
  const std::string group = times(8, "abcdef");
  const Steps steps = find_steps(work("rstuv" + group + "r" + group + "rs" + group));
  EXPECT_EQ(steps.items, 6U);
  ASSERT_TRUE(steps.rival);
  EXPECT_EQ(steps.rival->count, 3U);
  EXPECT_EQ(steps.rival->length, 50us);
  EXPECT_FALSE(find_steps(work(group + "r" + group + "rs" + group + group)).rival);
}

TEST(Steps, AreSplitByTheirOwnEndsAlone) {
  // An evaluation in the middle.
  const Steps steps = find_steps(work(times(5, "abcdef") + times(7, "ab") + times(5, "abcdef")));
  EXPECT_EQ(steps.items, 6U);
  EXPECT_EQ(steps.count(), 9U);
  EXPECT_EQ(steps.median(), 6us);
}

TEST(Steps, AWarmUpStepOfItsOwnIsLeftOut) {
  const Steps steps = find_steps(work("abcxabcabcabc"));
  EXPECT_EQ(steps.items, 3U);
  EXPECT_EQ(steps.median(), 3us);
}

TEST(Steps, NothingRepeatsInALineOfDifferentWork) {
  EXPECT_EQ(find_steps(work("abcdefg")).count(), 0U);
  EXPECT_EQ(find_steps(work("abcdefgaU")).count(), 0U);
  EXPECT_EQ(find_steps({}).count(), 0U);
  EXPECT_EQ(find_steps({}).median(), Duration{});
}

TEST(Steps, NothingRepeatsInNoise) {
  std::mt19937_64 random{1};
  std::string letters;
  for (int i = 0; i < 2000; ++i) letters += static_cast<char>('a' + random() % 26);
  EXPECT_EQ(find_steps(work(letters)).count(), 0U);
}

// --- Where the program says it itself ---

TEST(Steps, AreCutAtGivenInstants) {
  const std::vector<Time> bounds = {Time{3us}, Time{7us}, Time{11us}, Time{20us}};
  const Steps steps = cut_steps(work("xyzabcdabcdabcdsssssq"), bounds);
  EXPECT_EQ(steps.count(), 3U);
  EXPECT_EQ(typical(steps), 2U);
  EXPECT_EQ(steps.items, 4U);
  EXPECT_EQ(steps.median(), 4us);
  EXPECT_EQ(cut_steps({}, {}).count(), 0U);
}

}  // namespace
}  // namespace phantora
