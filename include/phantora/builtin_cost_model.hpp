#pragma once

#include <phantora/gpu_model.hpp>
#include <phantora/kernel_cost_model.hpp>

#include <filesystem>

namespace phantora {

/// Where the kernel data lies: $PHANTORA_DATA if set, else the source tree that the library was
/// built from, else share/phantora beside the running program or where the library was installed.
/// @throws ConfigError naming the places that were tried.
std::filesystem::path data_directory();

/// Time between the end of a kernel and the start of the next on the same stream, when the host is
/// ahead: mean of the 1,639 such gaps in a trace of two GPT-2 steps on an H200 (0.9 us at least,
/// 1.15 us in the median). Estimates of library calls hold the gaps between their own kernels.
inline constexpr Duration launch_gap{1'400'000};

/// The kernel times that come with the library, for any GPU that gpu_model() knows.
///
/// The H200 was measured: exact hits first, then FittedModel, then Roofline. The others take the
/// H200's inefficiencies on their own roofline; the source of those estimates is
/// CostSource::roofline. Every query is answered, and never with zero.
///
/// @throws ConfigError if the data cannot be found or read.
KernelCostModel builtin_cost_model(const GpuModel& gpu);

}  // namespace phantora
