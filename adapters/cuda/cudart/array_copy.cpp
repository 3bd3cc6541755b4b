// Copies to, from and between arrays and of boxes of three dimensions.
#include "cuda/cudart/stream_argument.hpp"
#include "cuda/driver/array.hpp"
#include "cuda/driver/copy.hpp"
#include "cuda/driver/host_memory.hpp"
#include "rank/memory/device_memory.hpp"

#include <optional>

using namespace phantora::cudart;
namespace driver = phantora::driver;
namespace rank = phantora::rank;
using driver::Array;

namespace {

/// One side of a copy: where its first byte is, and how far it is to the next row and slice.
struct Side {
  std::byte* address = nullptr;
  std::size_t pitch = 0, slice = 0;
};

/// Within an array; `x` counts bytes. Nothing where the box does not lie within it.
std::optional<Side> side_of(const Array& array, std::size_t x, std::size_t y, std::size_t z,
                            const cudaExtent& box) {
  const auto fits = [](std::size_t at, std::size_t extent, std::size_t whole) {
    return extent <= whole && at <= whole - extent;
  };
  if (!fits(x, box.width, array.pitch()) || !fits(y, box.height, array.rows()) ||
      !fits(z, box.depth, array.slices())) {
    return std::nullopt;
  }
  const std::size_t slice = array.pitch() * array.rows();
  return Side{array.base + z * slice + y * array.pitch() + x, array.pitch(), slice};
}

Side side_of(const cudaPitchedPtr& memory, const cudaPos& at) {
  const std::size_t slice = memory.pitch * memory.ysize;
  return {static_cast<std::byte*>(memory.ptr) + at.z * slice + at.y * memory.pitch + at.x,
          memory.pitch, slice};
}

/// Whether memory at `address` may be what `kind` says of it.
bool on_device(const void* address) {
  return rank::is_device_address(address) || driver::pinned(address);
}

cudaError_t copy(const Side& to, const Side& from, const cudaExtent& box, cudaMemcpyKind kind,
                 bool blocking, cudaStream_t stream) {
  if (box.width == 0 || box.height == 0 || box.depth == 0) return cudaSuccess;
  if (!to.address || !from.address) return cudaErrorInvalidValue;
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if ((to_device && !on_device(to.address)) || (from_device && !on_device(from.address))) {
    return cudaErrorInvalidValue;
  }
  if (box.height > 1 && (box.width > to.pitch || box.width > from.pitch)) {
    return cudaErrorInvalidPitchValue;
  }
  driver::copy({.destination = to.address,
                .destination_pitch = to.pitch,
                .source = from.address,
                .source_pitch = from.pitch,
                .width = box.width,
                .rows = box.height,
                .slices = box.depth,
                .destination_slice = to.slice,
                .source_slice = from.slice},
               blocking, stream_of(stream));
  return cudaSuccess;
}

Api cost(bool blocking) { return blocking ? Api::memcpy_d2h_pageable : Api::memcpy_async_d2d; }

/// A rectangle between an array and memory; `to_array` says which way.
cudaError_t rectangle(cudaArray_const_t handle, std::size_t x, std::size_t y, const void* memory,
                      std::size_t pitch, std::size_t width, std::size_t height, bool to_array,
                      cudaMemcpyKind kind, bool blocking, cudaStream_t stream,
                      const char* name = __builtin_FUNCTION()) {
  return device_entry({cost(blocking), name}, [&] {
    const Array* const array = driver::array_of(handle);
    if (!array) return cudaErrorInvalidResourceHandle;
    const cudaExtent box{width, height, 1};
    const auto inside = side_of(*array, x, y, 0, box);
    if (!inside) return cudaErrorInvalidValue;
    const Side outside{static_cast<std::byte*>(const_cast<void*>(memory)), pitch, 0};
    return to_array ? copy(*inside, outside, box, kind, blocking, stream)
                    : copy(outside, *inside, box, kind, blocking, stream);
  });
}

/// `bytes` of an array's rows, one after the other from (x, y) on, to or from memory without gaps.
cudaError_t bytes_of_rows(cudaArray_const_t handle, std::size_t x, std::size_t y,
                          const void* memory, std::size_t bytes, bool to_array, cudaMemcpyKind kind,
                          bool blocking, cudaStream_t stream,
                          const char* name = __builtin_FUNCTION()) {
  return device_entry({cost(blocking), name}, [&] {
    const Array* const array = driver::array_of(handle);
    if (!array) return cudaErrorInvalidResourceHandle;
    if (x >= array->pitch() || y >= array->rows()) return cudaErrorInvalidValue;
    const std::size_t first = y * array->pitch() + x;
    if (bytes > array->pitch() * array->rows() - first) return cudaErrorInvalidValue;
    // An array's rows have no gaps here.
    const Side inside{array->base + first, bytes, 0};
    const Side outside{static_cast<std::byte*>(const_cast<void*>(memory)), bytes, 0};
    const cudaExtent box{bytes, 1, 1};
    return to_array ? copy(inside, outside, box, kind, blocking, stream)
                    : copy(outside, inside, box, kind, blocking, stream);
  });
}

cudaError_t between_arrays(cudaArray_t to, std::size_t to_x, std::size_t to_y,
                           cudaArray_const_t from, std::size_t from_x, std::size_t from_y,
                           const cudaExtent& box, cudaMemcpyKind kind,
                           const char* name = __builtin_FUNCTION()) {
  return device_entry({Api::memcpy_async_d2d, name}, [&] {
    const Array* const destination = driver::array_of(to);
    const Array* const source = driver::array_of(from);
    if (!destination || !source) return cudaErrorInvalidResourceHandle;
    const auto one = side_of(*destination, to_x, to_y, 0, box);
    const auto other = side_of(*source, from_x, from_y, 0, box);
    if (!one || !other) return cudaErrorInvalidValue;
    return copy(*one, *other, box, kind, false, nullptr);
  });
}

/// cudaMemcpy3D: with an array on either side, widths and positions count its elements.
template <class Parameters>
cudaError_t box_copy(const Parameters* p, cudaMemcpyKind kind, bool blocking, cudaStream_t stream,
                     const char* name = __builtin_FUNCTION()) {
  return device_entry({cost(blocking), name}, [&] {
    if (!p || (p->srcArray && p->srcPtr.ptr) || (p->dstArray && p->dstPtr.ptr)) {
      return cudaErrorInvalidValue;
    }
    const Array* const from = p->srcArray ? driver::array_of(p->srcArray) : nullptr;
    const Array* const to = p->dstArray ? driver::array_of(p->dstArray) : nullptr;
    if ((p->srcArray && !from) || (p->dstArray && !to)) return cudaErrorInvalidResourceHandle;
    if (from && to && from->element != to->element) return cudaErrorInvalidValue;
    const std::size_t unit = from ? from->element : to ? to->element : 1;
    const cudaExtent box{p->extent.width * unit, p->extent.height, p->extent.depth};
    const auto source =
        from ? side_of(*from, p->srcPos.x * unit, p->srcPos.y, p->srcPos.z, box)
             : std::optional{side_of(p->srcPtr, {p->srcPos.x * unit, p->srcPos.y, p->srcPos.z})};
    const auto destination =
        to ? side_of(*to, p->dstPos.x * unit, p->dstPos.y, p->dstPos.z, box)
           : std::optional{side_of(p->dstPtr, {p->dstPos.x * unit, p->dstPos.y, p->dstPos.z})};
    if (!source || !destination) return cudaErrorInvalidValue;
    return copy(*destination, *source, box, kind, blocking, stream);
  });
}

cudaError_t set_box(const cudaPitchedPtr& memory, int value, const cudaExtent& box,
                    cudaStream_t stream, const char* name = __builtin_FUNCTION()) {
  return device_entry({Api::memset_async, name}, [&] {
    if (box.width == 0 || box.height == 0 || box.depth == 0) return cudaSuccess;
    if (!on_device(memory.ptr)) return cudaErrorInvalidValue;
    if (box.width > memory.pitch || box.height > memory.ysize) return cudaErrorInvalidValue;
    // Slices that are set as a whole are rows like others; of the others, each is an operation.
    const bool whole = box.height == memory.ysize;
    const std::size_t rows = whole ? box.height * box.depth : box.height;
    for (std::size_t slice = 0; slice < (whole ? 1 : box.depth); ++slice) {
      driver::fill(static_cast<std::byte*>(memory.ptr) + slice * memory.pitch * memory.ysize,
                   memory.pitch, static_cast<unsigned>(value) & 0xffu, 1, box.width, rows,
                   stream_of(stream));
    }
    return cudaSuccess;
  });
}

}  // namespace

PHANTORA_EXPORT cudaError_t cudaMemcpy2DToArray(cudaArray_t array, std::size_t x, std::size_t y,
                                                const void* source, std::size_t pitch,
                                                std::size_t width, std::size_t height,
                                                cudaMemcpyKind kind) {
  return rectangle(array, x, y, source, pitch, width, height, true, kind, true, nullptr);
}

PHANTORA_EXPORT cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t array, std::size_t x,
                                                     std::size_t y, const void* source,
                                                     std::size_t pitch, std::size_t width,
                                                     std::size_t height, cudaMemcpyKind kind,
                                                     cudaStream_t stream) {
  return rectangle(array, x, y, source, pitch, width, height, true, kind, false, stream);
}

PHANTORA_EXPORT cudaError_t cudaMemcpy2DFromArray(void* destination, std::size_t pitch,
                                                  cudaArray_const_t array, std::size_t x,
                                                  std::size_t y, std::size_t width,
                                                  std::size_t height, cudaMemcpyKind kind) {
  return rectangle(array, x, y, destination, pitch, width, height, false, kind, true, nullptr);
}

PHANTORA_EXPORT cudaError_t cudaMemcpy2DFromArrayAsync(void* destination, std::size_t pitch,
                                                       cudaArray_const_t array, std::size_t x,
                                                       std::size_t y, std::size_t width,
                                                       std::size_t height, cudaMemcpyKind kind,
                                                       cudaStream_t stream) {
  return rectangle(array, x, y, destination, pitch, width, height, false, kind, false, stream);
}

PHANTORA_EXPORT cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t to, std::size_t to_x,
                                                     std::size_t to_y, cudaArray_const_t from,
                                                     std::size_t from_x, std::size_t from_y,
                                                     std::size_t width, std::size_t height,
                                                     cudaMemcpyKind kind) {
  return between_arrays(to, to_x, to_y, from, from_x, from_y, {width, height, 1}, kind);
}

PHANTORA_EXPORT cudaError_t cudaMemcpyToArray(cudaArray_t array, std::size_t x, std::size_t y,
                                              const void* source, std::size_t bytes,
                                              cudaMemcpyKind kind) {
  return bytes_of_rows(array, x, y, source, bytes, true, kind, true, nullptr);
}

PHANTORA_EXPORT cudaError_t cudaMemcpyToArrayAsync(cudaArray_t array, std::size_t x, std::size_t y,
                                                   const void* source, std::size_t bytes,
                                                   cudaMemcpyKind kind, cudaStream_t stream) {
  return bytes_of_rows(array, x, y, source, bytes, true, kind, false, stream);
}

PHANTORA_EXPORT cudaError_t cudaMemcpyFromArray(void* destination, cudaArray_const_t array,
                                                std::size_t x, std::size_t y, std::size_t bytes,
                                                cudaMemcpyKind kind) {
  return bytes_of_rows(array, x, y, destination, bytes, false, kind, true, nullptr);
}

PHANTORA_EXPORT cudaError_t cudaMemcpyFromArrayAsync(void* destination, cudaArray_const_t array,
                                                     std::size_t x, std::size_t y,
                                                     std::size_t bytes, cudaMemcpyKind kind,
                                                     cudaStream_t stream) {
  return bytes_of_rows(array, x, y, destination, bytes, false, kind, false, stream);
}

PHANTORA_EXPORT cudaError_t cudaMemcpyArrayToArray(cudaArray_t to, std::size_t to_x,
                                                   std::size_t to_y, cudaArray_const_t from,
                                                   std::size_t from_x, std::size_t from_y,
                                                   std::size_t bytes, cudaMemcpyKind kind) {
  return between_arrays(to, to_x, to_y, from, from_x, from_y, {bytes, 1, 1}, kind);
}

PHANTORA_EXPORT cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* p) {
  return box_copy(p, p ? p->kind : cudaMemcpyDefault, true, nullptr);
}

PHANTORA_EXPORT cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* p, cudaStream_t stream) {
  return box_copy(p, p ? p->kind : cudaMemcpyDefault, false, stream);
}

PHANTORA_EXPORT cudaError_t cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms* p) {
  return box_copy(p, cudaMemcpyDefault, false, nullptr);
}

PHANTORA_EXPORT cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* p,
                                                  cudaStream_t stream) {
  return box_copy(p, cudaMemcpyDefault, false, stream);
}

PHANTORA_EXPORT cudaError_t cudaMemset3D(cudaPitchedPtr memory, int value, cudaExtent box) {
  return set_box(memory, value, box, nullptr);
}

PHANTORA_EXPORT cudaError_t cudaMemset3DAsync(cudaPitchedPtr memory, int value, cudaExtent box,
                                              cudaStream_t stream) {
  return set_box(memory, value, box, stream);
}
