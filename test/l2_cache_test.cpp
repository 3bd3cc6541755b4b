#include <phantora/error.hpp>
#include <phantora/kernels/builtin_cost_model.hpp>
#include <phantora/kernels/kernels.hpp>
#include <phantora/kernels/l2_cache.hpp>
#include <phantora/kernels/operand_cache.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace phantora {
namespace {

constexpr std::uint64_t part = std::uint64_t{32} << 10U, block = std::uint64_t{4} << 20U;
constexpr std::uint64_t base = std::uint64_t{1} << 40U;
// A hundred blocks.
constexpr auto size = Bytes{std::int64_t{400} << 20U};

TEST(L2Cache, HoldsWhatWasTouchedLast) {
  L2Cache cache{size};
  EXPECT_EQ(cache.touch(base, block), block);
  EXPECT_EQ(cache.touch(base, block), 0);
  EXPECT_EQ(cache.touch(base + part, 3 * part), 0);
}

// All is there after 0.53 of the size, nothing after 0.8, and half in the middle, 0.665.
TEST(L2Cache, LosesItBitByBit) {
  EXPECT_EQ(L2Cache::missing_share(0.53 * size.count(), size), 0);
  EXPECT_NEAR(L2Cache::missing_share(0.665 * size.count(), size), 0.5, 1e-12);
  EXPECT_EQ(L2Cache::missing_share(0.8 * size.count() + 1, size), 1);
  for (const auto& [blocks, missing] :
       {std::pair{53, 0.0}, {80, 1.0}, {66, (0.66 - 0.53) / 0.27}}) {
    L2Cache cache{size};
    cache.touch(base, part);
    cache.touch(base + block, static_cast<std::uint64_t>(blocks) * block - part);
    EXPECT_NEAR(cache.touch(base, part), missing * part, 1e-6 * part) << blocks;
  }
}

// A touch counts whether it finds something or not: 53 blocks lose nothing, 80 everything.
TEST(L2Cache, FindingSomethingCountsToo) {
  for (const auto& [times, missing] : {std::pair{2, 0.0}, {4, 1.0}}) {
    L2Cache cache{size};
    cache.touch(base, block);
    cache.touch(base + block, 20 * block);
    for (int i = 1; i < times; ++i) EXPECT_EQ(cache.touch(base + block, 20 * block), 0);
    EXPECT_EQ(cache.touch(base, block), missing * block) << times;
  }
}

// Every byte of an operand that is gone through anew is as old as the whole is long.
TEST(L2Cache, WhatIsTouchedAgainIsAsOldAsItIsLong) {
  L2Cache cache{size};
  cache.touch(base, 66 * block);
  const double missing = 66.0 * block * (0.66 - 0.53) / 0.27;
  EXPECT_NEAR(cache.touch(base, 66 * block), missing, 1e-6 * missing);
}

TEST(L2Cache, WhatIsLargerIsNeverThere) {
  L2Cache cache{size};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cache.touch(base, 90 * block), 90 * block);
  constexpr std::uint64_t huge = std::uint64_t{1} << 36U;
  EXPECT_EQ(cache.touch(base, huge), huge);
  EXPECT_EQ(cache.touch(base + huge - 50 * block, 50 * block), 0);
  EXPECT_EQ(cache.touch(base, block), block);
}

TEST(L2Cache, NoneHoldsNothing) {
  L2Cache cache{Bytes{}};
  for (int i = 0; i < 2; ++i) EXPECT_EQ(cache.touch(base, 5 * part), 5 * part);
}

/// A list of parts of 32 KiB, each with what had been touched when it was.
class Parts {
 public:
  double touch(std::uint64_t begin, std::uint64_t end) {
    double missing = 0;
    for (std::uint64_t p = begin / part; p * part < end; ++p) {
      const auto known = stamps_.find(p);
      const double since = known == stamps_.end() ? std::numeric_limits<double>::infinity()
                                                  : touched_ - known->second;
      missing += part * L2Cache::missing_share(since, size);
      stamps_[p] = touched_;
      touched_ += part;
    }
    return missing;
  }

 private:
  std::map<std::uint64_t, double> stamps_;
  double touched_ = 0;
};

TEST(L2Cache, IsAsItsParts) {
  std::mt19937_64 random{7};
  L2Cache cache{size};
  Parts reference;
  for (int i = 0; i < 4000; ++i) {
    const std::uint64_t begin = base + random() % (150 * block) / part * part;
    const std::uint64_t parts = 1 + random() % (i % 3 == 0 ? 30 * block / part : 4);
    const std::uint64_t end = begin + parts * part;
    const double expected = reference.touch(begin, end);
    ASSERT_NEAR(cache.touch(begin, end - begin), expected, 1e-6 * expected + 1e-3) << i;
  }
}

// As a program's are, which touches the same tensors again and parts of them, many of them small,
// while others pass through.
TEST(L2Cache, IsAsItsPartsWhereOperandsComeAgain) {
  struct Tensor {
    std::uint64_t begin, parts;
  };
  std::mt19937_64 random{8};
  L2Cache cache{size};
  Parts reference;
  std::vector<Tensor> tensors;
  for (std::uint64_t begin = base; tensors.size() < 500;) {
    const bool large = tensors.size() % 25 == 0;
    tensors.push_back({begin, 1 + random() % (large ? 20 * block / part : 3)});
    begin += tensors.back().parts * part;
  }
  for (int i = 0; i < 20000; ++i) {
    auto [begin, parts] = tensors[random() % tensors.size()];
    if (i % 7 == 0) {
      const std::uint64_t skipped = random() % parts;
      begin += skipped * part;
      parts = 1 + random() % (parts - skipped);
    }
    const double expected = reference.touch(begin, begin + parts * part);
    ASSERT_NEAR(cache.touch(begin, parts * part), expected, 1e-6 * expected + 1e-3) << i;
  }
}

class ColdTimeTest : public testing::Test {
 protected:
  const GpuModel gpu = gpu_model("h200");
  const KernelCostModel model = builtin_cost_model(gpu);
  const KernelQuery sum = elementwise(4 << 20, 2, ElementType::bf16);
  [[nodiscard]] Duration time(double read, double written, double cold) const {
    KernelQuery query = sum;
    query.operands = {.read = read, .written = written, .cold = cold};
    return model.estimate(query)->duration;
  }
};

TEST_F(ColdTimeTest, IsNoneWhereNothingIsToldOrAllIsThere) {
  const Duration warm = model.estimate(sum)->duration;
  EXPECT_EQ(time(0, 8e6, 0), warm);
  EXPECT_EQ(time(16e6, 8e6, 0), warm);
}

TEST_F(ColdTimeTest, GrowsWithWhatIsNotThere) {
  Duration before = time(16e6, 8e6, 0);
  for (const double cold : {2e6, 4e6, 8e6, 16e6}) {
    const Duration now = time(16e6, 8e6, cold);
    EXPECT_GT(now, before);
    before = now;
  }
  // 0.46 us once, and 0.81 of what 16 MB take at 4.8 TB/s.
  const double expected = 0.46e-6 + 0.81 * 16e6 / 4.8e12;
  EXPECT_NEAR(to_seconds(before - time(16e6, 8e6, 0)), expected, 1e-9);
}

// Of 128 MB nothing is left when the kernel begins anew: so it was measured, and so it costs. Where
// the kernel before has left half of it, that has to be written back meanwhile.
TEST_F(ColdTimeTest, OfLargeOperandsIsInTheMeasurement) {
  const Duration warm = model.estimate(sum)->duration;
  EXPECT_EQ(time(96e6, 32e6, 96e6), warm);
  EXPECT_EQ(time(96e6, 32e6, 48e6), warm);
}

// Statistics were measured with four more passes through as much between them: of 16 MB nothing was
// there. So they take less where the convolution before has left it.
TEST_F(ColdTimeTest, IsSavedWhereTheMeasurementWasCold) {
  KernelQuery statistics{
      .name =
          "void at::native::batch_norm_collect_statistics_channels_last_kernel<"
          "at::native::Var, c10::BFloat16, float, 4>(c10::BFloat16 const*, float*)",
      .grid = KernelQuery::Dim3{8, 64, 1},
      .block = {32, 16, 1}};
  statistics.operands = {.read = 16e6, .written = 0, .cold = 0};
  EXPECT_NEAR(to_seconds(-cold_time(statistics, duration_from_seconds(1.0), gpu)), 4.84e-6, 1e-9);
  statistics.operands.cold = 16e6;
  EXPECT_EQ(cold_time(statistics, duration_from_seconds(1.0), gpu), Duration{});
}

/// A sum of floats, with so many threads at most and outputs for each.
std::string sum_kernel(const std::string& threads_and_outputs) {
  const std::string op =
      "at::native::ReduceOp<float, at::native::func_wrapper_t<float, "
      "at::native::sum_functor<float, float, "
      "float>::operator()(at::TensorIterator&)::{lambda(float, "
      "float)#1}>, unsigned int, float, 4, 4>";
  return "void at::native::reduce_kernel<" + threads_and_outputs + ", " + op + " >(" + op + ")";
}

TEST_F(ColdTimeTest, CountsRoundTripsOfReductions) {
  // 1024 threads of 4 loads in flight, of 4 elements each, over 65536 elements of each row: 4 round
  // trips, beside the first.
  KernelQuery reduction{.name = sum_kernel("512, 1"),
                        .grid = KernelQuery::Dim3{16, 1, 1},
                        .block = {512, 2, 1},
                        .features = {{"rows", 16.0}, {"cols", 65536.0}}};
  reduction.operands = {.read = 4e6, .written = 64, .cold = 4e6};
  const auto warm = duration_from_seconds(1.0);
  const double expected = 0.52e-6 + 4 * 0.29e-6 + 0.71 * 4e6 / 4.8e12;
  EXPECT_NEAR(to_seconds(cold_time(reduction, warm, gpu)), expected, 1e-9);
}

// 4 columns of 32 threads each, 64 rows of them in a block, whose partial sums 4 rows of threads
// add: 25 loads one after the other, which nobody wrote where a block has room for more columns.
TEST_F(ColdTimeTest, CountsPartialSumsOfColumns) {
  KernelQuery columns{.name = sum_kernel("128, 4"),
                      .grid = KernelQuery::Dim3{2, 100, 1},
                      .block = {32, 4, 1},
                      .features = {{"numel", 6400 * 256.0}, {"rows", 256.0}, {"cols", 6400.0}}};
  columns.operands = {.read = 6e6, .written = 1024, .cold = 0};
  const auto warm = duration_from_seconds(1.0);
  EXPECT_NEAR(to_seconds(cold_time(columns, warm, gpu)), 1.75e-6, 1e-9);
  columns.features["rows"] = 192.0;
  EXPECT_NEAR(to_seconds(cold_time(columns, warm, gpu)), 1.75e-6 + 25 * 0.18e-6, 1e-9);
  columns.operands.cold = 6e6;
  EXPECT_NEAR(to_seconds(cold_time(columns, warm, gpu)),
              2.35e-6 + 25 * 0.18e-6 + 0.5 * 6e6 / 4.8e12, 1e-9);
}

// 32 times 4 elements of 512 threads, one after the other, in 2 waves of 528 blocks.
TEST_F(ColdTimeTest, CountsThemForEachWaveOfBlocks) {
  KernelQuery optimizer{
      .name =
          "void at::native::multi_tensor_apply_kernel<at::native::TensorListMetadata<1>, "
          "F<float, 1, 1, 0> >(int)",
      .grid = KernelQuery::Dim3{528, 1, 1},
      .block = {512, 1, 1},
      .features = {{"numel", 1e6}, {"cols", 65536.0}}};
  optimizer.operands = {.read = 4e6, .written = 4e6, .cold = 2e6};
  const auto warm = duration_from_seconds(1.0);
  EXPECT_NEAR(to_seconds(cold_time(optimizer, warm, gpu)), 0.5 * 32 * 0.29e-6, 1e-9);
  optimizer.grid->x = 529;
  EXPECT_NEAR(to_seconds(cold_time(optimizer, warm, gpu)), 2 * 0.5 * 32 * 0.29e-6, 1e-9);
}

TEST_F(ColdTimeTest, StaysWithinWhatWasMeasured) {
  KernelQuery query = sum;
  query.operands = {.read = 40e6, .written = 0, .cold = 40e6};
  const auto warm = duration_from_seconds(1e-6);
  EXPECT_EQ(warm + cold_time(query, warm, gpu), duration_from_seconds(2.5e-6));
  query.name.replace(0, query.name.find('<'), "void batch_norm_collect_statistics_channels_last");
  query.operands = {.read = 16e6, .written = 0, .cold = 0};
  EXPECT_EQ(warm + cold_time(query, warm, gpu), duration_from_seconds(0.6e-6));
}

TEST_F(ColdTimeTest, RefusesMoreColdThanRead) {
  KernelQuery query = elementwise(5'000'001, 2, ElementType::bf16);
  query.operands = {.read = 1e6, .written = 0, .cold = 2e6};
  EXPECT_THROW((void)model.estimate(query), CostError);
}

}  // namespace
}  // namespace phantora
