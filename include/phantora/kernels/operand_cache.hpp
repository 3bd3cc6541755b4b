#pragma once

#include <phantora/kernels/gpu_model.hpp>
#include <phantora/kernels/kernel_cost_model.hpp>

namespace phantora {

/// How much longer than `warm` a kernel takes whose operands lie in memory and not in the L2 cache,
/// `warm` being its time where it runs again and again. Less than zero for kernels that were only
/// measured among others, where the cache holds more than it did then. Zero where the query does
/// not tell.
///
/// What a kernel reads from memory costs the way there once, as often again as its threads wait
/// for the next they read, and the bandwidth; each by the kind of kernel, as measured on an H200
/// (lib/kernels/README.md).
Duration cold_time(const KernelQuery& query, Duration warm, const GpuModel& gpu);

/// Adds cold_time() to what `warm` says of kernels by the library's measurements, all of which ran
/// again and again. What it says by a kernel's code or a database of one's own holds that already,
/// and of a launch known by its grid nothing can be said.
KernelCostModel with_cold_operands(KernelCostModel warm, const GpuModel& gpu);

}  // namespace phantora
