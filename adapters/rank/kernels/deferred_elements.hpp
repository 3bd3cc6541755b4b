#pragma once

#include "rank/kernels/elementwise_function.hpp"
#include "rank/kernels/kernel_effect.hpp"
#include "rank/kernels/offset_calculator.hpp"
#include "rank/memory/deferred.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace phantora::rank {

/// An operand of an elementwise kernel, and how its elements lie.
struct ElementsOperand {
  std::byte* address = nullptr;
  std::size_t extent = 0;  ///< bytes
  ElementType type{};
};

/// The integers that an elementwise kernel makes, when they are asked for; nullptr where that is
/// not possible: the arguments are not known throughout, or are deferred themselves and far apart
/// along the result, or the result's elements do not lie side by side.
/// @param operands  the result, then the arguments.
/// @param offsets   in bytes; not valid: the elements of each lie side by side.
/// @param function  lives until the process ends.
std::shared_ptr<const Deferred> defer_elements(std::span<const ElementsOperand> operands,
                                               std::uint32_t numel, const OffsetCalculator& offsets,
                                               const ElementwiseFunction& function,
                                               std::span<const std::byte> state);

}  // namespace phantora::rank
