#include <phantora/kernels/builtin_cost_model.hpp>

#include <cross_validation.hpp>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

// The bounds are what kernel_cv prints (lib/kernels/README.md), plus a fifth: a change that makes
// the model worse than that should say so here.
namespace phantora::accuracy {
namespace {

struct Bound {
  double mean, median;
};

/// Of an H200 a ninth of the rows are convolutions of volumes, which are the hardest, and an H100
/// has run few of them: what they are off by says little of others.
std::vector<Prediction> without_volumes(std::vector<Prediction> predictions) {
  std::erase_if(predictions, [](const Prediction& prediction) {
    return prediction.family.starts_with("convolution of volumes");
  });
  return predictions;
}

void expect_within(Holdout holdout, const std::map<std::string, Bound>& bounds) {
  const GpuModel gpu = gpu_model("h200");
  const std::vector<Measurement>& rows = builtin_measurements();
  const auto errors = errors_by(&Prediction::family, cross_validate(rows, gpu, holdout));
  for (const auto& [family, bound] : bounds) {
    ASSERT_TRUE(errors.contains(family)) << family;
    EXPECT_LT(errors.at(family).mean, bound.mean) << family;
    EXPECT_LT(errors.at(family).median, bound.median) << family;
  }
}

TEST(KernelAccuracy, HeldOutKernels) {
  expect_within(Holdout::random,
                {{"gemm bf16", {.mean = 0.082, .median = 0.057}},
                 {"gemm fp16", {.mean = 0.08, .median = 0.06}},
                 {"gemm bf16 unaligned", {.mean = 0.137, .median = 0.11}},
                 {"gemm fp32", {.mean = 0.111, .median = 0.074}},
                 {"gemm tf32", {.mean = 0.103, .median = 0.076}},
                 {"attention", {.mean = 0.07, .median = 0.036}},
                 {"convolution", {.mean = 0.226, .median = 0.128}},
                 {"convolution dilated", {.mean = 0.22, .median = 0.165}},
                 {"convolution depthwise", {.mean = 0.3, .median = 0.105}},
                 {"convolution grouped", {.mean = 0.42, .median = 0.166}},
                 {"convolution of volumes", {.mean = 0.29, .median = 0.18}},
                 {"convolution of volumes, grouped", {.mean = 1.2, .median = 0.38}},
                 {"convolution tried", {.mean = 0.203, .median = 0.1}},
                 {"recurrent network", {.mean = 0.146, .median = 0.09}},
                 {"batch norm", {.mean = 0.088, .median = 0.06}},
                 {"elementwise", {.mean = 0.09, .median = 0.05}},
                 {"by index", {.mean = 0.23, .median = 0.123}},
                 {"by code", {.mean = 2.0, .median = 0.22}},
                 {"vector product", {.mean = 0.2, .median = 0.14}},
                 {"reduction, normalisation, other", {.mean = 0.15, .median = 0.073}},
                 {"multi-tensor", {.mean = 0.27, .median = 0.115}}});
}

// A half of what measure_libraries.py, measure_rest.py and measure_strided.py measured, a quarter
// of measure_convolutions.py and measure_again.py, and a third of measure_sequences.py, of
// measure_embeddings.py, of measure_indexing.py, of measure_algebra.py, of measure_filters.py and
// of measure_half.py, and a quarter of measure_timm.py and measure_trials.py, chosen before: no fit
// ever saw them. So are a third of measure_products.py, measure_vectors.py,
// measure_answers.py, measure_channels.py, measure_diffusion.py,
// measure_volumes.py and measure_decoding.py.
// Those of sequences are 1,174 of the hardest families (27 and 61 % off in the mean), and judges
// whose kernels overlap have been measured again or are left out: before either was priced, the
// 12,958 but the very last were 18.2 % off in the mean and 6.9 in the median, recurrent
// networks 20.7 and 9.8, grouped convolutions 72.5 and 25.6, others without groups 20.3 and 10.5.
TEST(KernelAccuracy, Judges) {
  const GpuModel gpu = gpu_model("h200");
  const auto judges = read_measurements(PHANTORA_TEST_DATA "/h200_judges.tsv");
  ASSERT_EQ(judges.size(), 53892U);
  const auto predictions = predict(judges, builtin_cost_model(gpu));
  const auto errors = errors_by(&Prediction::family, predictions);
  const Error others = error_of(without_volumes(predictions));
  EXPECT_NEAR(others.mean, 0.135, 0.002);
  EXPECT_NEAR(others.median, 0.057, 0.002);
  EXPECT_NEAR(errors.at("convolution of volumes").median, 0.1447, 0.002);
  EXPECT_NEAR(errors.at("convolution of volumes, grouped").median, 0.285, 0.002);
  EXPECT_NEAR(errors.at("attention").median, 0.043, 0.002);
  EXPECT_NEAR(errors.at("batch norm").median, 0.046, 0.002);
  EXPECT_NEAR(errors.at("by code").median, 0.087, 0.002);
  EXPECT_NEAR(errors.at("by index").median, 0.093, 0.002);
  EXPECT_NEAR(errors.at("convolution").median, 0.109, 0.002);
  EXPECT_NEAR(errors.at("convolution grouped").median, 0.165, 0.002);
  EXPECT_NEAR(errors.at("convolution tried").median, 0.081, 0.002);
  EXPECT_NEAR(errors.at("dense algebra").median, 0.134, 0.002);
  EXPECT_NEAR(errors.at("elementwise").median, 0.049, 0.002);
  EXPECT_NEAR(errors.at("gemm bf16").median, 0.048, 0.002);
  EXPECT_NEAR(errors.at("gemm fp32").median, 0.072, 0.002);
  EXPECT_NEAR(errors.at("gemm tf32").median, 0.064, 0.002);
  EXPECT_NEAR(errors.at("grouped product").median, 0.078, 0.002);
  EXPECT_NEAR(errors.at("recurrent network").median, 0.087, 0.002);
  EXPECT_NEAR(errors.at("reduction, normalisation, other").median, 0.024, 0.002);
  EXPECT_NEAR(errors.at("sparse product").median, 0.141, 0.002);
  EXPECT_NEAR(errors.at("transform").median, 0.138, 0.002);
  EXPECT_NEAR(errors.at("vector product").median, 0.081, 0.002);
}

TEST(KernelAccuracy, HeldOutNeighbourhoods) {
  expect_within(Holdout::neighbourhood, {{"gemm bf16", {.mean = 0.085, .median = 0.06}},
                                         {"gemm bf16 unaligned", {.mean = 0.16, .median = 0.12}},
                                         {"attention", {.mean = 0.082, .median = 0.045}},
                                         {"elementwise", {.mean = 0.12, .median = 0.06}}});
}

// A normal distribution has 68 % within one standard deviation and 95 % within two; where the
// libraries change their kernel ours has heavier tails. The shares are those that kernel_cv prints.
TEST(KernelAccuracy, HeldOutKernelsLieWithinTheirErrorBars) {
  const GpuModel gpu = gpu_model("h200");
  const std::vector<Measurement>& rows = builtin_measurements();
  const Coverage random = coverage_of(cross_validate(rows, gpu, Holdout::random));
  EXPECT_NEAR(random.one, 0.7081, 0.0005);
  EXPECT_NEAR(random.two, 0.9081, 0.0005);
  EXPECT_NEAR(random.median_bar, 0.1221, 0.0005);
  const Coverage neighbourhood = coverage_of(cross_validate(rows, gpu, Holdout::neighbourhood));
  EXPECT_NEAR(neighbourhood.one, 0.6864, 0.0005);
  EXPECT_NEAR(neighbourhood.two, 0.8890, 0.0005);
}

TEST(KernelAccuracy, AnH100sHeldOutKernels) {
  const auto predictions =
      cross_validate(builtin_measurements("h100"), gpu_model("h100"), Holdout::random);
  const Error error = error_of(predictions);
  EXPECT_NEAR(error.mean, 0.1356, 0.0005);
  EXPECT_NEAR(error.median, 0.0613, 0.0005);
}

/// Of one GPU's kernels, as if only the other had been measured.
void expect_from_another(const std::string& measured, const std::string& target, Bound bound,
                         Coverage expected) {
  const auto& rows = builtin_measurements(target);
  const auto predictions = without_volumes(predict(
      rows, by_another(gpu_model(measured), builtin_measurements(measured), gpu_model(target))));
  const Error error = error_of(predictions);
  EXPECT_NEAR(error.mean, bound.mean, 0.0005) << target;
  EXPECT_NEAR(error.median, bound.median, 0.0005) << target;
  const Coverage coverage = coverage_of(predictions);
  EXPECT_NEAR(coverage.one, expected.one, 0.0005) << target;
  EXPECT_NEAR(coverage.two, expected.two, 0.0005) << target;
  EXPECT_NEAR(coverage.median_bar, expected.median_bar, 0.0005) << target;
}

// The rule's exponent was chosen on a half of these; the way back was not looked at. Groups that
// run beside each other overlap as their hosts let them: grouped convolutions are 10.3 and 12.0 %
// off, 5.5 and 8.5 where the sums of their kernels were compared. Of recurrent networks the H100
// was not measured again, so that its table lacks their weights' gradients: 13.7 % from 5.0 on the
// way back.
TEST(KernelAccuracy, AnH100sKernelsByTheH200s) {
  expect_from_another("h200", "h100", {.mean = 0.0718, .median = 0.0396},
                      {.one = 0.8180, .two = 0.9553, .median_bar = 0.1131});
}
TEST(KernelAccuracy, TheH200sKernelsByAnH100s) {
  expect_from_another("h100", "h200", {.mean = 0.1425, .median = 0.0653},
                      {.one = 0.7473, .two = 0.9243, .median_bar = 0.1242});
}

// Another H100, on another day: how far apart two of them are. Its times are means, the table's
// those of launches that found their operands in the cache.
TEST(KernelAccuracy, AnotherH100sKernels) {
  const auto rows = read_measurements(PHANTORA_TEST_DATA "/h100_kernels.tsv");
  ASSERT_EQ(rows.size(), 2140U);
  const Error error = error_of(predict(rows, builtin_cost_model(gpu_model("h100"))));
  EXPECT_NEAR(error.mean, 0.0264, 0.0005);
  EXPECT_NEAR(error.median, 0.010, 0.0005);
}

/// Measured and predicted seconds of a step's kernels.
std::pair<double, double> replay(const std::string& step, const KernelCostModel& model) {
  double measured = 0;
  double predicted = 0;
  for (Measurement& row : read_measurements(PHANTORA_TEST_DATA "/" + step + "_step.tsv")) {
    const double count = row.query.features.extract("count").mapped();
    measured += count * to_seconds(row.duration);
    predicted += count * to_seconds(model.estimate(row.query)->duration);
  }
  return {measured, predicted};
}

TEST(KernelAccuracy, StepsOfWholeModels) {
  // Sums over each file. What kernel_cv prints is within 4 %.
  const std::map<std::string, double> steps{
      {"gpt2_b8", 55.50e-3},         {"gpt2_medium_b4", 66.43e-3}, {"llama1b_b2", 98.71e-3},
      {"llama1b_b2_bf16", 78.69e-3}, {"vit_b16_b64", 32.24e-3},    {"resnet50_b64", 28.35e-3}};
  for (const auto& [step, seconds] : steps) {
    const auto [measured, predicted] = replay(step, builtin_cost_model(gpu_model("h200")));
    EXPECT_NEAR(measured, seconds, 1e-5) << step;
    EXPECT_NEAR(predicted / measured, 1.0, 0.05) << step;
  }
}

// What the whole steps took there (test/data/h100_training.jsonl) over what they took on H200s
// (h200_training.jsonl, medians). The H100's steps are data of no fit.
TEST(KernelAccuracy, StepsOfWholeModelsOnAnH100) {
  const GpuModel h200 = gpu_model("h200"), h100 = gpu_model("h100");
  const KernelCostModel here = builtin_cost_model(h200), own = builtin_cost_model(h100);
  const KernelCostModel from_h200 = by_another(h200, builtin_measurements("h200"), h100);
  struct Step {
    double real, by_own, by_h200;
  };
  const std::map<std::string, Step> steps{{"gpt2_b8", {67.95 / 59.7, 1.179, 1.179}},
                                          {"llama1b_b2", {121.91 / 105.7, 1.195, 1.200}},
                                          {"resnet50_b64", {31.89 / 29.6, 1.100, 1.053}}};
  for (const auto& [step, told] : steps) {
    const double base = replay(step, here).second;
    EXPECT_NEAR(replay(step, own).second / base, told.by_own, 0.001) << step;
    EXPECT_NEAR(replay(step, from_h200).second / base, told.by_h200, 0.001) << step;
    EXPECT_NEAR(told.by_own / told.real, 1.0, 0.04) << step;
    EXPECT_NEAR(told.by_h200 / told.real, 1.0, 0.05) << step;
  }
}

TEST(KernelAccuracy, TheVocabularysGemmsOfOddWidth) {
  // 28 % of GPT-2's step is three products with 50257 columns or rows, which the sweeps lack.
  const KernelCostModel model = builtin_cost_model(gpu_model("h200"));
  int found = 0;
  for (Measurement& row : read_measurements(PHANTORA_TEST_DATA "/gpt2_b8_step.tsv")) {
    if (row.duration < Duration{std::chrono::milliseconds{4}}) continue;
    ++found;
    row.query.features.erase("count");
    const auto estimate = model.estimate(row.query);
    EXPECT_EQ(estimate->source, CostSource::fitted);
    EXPECT_NEAR(to_seconds(estimate->duration) / to_seconds(row.duration), 1.0, 0.15);
  }
  EXPECT_EQ(found, 3);
}

}  // namespace
}  // namespace phantora::accuracy
