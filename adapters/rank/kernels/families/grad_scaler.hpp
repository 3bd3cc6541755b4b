#pragma once

#include "rank/kernels/families/tensor_lists.hpp"
#include "rank/kernels/kernel_effect.hpp"

#include <memory>

/// The kernels of torch.amp.GradScaler.
namespace phantora::rank {

/// Multiplies by *inverse_scale where that is not 1, and sets *found_inf to 1 where a
/// value is not finite. The lambda's captures: found_inf and inverse_scale, and its host twin.
Effect unscale(const TensorLists& lists, ElementType type, const Arguments& arguments);

/// amp_update_scale_cuda_kernel(scale, growth tracker, found_inf, growth, backoff, interval)
std::unique_ptr<Meaning> read_update_scale();

}  // namespace phantora::rank
