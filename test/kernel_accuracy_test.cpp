#include <phantora/builtin_cost_model.hpp>

#include <cross_validation.hpp>

#include <map>
#include <string>

#include <gtest/gtest.h>

// The bounds are what kernel_cv prints (lib/README.md), plus a fifth: a change that makes the model
// worse than that should say so here.
namespace phantora::accuracy {
namespace {

struct Bound {
  double mean, median;
};

void expect_within(Holdout holdout, const std::map<std::string, Bound>& bounds) {
  const GpuModel gpu = gpu_model("h200");
  const auto rows = read_measurements(data_directory() / "h200.tsv");
  const auto errors = errors_by(&Prediction::family, cross_validate(rows, gpu, holdout));
  for (const auto& [family, bound] : bounds) {
    ASSERT_TRUE(errors.contains(family)) << family;
    EXPECT_LT(errors.at(family).mean, bound.mean) << family;
    EXPECT_LT(errors.at(family).median, bound.median) << family;
  }
}

TEST(KernelAccuracy, HeldOutKernels) {
  expect_within(Holdout::random, {{"gemm bf16", {.mean = 0.083, .median = 0.057}},
                                  {"gemm fp16", {.mean = 0.08, .median = 0.06}},
                                  {"gemm bf16 unaligned", {.mean = 0.16, .median = 0.125}},
                                  {"gemm fp32", {.mean = 0.13, .median = 0.10}},
                                  {"gemm tf32", {.mean = 0.135, .median = 0.105}},
                                  {"attention", {.mean = 0.083, .median = 0.04}},
                                  {"convolution", {.mean = 0.145, .median = 0.105}},
                                  {"elementwise", {.mean = 0.105, .median = 0.06}},
                                  {"multi-tensor", {.mean = 0.10, .median = 0.05}}});
}

TEST(KernelAccuracy, HeldOutNeighbourhoods) {
  expect_within(Holdout::neighbourhood, {{"gemm bf16", {.mean = 0.085, .median = 0.06}},
                                         {"gemm bf16 unaligned", {.mean = 0.16, .median = 0.12}},
                                         {"attention", {.mean = 0.12, .median = 0.075}},
                                         {"convolution", {.mean = 0.17, .median = 0.11}},
                                         {"elementwise", {.mean = 0.12, .median = 0.08}}});
}

TEST(KernelAccuracy, TheErrorEstimateIsHonest) {
  const GpuModel gpu = gpu_model("h200");
  const auto rows = read_measurements(data_directory() / "h200.tsv");
  const auto predictions = cross_validate(rows, gpu, Holdout::random);
  double within = 0;
  for (const Prediction& p : predictions) {
    within += std::abs(p.predicted - p.measured) < 2.0 * p.stddev ? 1.0 : 0.0;
  }
  // Two standard deviations hold 95 % of a normal distribution; ours has heavier tails.
  EXPECT_GT(within / static_cast<double>(predictions.size()), 0.9);
}

TEST(KernelAccuracy, AGpt2StepKernelByKernel) {
  const KernelCostModel model = builtin_cost_model(gpu_model("h200"));
  double measured = 0;
  double predicted = 0;
  for (Measurement& row : read_measurements(PHANTORA_TEST_DATA "/gpt2_b8_step.tsv")) {
    const double count = row.query.features.extract("count").mapped();
    const double expected = to_seconds(row.duration);
    const double estimate = to_seconds(model.estimate(row.query)->duration);
    measured += count * expected;
    predicted += count * estimate;
    // The vocabulary's GEMMs, of odd width: 28 % of the step.
    if (expected > 4e-3) {
      EXPECT_NEAR(estimate / expected, 1.0, 0.12);
    }
  }
  EXPECT_NEAR(measured, 55.5035e-3, 1e-6);
  EXPECT_NEAR(predicted / measured, 1.0, 0.05);
}

}  // namespace
}  // namespace phantora::accuracy
