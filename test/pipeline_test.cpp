#include <phantora/error.hpp>
#include <phantora/simulation/pipeline.hpp>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

namespace phantora {
namespace {

/// "F0 F1 B0": kind and micro-batch; with several chunks "F0.1" for chunk 1 of micro-batch 0.
std::string text(const PipelineShape& shape, int stage) {
  std::string text;
  for (const PipelinePass& pass : pipeline_order(shape, stage)) {
    if (!text.empty()) text += ' ';
    text += "FBIW"[pass.kind] + std::to_string(pass.micro_batch);
    if (shape.chunks > 1) text += '.' + std::to_string(pass.chunk);
  }
  return text;
}

using enum PipelineSchedule;

TEST(Pipeline, GpipeGoesForwardAndThenBackward) {
  EXPECT_EQ(text({gpipe, 2, 3}, 0), "F0 F1 F2 B0 B1 B2");
  EXPECT_EQ(text({gpipe, 2, 2, 2}, 1), "F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0");
}

TEST(Pipeline, StagesTakeTurnsOnceThoseBehindHaveBegun) {
  EXPECT_EQ(text({one_forward_one_backward, 3, 4}, 0), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(text({one_forward_one_backward, 3, 4}, 2), "F0 B0 F1 B1 F2 B2 F3 B3");
  EXPECT_EQ(text({one_forward_one_backward, 4, 2}, 0), "F0 F1 B0 B1");
}

TEST(Pipeline, InterleavedRoundsPassThroughTheChunks) {
  // Megatron's: 2 * (stages - 1 - stage) + (chunks - 1) * stages passes before the first turn.
  EXPECT_EQ(text({one_forward_one_backward, 2, 4, 2}, 0),
            "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0");
  EXPECT_EQ(text({one_forward_one_backward, 2, 4, 2}, 1),
            "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0");
}

TEST(Pipeline, WeightsFillTheBubble) {
  EXPECT_EQ(text({zero_bubble, 3, 3}, 0), "F0 F1 F2 I0 W0 I1 W1 I2 W2");
  EXPECT_EQ(text({zero_bubble, 3, 3}, 2), "F0 I0 F1 I1 F2 I2 W0 W1 W2");
  EXPECT_EQ(text({zero_bubble, 3, 4}, 1), "F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3");
}

TEST(Pipeline, EveryPassComesOnceAndAfterWhatItNeeds) {
  for (const auto schedule : {gpipe, one_forward_one_backward, zero_bubble})
    for (int stages = 1; stages <= 5; ++stages)
      for (int chunks = 1; chunks <= 3; ++chunks)
        for (int rounds = 1; rounds <= 3; ++rounds) {
          const int micro_batches = stages * rounds;
          for (int stage = 0; stage < stages; ++stage) {
            std::set<std::tuple<int, int, int>> done;
            for (const PipelinePass& pass :
                 pipeline_order({schedule, stages, micro_batches, chunks}, stage)) {
              const auto has = [&](PipelinePass::Kind kind) {
                return done.count({kind, pass.chunk, pass.micro_batch}) == 1;
              };
              if (pass.kind == PipelinePass::backward ||
                  pass.kind == PipelinePass::backward_input) {
                EXPECT_TRUE(has(PipelinePass::forward));
              }
              if (pass.kind == PipelinePass::backward_weight) {
                EXPECT_TRUE(has(PipelinePass::backward_input));
              }
              EXPECT_TRUE(done.insert({pass.kind, pass.chunk, pass.micro_batch}).second);
            }
            const int passes = schedule == zero_bubble ? 3 : 2;
            EXPECT_EQ(static_cast<int>(done.size()), passes * micro_batches * chunks);
          }
        }
}

TEST(Pipeline, RefusesWhatCannotBe) {
  EXPECT_THROW((void)pipeline_order({gpipe, 0, 1}, 0), ArgumentError);
  EXPECT_THROW((void)pipeline_order({gpipe, 2, 2}, 2), ArgumentError);
  EXPECT_THROW((void)pipeline_order({one_forward_one_backward, 2, 3, 2}, 0), ArgumentError);
}

}  // namespace
}  // namespace phantora
