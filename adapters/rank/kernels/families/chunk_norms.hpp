#pragma once

#include "rank/kernels/families/tensor_lists.hpp"
#include "rank/kernels/kernel_effect.hpp"

#include <memory>
#include <optional>

/// Norms and maxima of many tensors, which take two kernels.
namespace phantora::rank {

/// Norm or maximum of each chunk, for a second kernel to fold:
/// (lists, functor, results, chunks per tensor) or (lists, functor, results, offsets).
/// @param functor  template arguments: <T, norm, out> of LpNormFunctor, <T> of LpMaxFunctor
std::optional<Effect> chunk_norms(const TensorLists& lists, bool maximum, const NameParts& functor,
                                  const Arguments& arguments);

/// lpnorm_cleanup<T, norm, out[, apply root], partial> and lpmax_cleanup<T>: fold each tensor's
/// chunks. (results, addresses, chunks per tensor), or (results, addresses, offsets, first tensor).
std::unique_ptr<Meaning> read_norm_cleanup(const TemplateName& kernel);

}  // namespace phantora::rank
