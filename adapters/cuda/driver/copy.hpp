#pragma once

#include "rank/kernels/kernel_launch.hpp"

#include <cstddef>

namespace phantora::driver {

/// A copy of `slices` slices of `rows` rows of `width` bytes; a plain copy is one row.
struct Copy {
  void* destination = nullptr;
  std::size_t destination_pitch = 0;
  const void* source = nullptr;
  std::size_t source_pitch = 0;
  std::size_t width = 0;
  std::size_t rows = 1;
  /// Of a graph's node: host memory is read and written when the stream gets there, page-locked or
  /// not, and the call never waits.
  bool of_graph = false;
  std::size_t slices = 1;
  std::size_t destination_slice = 0, source_slice = 0;  ///< bytes from one slice to the next
};
inline std::size_t bytes_of(const Copy& copy) { return copy.width * copy.rows * copy.slices; }

/// Which way a copy goes, by where its addresses lie.
rank::CopyKind kind_of(const void* destination, const void* source);

/// Whether the device may touch so many bytes from `address` on: they lie in one allocation, or one
/// piece of host memory that CUDA knows.
bool reaches(const void* address, std::size_t bytes);

/// Copies in `stream`. With `blocking`, returns when done if host memory takes part, as cudaMemcpy
/// does; a copy between devices stays asynchronous.
void copy(const Copy& copy, bool blocking, rank::Stream& stream);

/// Sets `rows` rows of `width` bytes to the `unit`-byte pattern `value`.
void fill(void* destination, std::size_t pitch, unsigned value, std::size_t unit, std::size_t width,
          std::size_t rows, rank::Stream& stream);

}  // namespace phantora::driver
