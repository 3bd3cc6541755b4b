#include "cuda/driver/copy.hpp"

#include "cuda/driver/pool.hpp"
#include "cuda/libcuda/entry.hpp"
#include "rank/memory/device_memory.hpp"

using namespace phantora::libcuda;
namespace driver = phantora::driver;
namespace rank = phantora::rank;

namespace {

CUresult copy(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes, bool blocking,
              CUstream stream, Api api, const char* name = __builtin_FUNCTION()) {
  return device_entry({api, name}, [&] {
    if (bytes == 0) return CUDA_SUCCESS;
    if (!destination || !source) return CUDA_ERROR_INVALID_VALUE;
    driver::copy({.destination = pointer(destination), .source = pointer(source), .width = bytes},
                 blocking, stream_of(stream));
    return CUDA_SUCCESS;
  });
}

CUresult peer_copy(CUdeviceptr destination, CUcontext to, CUdeviceptr source, CUcontext from,
                   std::size_t bytes, CUstream stream, const char* name = __builtin_FUNCTION()) {
  return device_entry({Api::memcpy_async_d2d, name}, [&] {
    if (to == nullptr || from == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (bytes == 0) return CUDA_SUCCESS;
    if (!destination || !source) return CUDA_ERROR_INVALID_VALUE;
    driver::copy({.destination = pointer(destination), .source = pointer(source), .width = bytes},
                 false, stream_of(stream));
    return CUDA_SUCCESS;
  });
}

CUresult set(CUdeviceptr destination, unsigned value, std::size_t unit, std::size_t count,
             CUstream stream, const char* name = __builtin_FUNCTION()) {
  return device_entry({Api::memset_async, name}, [&] {
    if (count == 0) return CUDA_SUCCESS;
    if (destination % unit != 0 || !driver::reaches(pointer(destination), unit * count)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    driver::fill(pointer(destination), unit * count, value, unit, unit * count, 1,
                 stream_of(stream));
    return CUDA_SUCCESS;
  });
}

CUresult allocate(CUdeviceptr* memory, std::size_t bytes, driver::Pool& pool, CUstream stream) {
  if (!memory || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  *memory = address(driver::allocate_in_order(pool, bytes, stream_of(stream)));
  return *memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace

PHANTORA_EXPORT CUresult cuMemcpy(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes) {
  return copy(destination, source, bytes, true, nullptr, Api::memcpy_d2h_pageable);
}

PHANTORA_EXPORT CUresult cuMemcpyAsync(CUdeviceptr destination, CUdeviceptr source,
                                       std::size_t bytes, CUstream stream) {
  return copy(destination, source, bytes, false, stream, Api::memcpy_async_d2d);
}

PHANTORA_EXPORT CUresult cuMemcpyHtoD(CUdeviceptr destination, const void* source,
                                      std::size_t bytes) {  // _v2
  return copy(destination, address(source), bytes, true, nullptr, Api::memcpy_async_h2d_pageable);
}

PHANTORA_EXPORT CUresult cuMemcpyHtoDAsync(CUdeviceptr destination, const void* source,
                                           std::size_t bytes, CUstream stream) {  // _v2
  return copy(destination, address(source), bytes, false, stream, Api::memcpy_async_h2d_pageable);
}

PHANTORA_EXPORT CUresult cuMemcpyDtoH(void* destination, CUdeviceptr source,
                                      std::size_t bytes) {  // _v2
  return copy(address(destination), source, bytes, true, nullptr, Api::memcpy_d2h_pageable);
}

PHANTORA_EXPORT CUresult cuMemcpyDtoHAsync(void* destination, CUdeviceptr source, std::size_t bytes,
                                           CUstream stream) {  // _v2
  return copy(address(destination), source, bytes, false, stream, Api::memcpy_async_d2h_pinned);
}

PHANTORA_EXPORT CUresult cuMemcpyDtoD(CUdeviceptr destination, CUdeviceptr source,
                                      std::size_t bytes) {  // _v2
  return copy(destination, source, bytes, false, nullptr, Api::memcpy_async_d2d);
}

PHANTORA_EXPORT CUresult cuMemcpyDtoDAsync(CUdeviceptr destination, CUdeviceptr source,
                                           std::size_t bytes, CUstream stream) {  // _v2
  return copy(destination, source, bytes, false, stream, Api::memcpy_async_d2d);
}

PHANTORA_EXPORT CUresult cuMemcpyPeer(CUdeviceptr destination, CUcontext to, CUdeviceptr source,
                                      CUcontext from, std::size_t bytes) {
  return peer_copy(destination, to, source, from, bytes, nullptr);
}

PHANTORA_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr destination, CUcontext to,
                                           CUdeviceptr source, CUcontext from, std::size_t bytes,
                                           CUstream stream) {
  return peer_copy(destination, to, source, from, bytes, stream);
}

PHANTORA_EXPORT CUresult cuMemsetD8(CUdeviceptr destination, unsigned char value,
                                    std::size_t count) {  // _v2
  return set(destination, value, 1, count, nullptr);
}

PHANTORA_EXPORT CUresult cuMemsetD8Async(CUdeviceptr destination, unsigned char value,
                                         std::size_t count, CUstream stream) {
  return set(destination, value, 1, count, stream);
}

PHANTORA_EXPORT CUresult cuMemsetD16(CUdeviceptr destination, unsigned short value,
                                     std::size_t count) {  // _v2
  return set(destination, value, 2, count, nullptr);
}

PHANTORA_EXPORT CUresult cuMemsetD16Async(CUdeviceptr destination, unsigned short value,
                                          std::size_t count, CUstream stream) {
  return set(destination, value, 2, count, stream);
}

PHANTORA_EXPORT CUresult cuMemsetD32(CUdeviceptr destination, unsigned value,
                                     std::size_t count) {  // _v2
  return set(destination, value, 4, count, nullptr);
}

PHANTORA_EXPORT CUresult cuMemsetD32Async(CUdeviceptr destination, unsigned value,
                                          std::size_t count, CUstream stream) {
  return set(destination, value, 4, count, stream);
}

PHANTORA_EXPORT CUresult cuMemAllocAsync(CUdeviceptr* memory, std::size_t bytes, CUstream stream) {
  return device_entry(Api::malloc_async, [&] {
    return allocate(memory, bytes, driver::current_pool(stream_of(stream).device), stream);
  });
}

PHANTORA_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr* memory, std::size_t bytes,
                                                 CUmemoryPool pool, CUstream stream) {
  return device_entry(Api::malloc_async, [&] {
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    return allocate(memory, bytes, *reinterpret_cast<driver::Pool*>(pool), stream);
  });
}

PHANTORA_EXPORT CUresult cuMemFreeAsync(CUdeviceptr memory, CUstream stream) {
  return device_entry(Api::free_async, [&] {
    if (!memory) return CUDA_ERROR_INVALID_VALUE;
    return driver::free_in_order(pointer(memory), stream_of(stream)) ? CUDA_SUCCESS
                                                                     : CUDA_ERROR_INVALID_VALUE;
  });
}
