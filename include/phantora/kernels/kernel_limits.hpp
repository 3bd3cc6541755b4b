#pragma once

#include <phantora/kernels/gpu_model.hpp>
#include <phantora/kernels/kernel_cost_model.hpp>

namespace phantora {

/// `estimate`, and where it does not say what the kernel takes of `gpu`, what follows from the
/// query: by its operation, its launch and the bytes that it moves in the estimated time. The
/// models of this library do so; a model of one's own may.
CostEstimate with_limits(CostEstimate estimate, const KernelQuery& query, const GpuModel& gpu);

}  // namespace phantora
