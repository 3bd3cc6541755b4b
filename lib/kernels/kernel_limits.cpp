#include <phantora/kernels/kernel_limits.hpp>
#include <phantora/kernels/kernel_work.hpp>
#include <phantora/kernels/roofline.hpp>

#include <algorithm>
#include <cmath>

namespace phantora {

namespace {

KernelLimit limit_of(const KernelQuery& query, const KernelWork& work, const GpuModel& gpu) {
  if (query.arithmetic == Arithmetic::none) return work.limit;
  const double arithmetic = work.flops / peak_rate(gpu, work.arithmetic).per_second();
  const double memory = work.bytes / gpu.memory_bandwidth.bytes_per_second();
  return arithmetic > memory ? KernelLimit::arithmetic : work.limit;
}

/// Blocks over resident blocks, as limited by threads (2048 per SM on every GPU we model).
double demand_of(const KernelQuery& query, const GpuModel& gpu) {
  if (!query.grid) return 1.0;
  const double resident = std::max(1.0, std::floor(2048.0 / query.block.count())) * gpu.sm_count;
  return std::clamp(query.grid->count() / resident, 1.0 / (16.0 * gpu.sm_count), 1.0);
}

double memory_share_of(const KernelWork& work, Duration duration, const GpuModel& gpu) {
  if (work.path != DataPath::device_memory || duration <= Duration{}) return 0.0;
  return std::min(1.0, (work.bytes + work.converted_bytes) /
                           (to_seconds(duration) * gpu.memory_bandwidth.bytes_per_second()));
}

/// What its tensor operations and its memory traffic draw. Arithmetic outside of the tensor cores
/// is not known apart from them.
double power_share_of(const KernelWork& work, double memory_share, Duration duration,
                      const GpuModel& gpu) {
  if (!on_tensor_cores(work.arithmetic) || duration <= Duration{})
    return gpu.memory_power * memory_share;
  const double product = 2.0 * work.m * work.n * work.k * work.batch * work.repeats;
  const double rate = (work.flops > 0.0 ? work.flops : product) / to_seconds(duration);
  const double of_peak = std::min(1.0, rate / peak_rate(gpu, work.arithmetic).per_second());
  return gpu.tensor_power * of_peak + gpu.memory_power * memory_share;
}

}  // namespace

CostEstimate with_limits(CostEstimate estimate, const KernelQuery& query, const GpuModel& gpu) {
  const KernelWork work = describe(query);
  if (!estimate.limit) estimate.limit = limit_of(query, work, gpu);
  if (!estimate.demand) estimate.demand = demand_of(query, gpu);
  if (!estimate.memory_share) estimate.memory_share = memory_share_of(work, estimate.duration, gpu);
  if (!estimate.power_share) {
    estimate.power_share = power_share_of(work, *estimate.memory_share, estimate.duration, gpu);
  }
  return estimate;
}

}  // namespace phantora
