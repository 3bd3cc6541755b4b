#pragma once

#include "rank/kernels/families/elementwise_function.hpp"
#include "rank/kernels/families/functor.hpp"

namespace phantora::rank {

/// What a lambda computes, by the function that it is written in and its number there.
/// @return nullopt for lambdas whose meaning is not known here.
std::optional<ElementwiseFunction> lambda_function(const Functor& lambda);

}  // namespace phantora::rank
