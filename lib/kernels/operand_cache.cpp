#include "kernels/code_roofline.hpp"

#include <phantora/kernels/kernel_signature.hpp>
#include <phantora/kernels/kernel_work.hpp>
#include <phantora/kernels/l2_cache.hpp>
#include <phantora/kernels/operand_cache.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

namespace phantora {
namespace {

/// What the way to memory adds where all that a kernel reads is there.
struct ColdReads {
  double first_us = 0;      ///< once
  double of_bandwidth = 0;  ///< share of the time that memory takes for the bytes
  /// How many times its operands the measured operation went through: 1 where it is the kernel
  /// alone.
  double measured_footprint = 1;
  /// Whether it takes less than it did where the cache holds more than it did then.
  bool saves = false;
};

/// As data/fit_cache.py prints: least squares of the relative error over data/h200_cache.jsonl.gz,
/// by kind of kernel. data/h100_cache.jsonl.gz judged them (lib/kernels/README.md).
struct Family {
  std::string_view base;  ///< what the kernel's name begins with
  ColdReads reads;
};
constexpr std::array launches{
    Family{"vectorized_elementwise_kernel", {0.46, 0.81}},
    Family{"unrolled_elementwise_kernel", {1.15, 1.20}},
    Family{"elementwise_kernel", {0.56, 0.01}},
    Family{"CatArrayBatchedCopy", {0.49, 0.65}},
    Family{"softmax_warp", {0.78, 0.44}},
    Family{"vectorized_layer_norm", {0.42, 0.84}},
    Family{"layer_norm_grad_input", {0.63, 0.42}},
    Family{"reduce_kernel", {0.52, 0.71}},
    // Measured forward and backward: input, output, their gradients, and the output's once more.
    Family{"batch_norm_collect_statistics_channels_last", {4.84, 1.52, 5.0, true}},
    // All that these wait for is round trips. In steps of densenet121 and deeplab they take as long
    // after their operands were written as in the sweeps, which did not find them.
    Family{"batch_norm_collect_statistics_kernel", {0.0, 0.0, 5.0}},
    Family{"batch_norm_transform_input_kernel", {0.0, 0.0, 5.0 / 2.0}},
    Family{"batch_norm_backward_kernel", {0.0, 0.0, 5.0 / 3.0}},
    Family{"multi_tensor_apply_kernel", {0.0, 0.0}},
};
constexpr ColdReads product{0.41, 0.41}, convolution{0.27, 0.08}, other_launch{0.51, 0.78};

/// A round trip to memory takes so much longer than one to the L2 cache: of the same fit's
/// reductions, whose round trips follow from their launch.
constexpr double round_trip_us = 0.29;

/// A column sum of several blocks for each result finds the memory for their partial sums cold,
/// which it is given anew for every launch, and of what nobody wrote there each load is a round
/// trip to memory: as data/fit_cache.py prints, of 127 sums of up to 22 MB that had just been
/// written on an H200, 6 % of whose time is left unexplained, and 27 without. Inputs that are cold
/// take more, as 145 of them there and in data/h200_cache.jsonl.gz do: 0.8 us of up to 5 MB, 3.2 of
/// 20 to 30 MB, and 4.5 where as much has to be written back.
constexpr double partial_sums_us = 1.75, unwritten_us = 0.18;
constexpr ColdReads column_sum{0.6, 0.5};

/// No kernel that was measured took more than so many times as long, or less than so much of it.
constexpr double longest = 2.5, shortest = 0.6;

ColdReads reads_of(const KernelQuery& query) {
  if (!query.grid) return query.name.starts_with("conv_") ? convolution : product;
  const std::string_view base = parse_signature(query.name).base;
  const auto found =
      std::ranges::find_if(launches, [&](const Family& it) { return base.starts_with(it.base); });
  return found != launches.end() ? found->reads : other_launch;
}

struct WithColdOperands {
  KernelCostModel warm;
  GpuModel gpu;
  [[nodiscard]] std::optional<CostEstimate> estimate(const KernelQuery& query) const {
    auto found = warm.estimate(query);
    const auto is = [&](CostSource source) { return found->source == source; };
    if (found && !detail::tells_code(query) && !is(CostSource::grid) && !is(CostSource::database))
      found->duration += cold_time(query, found->duration, gpu);
    return found;
  }
};

}  // namespace

Duration cold_time(const KernelQuery& query, Duration warm, const GpuModel& gpu) {
  const KernelQuery::Operands& operands = query.operands;
  if (operands.read <= 0.0) return Duration{};
  const KernelWork work = query.grid ? describe(query) : KernelWork{};
  const bool adds_partial_sums = work.partial_trips > 0.0;
  const ColdReads reads = adds_partial_sums ? column_sum : reads_of(query);
  // What runs again and again finds what it left, unless it goes through more than the cache holds.
  const double footprint = reads.measured_footprint * (operands.read + operands.written);
  const double missing_when_warm = operands.read * L2Cache::missing_share(footprint, gpu.l2);
  double more = std::min(operands.cold, operands.read) - missing_when_warm;
  // What the kernel before has written is read from the cache, and has to be written back
  // meanwhile: of large operands that saves nothing (-0.1 to +0.2 of the bytes' time, both GPUs).
  if (more < 0.0 && !reads.saves) more = 0.0;
  const double share = more / operands.read;
  const double trips = adds_partial_sums ? 0.0 : work.round_trips * waves_on(work, gpu.sm_count);
  double latency_us = share * (reads.first_us + round_trip_us * trips);
  if (adds_partial_sums) latency_us += partial_sums_us + unwritten_us * work.unwritten_loads;
  const double seconds = 1e-6 * latency_us + reads.of_bandwidth * std::max(0.0, more) /
                                                 gpu.memory_bandwidth.bytes_per_second();
  const double alone = to_seconds(warm);
  const double difference = std::clamp(seconds, (shortest - 1.0) * alone, (longest - 1.0) * alone);
  const Duration size = duration_from_seconds(std::abs(difference));
  return difference < 0.0 ? -size : size;
}

KernelCostModel with_cold_operands(KernelCostModel warm, const GpuModel& gpu) {
  return WithColdOperands{std::move(warm), gpu};
}

}  // namespace phantora
