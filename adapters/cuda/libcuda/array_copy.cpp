// Copies of rectangles and boxes, in memory and in arrays, and fills of rectangles.
#include "cuda/driver/array.hpp"
#include "cuda/driver/copy.hpp"
#include "cuda/libcuda/entry.hpp"
#include "rank/memory/device_memory.hpp"

#include <optional>

using namespace phantora::libcuda;
namespace driver = phantora::driver;
namespace rank = phantora::rank;

namespace {

/// One side of a copy: where its first byte is, and how far it is to the next row and slice.
struct Side {
  std::byte* address = nullptr;
  std::size_t pitch = 0, slice = 0;
};

struct Box {
  std::size_t width, height, depth;  ///< width in bytes
};
struct Place {
  std::size_t x, y, z;  ///< x in bytes
};

std::optional<Side> within(const driver::Array& array, const Place& at, const Box& box) {
  const auto fits = [](std::size_t first, std::size_t extent, std::size_t whole) {
    return extent <= whole && first <= whole - extent;
  };
  if (!fits(at.x, box.width, array.pitch()) || !fits(at.y, box.height, array.rows()) ||
      !fits(at.z, box.depth, array.slices())) {
    return std::nullopt;
  }
  const std::size_t slice = array.pitch() * array.rows();
  return Side{array.base + at.z * slice + at.y * array.pitch() + at.x, array.pitch(), slice};
}

std::optional<Side> side_of(CUmemorytype type, const void* host, CUdeviceptr device, CUarray array,
                            std::size_t pitch, std::size_t height, const Place& at,
                            const Box& box) {
  if (type == CU_MEMORYTYPE_ARRAY) {
    const driver::Array* const known = driver::array_of(array);
    return known ? within(*known, at, box) : std::nullopt;
  }
  // Of memory in one address space, cuMemcpy2D's documentation takes the device address.
  const void* const base = type == CU_MEMORYTYPE_HOST ? host : pointer(device);
  if (!base) return std::nullopt;
  if (pitch == 0) pitch = box.width;
  const std::size_t slice = pitch * (height ? height : box.height);
  auto* const first = static_cast<std::byte*>(const_cast<void*>(base));
  return Side{first + at.z * slice + at.y * pitch + at.x, pitch, slice};
}

CUresult copy(const std::optional<Side>& to, const std::optional<Side>& from, const Box& box,
              bool blocking, CUstream stream) {
  if (!to || !from) return CUDA_ERROR_INVALID_VALUE;
  if (box.height > 1 && (box.width > to->pitch || box.width > from->pitch)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  driver::copy({.destination = to->address,
                .destination_pitch = to->pitch,
                .source = from->address,
                .source_pitch = from->pitch,
                .width = box.width,
                .rows = box.height,
                .slices = box.depth,
                .destination_slice = to->slice,
                .source_slice = from->slice},
               blocking, stream_of(stream));
  return CUDA_SUCCESS;
}

Api cost(bool blocking) { return blocking ? Api::memcpy_d2h_pageable : Api::memcpy_async_d2d; }

template <class Parameters>
CUresult box_copy(const Parameters* p, bool blocking, CUstream stream,
                  const char* name = __builtin_FUNCTION()) {
  return device_entry({cost(blocking), name}, [&] {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    const Box box{p->WidthInBytes, p->Height, p->Depth};
    return copy(side_of(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray, p->dstPitch,
                        p->dstHeight, {p->dstXInBytes, p->dstY, p->dstZ}, box),
                side_of(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray, p->srcPitch,
                        p->srcHeight, {p->srcXInBytes, p->srcY, p->srcZ}, box),
                box, blocking, stream);
  });
}

CUresult rectangle(const CUDA_MEMCPY2D* p, bool blocking, CUstream stream,
                   const char* name = __builtin_FUNCTION()) {
  return device_entry({cost(blocking), name}, [&] {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    const Box box{p->WidthInBytes, p->Height, 1};
    return copy(side_of(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray, p->dstPitch, 0,
                        {p->dstXInBytes, p->dstY, 0}, box),
                side_of(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray, p->srcPitch, 0,
                        {p->srcXInBytes, p->srcY, 0}, box),
                box, blocking, stream);
  });
}

/// `bytes` of a one-dimensional array from `offset` on, to or from memory.
CUresult line(CUarray array, std::size_t offset, const void* memory, std::size_t bytes,
              bool to_array, bool blocking, CUstream stream,
              const char* name = __builtin_FUNCTION()) {
  return device_entry({cost(blocking), name}, [&] {
    const driver::Array* const known = driver::array_of(array);
    if (!known) return CUDA_ERROR_INVALID_HANDLE;
    if (!memory) return CUDA_ERROR_INVALID_VALUE;
    const Box box{bytes, 1, 1};
    const auto inside = within(*known, {offset, 0, 0}, box);
    const std::optional outside{
        Side{static_cast<std::byte*>(const_cast<void*>(memory)), bytes, bytes}};
    return to_array ? copy(inside, outside, box, blocking, stream)
                    : copy(outside, inside, box, blocking, stream);
  });
}

CUresult set(CUdeviceptr destination, std::size_t pitch, unsigned value, std::size_t unit,
             std::size_t width, std::size_t height, CUstream stream,
             const char* name = __builtin_FUNCTION()) {
  return device_entry({Api::memset_async, name}, [&] {
    if (width == 0 || height == 0) return CUDA_SUCCESS;
    if (destination % unit != 0 || pitch % unit != 0 || (height > 1 && width * unit > pitch) ||
        !driver::reaches(pointer(destination), (height - 1) * pitch + width * unit)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    driver::fill(pointer(destination), pitch, value, unit, width * unit, height, stream_of(stream));
    return CUDA_SUCCESS;
  });
}

}  // namespace

PHANTORA_EXPORT CUresult cuMemcpy2D(const CUDA_MEMCPY2D* p) {  // _v2
  return rectangle(p, true, nullptr);
}

PHANTORA_EXPORT CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* p) {  // _v2
  return rectangle(p, true, nullptr);
}

PHANTORA_EXPORT CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* p, CUstream stream) {  // _v2
  return rectangle(p, false, stream);
}

PHANTORA_EXPORT CUresult cuMemcpy3D(const CUDA_MEMCPY3D* p) {  // _v2
  return box_copy(p, true, nullptr);
}

PHANTORA_EXPORT CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D* p, CUstream stream) {  // _v2
  return box_copy(p, false, stream);
}

PHANTORA_EXPORT CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* p) {
  return box_copy(p, true, nullptr);
}

PHANTORA_EXPORT CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* p, CUstream stream) {
  return box_copy(p, false, stream);
}

PHANTORA_EXPORT CUresult cuMemcpyHtoA(CUarray array, std::size_t offset, const void* source,
                                      std::size_t bytes) {  // _v2
  return line(array, offset, source, bytes, true, true, nullptr);
}

PHANTORA_EXPORT CUresult cuMemcpyHtoAAsync(CUarray array, std::size_t offset, const void* source,
                                           std::size_t bytes, CUstream stream) {  // _v2
  return line(array, offset, source, bytes, true, false, stream);
}

PHANTORA_EXPORT CUresult cuMemcpyAtoH(void* destination, CUarray array, std::size_t offset,
                                      std::size_t bytes) {  // _v2
  return line(array, offset, destination, bytes, false, true, nullptr);
}

PHANTORA_EXPORT CUresult cuMemcpyAtoHAsync(void* destination, CUarray array, std::size_t offset,
                                           std::size_t bytes, CUstream stream) {  // _v2
  return line(array, offset, destination, bytes, false, false, stream);
}

PHANTORA_EXPORT CUresult cuMemcpyDtoA(CUarray array, std::size_t offset, CUdeviceptr source,
                                      std::size_t bytes) {  // _v2
  return line(array, offset, pointer(source), bytes, true, false, nullptr);
}

PHANTORA_EXPORT CUresult cuMemcpyAtoD(CUdeviceptr destination, CUarray array, std::size_t offset,
                                      std::size_t bytes) {  // _v2
  return line(array, offset, pointer(destination), bytes, false, false, nullptr);
}

PHANTORA_EXPORT CUresult cuMemcpyAtoA(CUarray to, std::size_t to_offset, CUarray from,
                                      std::size_t from_offset, std::size_t bytes) {  // _v2
  return device_entry(Api::memcpy_async_d2d, [&] {
    const driver::Array* const destination = driver::array_of(to);
    const driver::Array* const source = driver::array_of(from);
    if (!destination || !source) return CUDA_ERROR_INVALID_HANDLE;
    const Box box{bytes, 1, 1};
    return copy(within(*destination, {to_offset, 0, 0}, box),
                within(*source, {from_offset, 0, 0}, box), box, false, nullptr);
  });
}

PHANTORA_EXPORT CUresult cuMemsetD2D8(CUdeviceptr destination, std::size_t pitch,
                                      unsigned char value, std::size_t width,
                                      std::size_t height) {  // _v2
  return set(destination, pitch, value, 1, width, height, nullptr);
}

PHANTORA_EXPORT CUresult cuMemsetD2D8Async(CUdeviceptr destination, std::size_t pitch,
                                           unsigned char value, std::size_t width,
                                           std::size_t height, CUstream stream) {
  return set(destination, pitch, value, 1, width, height, stream);
}

PHANTORA_EXPORT CUresult cuMemsetD2D16(CUdeviceptr destination, std::size_t pitch,
                                       unsigned short value, std::size_t width,
                                       std::size_t height) {  // _v2
  return set(destination, pitch, value, 2, width, height, nullptr);
}

PHANTORA_EXPORT CUresult cuMemsetD2D16Async(CUdeviceptr destination, std::size_t pitch,
                                            unsigned short value, std::size_t width,
                                            std::size_t height, CUstream stream) {
  return set(destination, pitch, value, 2, width, height, stream);
}

PHANTORA_EXPORT CUresult cuMemsetD2D32(CUdeviceptr destination, std::size_t pitch, unsigned value,
                                       std::size_t width, std::size_t height) {  // _v2
  return set(destination, pitch, value, 4, width, height, nullptr);
}

PHANTORA_EXPORT CUresult cuMemsetD2D32Async(CUdeviceptr destination, std::size_t pitch,
                                            unsigned value, std::size_t width, std::size_t height,
                                            CUstream stream) {
  return set(destination, pitch, value, 4, width, height, stream);
}
