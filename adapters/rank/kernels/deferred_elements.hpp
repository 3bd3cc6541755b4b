#pragma once

#include "rank/kernels/families/elementwise_function.hpp"
#include "rank/kernels/families/offset_calculator.hpp"
#include "rank/kernels/kernel_effect.hpp"
#include "rank/memory/deferred.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace phantora::rank {

/// The integers that an elementwise kernel makes, when they are asked for; nullptr where that is
/// not possible: the arguments are not known throughout, or are deferred themselves and far apart
/// along the result, or the result's elements do not lie side by side.
/// @param operands  the result, then the arguments, each with its type.
/// @param offsets   in bytes; not valid: the elements of each lie side by side.
/// @param function  lives until the process ends.
/// @param launch    all that the elements hang on but function and arguments.
std::shared_ptr<const Deferred> defer_elements(const Operands& operands, std::uint32_t numel,
                                               const OffsetCalculator& offsets,
                                               const ElementwiseFunction& function,
                                               std::span<const std::byte> state,
                                               std::span<const std::uint32_t> launch);

}  // namespace phantora::rank
