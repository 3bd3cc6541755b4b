#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <cuda.h>

namespace phantora::driver {

/// What an array is made of, as the driver API says it.
struct ArrayShape {
  CUarray_format format = CU_AD_FORMAT_FLOAT;
  unsigned channels = 1;
  std::size_t width = 0, height = 0, depth = 0;  ///< in elements; 0 where it has fewer dimensions
  unsigned flags = 0;  ///< CUDA_ARRAY3D_..., cudaArray... has the same bits
};

/// A CUDA array: memory whose layout is the GPU's own affair. Here its rows lie one after the
/// other. Its address is the program's cudaArray_t and CUarray.
struct Array {
  ArrayShape shape{};
  int device = 0;
  std::size_t element = 0;  ///< bytes
  std::byte* base = nullptr;
  bool level = false;  ///< of a mipmapped array, and freed with it

  [[nodiscard]] std::size_t rows() const { return shape.height ? shape.height : 1; }
  [[nodiscard]] std::size_t slices() const { return shape.depth ? shape.depth : 1; }
  [[nodiscard]] std::size_t pitch() const { return shape.width * element; }
  [[nodiscard]] std::size_t bytes() const { return pitch() * rows() * slices(); }
};

/// The address of one is the program's cudaMipmappedArray_t and CUmipmappedArray.
struct MipmappedArray {
  std::vector<Array> levels{};
};

/// Bytes of one channel; nothing for formats that are not rows of elements (block-compressed ones,
/// several planes), which are refused.
std::optional<std::size_t> channel_bytes(CUarray_format format);

enum class ArrayStatus : std::uint8_t { made, bad_shape, no_memory, unsupported };

/// Memory for an array on the current device.
ArrayStatus create(Array*& array, const ArrayShape& shape);
ArrayStatus create(MipmappedArray*& array, const ArrayShape& shape, unsigned levels);
/// False if there is no such array.
bool destroy(Array* array);
bool destroy(MipmappedArray* array);
/// The array that a handle names, as long as it lives, or nullptr.
const Array* array_of(const void* handle);
const MipmappedArray* mipmapped_array_of(const void* handle);

}  // namespace phantora::driver
