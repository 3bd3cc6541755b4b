#pragma once

#include <phantora/kernels/gpu_model.hpp>
#include <phantora/kernels/kernel_cost_model.hpp>

namespace phantora {

/// Refuses a query that cannot be priced as it is meant: keys that its operation does not have,
/// sizes that are missing, not finite, negative or zero, a kernel that tells nothing of its work,
/// arithmetic that `gpu` has no units for. FittedModel and Roofline check what they are asked.
///
/// @throws CostError naming the kernel, the key and what was expected.
void check(const KernelQuery& query, const GpuModel& gpu);

}  // namespace phantora
