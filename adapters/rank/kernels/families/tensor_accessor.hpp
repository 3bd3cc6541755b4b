#pragma once

#include "rank/kernels/kernel_effect.hpp"

#include <cstddef>
#include <cstdint>

namespace phantora::rank {

/// Elements of PyTorch's PackedTensorAccessor32 or 64 of so many dimensions at `parameter`: a
/// pointer, then the sizes, then the strides. 0 if it is none.
inline std::size_t accessor_elements(const Arguments& a, std::size_t parameter,
                                     std::size_t dimensions) {
  const std::size_t bytes = a.bytes(parameter).size();
  const bool narrow = bytes == 8 + 8 * dimensions;
  if (!narrow && bytes != 8 + 16 * dimensions) return 0;
  std::size_t count = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    count *= narrow ? std::size_t{a.get<std::uint32_t>(parameter, 8 + 4 * i)}
                    : a.get<std::size_t>(parameter, 8 + 8 * i);
  }
  return count;
}

}  // namespace phantora::rank
