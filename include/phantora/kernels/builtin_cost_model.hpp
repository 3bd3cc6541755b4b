#pragma once

#include <phantora/kernels/gpu_model.hpp>
#include <phantora/kernels/kernel_cost_model.hpp>
#include <phantora/kernels/kernel_data.hpp>

#include <string_view>
#include <vector>

namespace phantora {

/// The measurements behind builtin_cost_model(), of "h200" or "h100": parts of the library, unless
/// $PHANTORA_DATA names a folder with other h200.tsv and h100.tsv. Read once per process, by the
/// first call.
/// @throws ConfigError if that file cannot be read.
const std::vector<Measurement>& builtin_measurements(std::string_view gpu = "h200");

/// Time between the end of a kernel and the start of the next on the same stream, when the host is
/// ahead: mean of the 1,639 such gaps in a trace of two GPT-2 steps on an H200 (0.9 us at least,
/// 1.15 us in the median). Estimates of library calls hold the gaps between their own kernels.
inline constexpr Duration launch_gap{1'400'000};

/// The kernel times that come with the library, for any GPU that gpu_model() knows.
///
/// The H200 and the H100 were measured: exact hits first, then FittedModel, then Roofline. What
/// nobody measured on the H100, and all that the others do, takes the H200's kernels to that GPU;
/// the source of those estimates is CostSource::roofline, and their standard deviations are wider
/// by what that loses on an H100. What a query says of its operands in the L2 cache is added
/// (operand_cache.hpp).
/// Every query that check() lets pass is answered, and never with zero.
///
/// Made once per process for each GPU as gpu_model() describes it, and then copied, which costs
/// nothing; made anew for a GPU that was changed. Thread-safe.
///
/// @throws ConfigError as builtin_measurements().
KernelCostModel builtin_cost_model(const GpuModel& gpu);

}  // namespace phantora
