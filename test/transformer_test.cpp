#include <phantora/error.hpp>
#include <phantora/simulation/simulation.hpp>
#include <phantora/simulation/transformer.hpp>

#include <gtest/gtest.h>

namespace phantora {
namespace {

constexpr TransformerShape llama70{.layers = 80, .hidden = 8192, .heads = 64, .mlp = 28672};
constexpr TransformerShape small{.layers = 4,
                                 .hidden = 1024,
                                 .heads = 16,
                                 .key_heads = 8,
                                 .mlp = 4096,
                                 .vocabulary = 32000,
                                 .sequence = 1024};

template <class T>
int count(const Workload& w, Rank rank) {
  int n = 0;
  for (const auto& operation : w.operations(rank)) n += std::holds_alternative<T>(operation);
  return n;
}

TEST(Transformer, ParametersAreThoseThatThePapersName) {
  // Llama 3 70B has 70.6e9 parameters, 8B 8.03e9.
  EXPECT_NEAR(parameters(llama70), 70.55e9, 0.05e9);
  EXPECT_NEAR(parameters(TransformerShape{}), 8.03e9, 0.01e9);
  // 6 per parameter and token, and 12 * layers * hidden * s^2 / 2 of causal attention.
  EXPECT_NEAR(flops_per_sequence(llama70),
              6 * (parameters(llama70) - 128256.0 * 8192) * 4096 + 6.0 * 80 * 8192 * 4096 * 4096,
              1e6);
}

TEST(Transformer, ARankRunsItsLayersAndMeetsItsGroups) {
  // One stage, 4 layers, 2 micro-batches. Of each half layer and direction an all_gather and a
  // reduce_scatter: 4 * 2 * 2 * 2 * 2; and two collectives of the optimizer.
  const Workload w = training_steps(small, {.tensor = 2, .data = 2, .batch = 4});
  EXPECT_EQ(w.rank_count(), 4U);
  for (Rank rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(count<Workload::Collective>(w, rank), 4 * 2 * 2 * 2 * 2 + 2);
    EXPECT_EQ(count<Workload::Exchange>(w, rank), 0);
    EXPECT_EQ(count<Workload::StepEnd>(w, rank), 1);
  }
  // Alike on all ranks: only the groups differ.
  EXPECT_EQ(w.operations(0).size(), w.operations(3).size());
}

TEST(Transformer, StagesPassEachMicroBatchOnAndBack) {
  const Workload w = training_steps(small, {.pipeline = 4, .batch = 8}, 2);
  for (const auto& [rank, messages] : {std::pair{0U, 16}, {1U, 32}, {2U, 32}, {3U, 16}}) {
    EXPECT_EQ(count<Workload::Exchange>(w, rank), 2 * messages);
    EXPECT_EQ(count<Workload::Collective>(w, rank), 0);
  }
}

TEST(Transformer, MemoryIsThatOfItsParts) {
  // The first of 4 stages keeps as many micro-batches as there are stages behind it and itself, of
  // which each has 34 bytes per element of the hidden state and layer.
  const Simulation simulation{parse_cluster("h200:1x8")};
  const Report report =
      simulation.run(training_steps(small, {.pipeline = 4, .data = 2, .batch = 16}));
  const double layer = 1024.0 * (2 * 1024 + 2 * 512) + 3.0 * 1024 * 4096 + 2 * 1024;
  const auto held = [&](double weights, int micro_batches) {
    return gpu_model("h200").context_memory +
           Bytes{static_cast<std::int64_t>(weights * (2 + 4 + 12.0 / 2))} +
           Bytes{34 * 1024 * 1024} * micro_batches;
  };
  EXPECT_EQ(report.ranks[0].peak_memory, held(layer + 32000.0 * 1024, 4));
  EXPECT_EQ(report.ranks[2].peak_memory, held(layer, 3));
  EXPECT_EQ(report.ranks[4].peak_memory, held(layer, 2));
  EXPECT_EQ(report.ranks[6].peak_memory, held(layer + 32000.0 * 1024, 1));
}

TEST(Transformer, PipelinesWaitAndTensorGroupsTalk) {
  const Simulation simulation{parse_cluster("h200:1x8")};
  const Report tensor = simulation.run(training_steps(small, {.tensor = 8, .batch = 8}));
  const Report pipeline = simulation.run(training_steps(small, {.pipeline = 4, .batch = 8}));
  EXPECT_EQ(tensor.waiting(), Duration{});  // all parts are alike
  EXPECT_GT(tensor.exposed(), tensor.makespan / 10);
  EXPECT_GT(pipeline.waiting(), pipeline.exposed());
  // 8 micro-batches over 4 stages: at least 3 / 11 of the time is the bubble.
  EXPECT_GT(pipeline.waiting() + pipeline.idle(), pipeline.makespan * 3 / 11);
}

TEST(Transformer, StepsAreAlike) {
  const Simulation simulation{parse_cluster("h200:1x8")};
  const Report report =
      simulation.run(training_steps(small, {.tensor = 2, .pipeline = 2, .data = 2, .batch = 8}, 4));
  ASSERT_EQ(report.steps.size(), 4U);
  EXPECT_NEAR(to_seconds(report.steps[3] - report.steps[2]), to_seconds(report.step()),
              1e-3 * to_seconds(report.step()));
}

TEST(Transformer, RefusesWhatDoesNotDivide) {
  EXPECT_THROW((void)training_steps(small, {.tensor = 3, .batch = 1}), ArgumentError);
  EXPECT_THROW((void)training_steps(small, {.pipeline = 3, .batch = 1}), ArgumentError);
  EXPECT_THROW((void)training_steps(small, {.data = 2, .batch = 3}), ArgumentError);
  EXPECT_THROW((void)training_steps(small, {.batch = 1}, 0), ArgumentError);
  EXPECT_THROW((void)training_steps({.layers = 0}, {}), ArgumentError);
}

}  // namespace
}  // namespace phantora
