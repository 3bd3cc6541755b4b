#pragma once

#include "rank/kernels/kernel_effect.hpp"

#include <boost/container/small_vector.hpp>

#include <cstddef>
#include <cstdint>

namespace phantora::rank {

/// PyTorch's OffsetCalculator<operands, unsigned> in a kernel's parameters: dims, 25 dividers of
/// 12 bytes (divisor first), 25 x operands strides (ATen/cuda/detail/OffsetCalculator.cuh).
struct OffsetCalculator {
  static constexpr std::size_t max_dims = 25;
  static constexpr std::size_t bytes(std::size_t operands) {
    return 4 + 12 * max_dims + 4 * max_dims * operands;
  }

  /// dims is out of range when there is no calculator at `offset`.
  static OffsetCalculator read(const Arguments& arguments, std::size_t parameter,
                               std::size_t offset, std::size_t operands) {
    OffsetCalculator c;
    c.operands = operands;
    const auto dims = arguments.get<std::int32_t>(parameter, offset);
    if (dims < 0 || dims > static_cast<std::int32_t>(max_dims)) return c;
    c.valid = true;
    for (std::size_t d = 0; d < static_cast<std::size_t>(dims); ++d) {
      c.sizes.push_back(arguments.get<std::uint32_t>(parameter, offset + 4 + 12 * d));
      for (std::size_t o = 0; o < operands; ++o) {
        // Strides may be negative: they wrap in 32 bits, and so does the sum.
        c.strides.push_back(arguments.get<std::uint32_t>(
            parameter, offset + 4 + 12 * max_dims + 4 * (d * operands + o)));
      }
    }
    return c;
  }

  /// Offset of element `index` of an operand, in the units of the strides.
  [[nodiscard]] std::size_t offset(std::uint32_t index, std::size_t operand) const {
    std::uint32_t at = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      at += index % sizes[d] * strides[d * operands + operand];
      index /= sizes[d];
    }
    return at;
  }
  /// One past the greatest offset, less the element itself, for strides >= 0.
  [[nodiscard]] std::size_t last(std::size_t operand) const {
    std::size_t at = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      at += std::size_t{sizes[d] - 1} * strides[d * operands + operand];
    }
    return at;
  }
  /// How many different elements of an operand there are: those of stride 0 are one.
  [[nodiscard]] double distinct(std::size_t operand) const {
    double n = 1;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      if (strides[d * operands + operand] != 0) n *= sizes[d];
    }
    return n;
  }
  /// How many elements side by side have the same one of an operand.
  [[nodiscard]] double run(std::size_t operand) const {
    double n = 1;
    for (std::size_t d = 0; d < sizes.size() && strides[d * operands + operand] == 0; ++d)
      n *= sizes[d];
    return n;
  }

  bool valid = false;
  std::size_t operands = 0;
  // With room for the tensors of most launches.
  boost::container::small_vector<std::uint32_t, 4> sizes;
  boost::container::small_vector<std::uint32_t, 12> strides;  ///< sizes.size() x operands
};

}  // namespace phantora::rank
