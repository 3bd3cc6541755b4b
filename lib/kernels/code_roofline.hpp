#pragma once

#include <phantora/kernels/gpu_model.hpp>
#include <phantora/kernels/kernel_cost_model.hpp>

/// Kernels that are known by their machine code alone. Private to the kernels folder.
namespace phantora::detail {

/// Whether the query says what the launch's code does (`warp_instructions` and those beside it, see
/// lib/kernels/README.md).
bool tells_code(const KernelQuery& query);

/// Bytes of the threads' stacks, where the compiler puts registers aside, that go to and from
/// device memory: all of them where the stacks of the blocks that run at a time are more than the
/// L2 cache keeps. Expects tells_code().
double stack_bytes_in_memory(const KernelQuery& query, const GpuModel& gpu);

/// Seconds that it takes, likely: the busiest unit at the share of its peak that such kernels
/// attain, or the warps of an SM one after the other, where they are too few to hide what each
/// waits for. `memory_seconds`: for its bytes. Expects tells_code().
double code_seconds(const KernelQuery& query, const GpuModel& gpu, double memory_seconds);

}  // namespace phantora::detail
