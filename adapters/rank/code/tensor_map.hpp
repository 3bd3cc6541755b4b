#pragma once

#include <cstddef>
#include <cstdint>

namespace phantora::rank {

/// A CUtensorMap, 128 bytes that a kernel gets by value, as ours are. The address stands first, so
/// that whoever reads a launch's arguments finds which memory the kernel reaches through the map.
struct TensorMap {
  static constexpr std::size_t most_dimensions = 5;

  std::uint64_t address;
  std::uint32_t element_bits;
  std::uint32_t rank;  ///< 1 to 5; 0: no map
  std::uint64_t sizes[most_dimensions];
  std::uint64_t strides[most_dimensions - 1];  ///< in bytes, of all dimensions but the first
  std::uint32_t box[most_dimensions];          ///< 0: of im2col mode
};
inline constexpr std::size_t tensor_map_bytes = 128;
static_assert(sizeof(TensorMap) <= tensor_map_bytes);

}  // namespace phantora::rank
