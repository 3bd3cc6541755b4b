#include "cuda/driver/copy.hpp"

#include "cuda/cudart/kernels.hpp"
#include "cuda/cudart/stream_argument.hpp"
#include "cuda/driver/host_memory.hpp"
#include "rank/memory/device_memory.hpp"

using namespace phantora::cudart;
namespace driver = phantora::driver;
namespace rank = phantora::rank;

namespace {

/// Whether memory at `address` may be what `kind` says of it.
bool on_device(const void* address) {
  return rank::is_device_address(address) || driver::pinned(address);
}

cudaError_t copy(const driver::Copy& copy, cudaMemcpyKind kind, bool blocking,
                 cudaStream_t stream) {
  if (copy.width == 0 || copy.rows == 0) return cudaSuccess;
  if (!copy.destination || !copy.source) return cudaErrorInvalidValue;
  const bool wrong_destination =
      (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) &&
      !on_device(copy.destination);
  const bool wrong_source = (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice) &&
                            !on_device(copy.source);
  if (wrong_destination || wrong_source) return cudaErrorInvalidValue;
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  driver::copy(copy, blocking, stream_of(stream));
  return cudaSuccess;
}

/// The cost of the call on the host, which depends on who takes part.
Api api_of(const void* destination, const void* source, bool blocking) {
  switch (driver::kind_of(destination, source)) {
    case rank::CopyKind::host_to_device:
      return driver::pinned(source) ? Api::memcpy_async_h2d_pinned : Api::memcpy_async_h2d_pageable;
    case rank::CopyKind::device_to_host:
      return blocking || !driver::pinned(destination) ? Api::memcpy_d2h_pageable
                                                      : Api::memcpy_async_d2h_pinned;
    default:
      return Api::memcpy_async_d2d;
  }
}

cudaError_t plain(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind,
                  bool blocking, cudaStream_t stream, const char* name = __builtin_FUNCTION()) {
  return device_entry({api_of(destination, source, blocking), name}, [&] {
    return copy({.destination = destination, .source = source, .width = bytes}, kind, blocking,
                stream);
  });
}

cudaError_t rows(void* destination, std::size_t destination_pitch, const void* source,
                 std::size_t source_pitch, std::size_t width, std::size_t count,
                 cudaMemcpyKind kind, bool blocking, cudaStream_t stream,
                 const char* name = __builtin_FUNCTION()) {
  return device_entry({api_of(destination, source, blocking), name}, [&] {
    // An H200's answer (test/native/h200/errors.txt), where the documentation has
    // cudaErrorInvalidPitchValue.
    if (width > destination_pitch || width > source_pitch) return cudaErrorInvalidValue;
    return copy({destination, destination_pitch, source, source_pitch, width, count}, kind,
                blocking, stream);
  });
}

/// A copy to (or, with `from`, from) a registered variable.
cudaError_t symbol_copy(const void* symbol, void* other, std::size_t bytes, std::size_t offset,
                        bool from, cudaMemcpyKind kind, bool blocking, cudaStream_t stream,
                        const char* name = __builtin_FUNCTION()) {
  return device_entry({Api::memcpy_async_h2d_pageable, name}, [&] {
    const Variable variable = variable_of(symbol);
    if (!variable.size) return cudaErrorInvalidSymbol;
    if (!variable.address) return cudaErrorMemoryAllocation;
    if (offset + bytes > variable.size) return cudaErrorInvalidValue;
    void* const place = static_cast<std::byte*>(variable.address) + offset;
    return copy(
        {.destination = from ? other : place, .source = from ? place : other, .width = bytes}, kind,
        blocking, stream);
  });
}

cudaError_t set(void* destination, std::size_t pitch, int value, std::size_t width,
                std::size_t count, bool blocking, cudaStream_t stream,
                const char* name = __builtin_FUNCTION()) {
  return device_entry({Api::memset_async, name}, [&] {
    if (width == 0 || count == 0) return cudaSuccess;
    if (count > 1 && width > pitch) return cudaErrorInvalidPitchValue;
    if (!driver::reaches(destination, (count - 1) * pitch + width)) return cudaErrorInvalidValue;
    driver::fill(destination, pitch, static_cast<unsigned>(value) & 0xffu, 1, width, count,
                 stream_of(stream));
    // The runtime's memset is asynchronous except on page-locked host memory.
    if (blocking && !rank::is_device_address(destination)) rank::synchronize(stream_of(stream));
    return cudaSuccess;
  });
}

}  // namespace

PHANTORA_EXPORT cudaError_t cudaMemcpy(void* destination, const void* source, std::size_t bytes,
                                       cudaMemcpyKind kind) {
  return plain(destination, source, bytes, kind, true, nullptr);
}

PHANTORA_EXPORT cudaError_t cudaMemcpyAsync(void* destination, const void* source,
                                            std::size_t bytes, cudaMemcpyKind kind,
                                            cudaStream_t stream) {
  return plain(destination, source, bytes, kind, false, stream);
}

PHANTORA_EXPORT cudaError_t cudaMemcpy2D(void* destination, std::size_t destination_pitch,
                                         const void* source, std::size_t source_pitch,
                                         std::size_t width, std::size_t height,
                                         cudaMemcpyKind kind) {
  return rows(destination, destination_pitch, source, source_pitch, width, height, kind, true,
              nullptr);
}

PHANTORA_EXPORT cudaError_t cudaMemcpy2DAsync(void* destination, std::size_t destination_pitch,
                                              const void* source, std::size_t source_pitch,
                                              std::size_t width, std::size_t height,
                                              cudaMemcpyKind kind, cudaStream_t stream) {
  return rows(destination, destination_pitch, source, source_pitch, width, height, kind, false,
              stream);
}

PHANTORA_EXPORT cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* source,
                                               std::size_t bytes, std::size_t offset,
                                               cudaMemcpyKind kind) {
  return symbol_copy(symbol, const_cast<void*>(source), bytes, offset, false, kind, true, nullptr);
}

PHANTORA_EXPORT cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* source,
                                                    std::size_t bytes, std::size_t offset,
                                                    cudaMemcpyKind kind, cudaStream_t stream) {
  return symbol_copy(symbol, const_cast<void*>(source), bytes, offset, false, kind, false, stream);
}

PHANTORA_EXPORT cudaError_t cudaMemcpyFromSymbol(void* destination, const void* symbol,
                                                 std::size_t bytes, std::size_t offset,
                                                 cudaMemcpyKind kind) {
  return symbol_copy(symbol, destination, bytes, offset, true, kind, true, nullptr);
}

PHANTORA_EXPORT cudaError_t cudaMemcpyFromSymbolAsync(void* destination, const void* symbol,
                                                      std::size_t bytes, std::size_t offset,
                                                      cudaMemcpyKind kind, cudaStream_t stream) {
  return symbol_copy(symbol, destination, bytes, offset, true, kind, false, stream);
}

PHANTORA_EXPORT cudaError_t cudaMemset(void* destination, int value, std::size_t bytes) {
  return set(destination, bytes, value, bytes, 1, true, nullptr);
}

PHANTORA_EXPORT cudaError_t cudaMemsetAsync(void* destination, int value, std::size_t bytes,
                                            cudaStream_t stream) {
  return set(destination, bytes, value, bytes, 1, false, stream);
}

PHANTORA_EXPORT cudaError_t cudaMemset2D(void* destination, std::size_t pitch, int value,
                                         std::size_t width, std::size_t height) {
  return set(destination, pitch, value, width, height, true, nullptr);
}

PHANTORA_EXPORT cudaError_t cudaMemset2DAsync(void* destination, std::size_t pitch, int value,
                                              std::size_t width, std::size_t height,
                                              cudaStream_t stream) {
  return set(destination, pitch, value, width, height, false, stream);
}

PHANTORA_EXPORT cudaError_t cudaMemPrefetchAsync(const void* address, std::size_t,
                                                 cudaMemLocation location, unsigned, cudaStream_t) {
  // Pages of managed memory are host memory here, and moving them costs nothing.
  return device_entry(Api::memset_async, [&] {
    const bool host = location.type != cudaMemLocationTypeDevice;
    if (!host && !valid_device(location.id)) return cudaErrorInvalidDevice;
    return driver::advise(address,
                          [&](driver::Advice& advice) {
                            advice.prefetched = host ? cudaCpuDeviceId : location.id;
                          })
               ? cudaSuccess
               : cudaErrorInvalidValue;
  });
}

PHANTORA_EXPORT cudaError_t cudaStreamAttachMemAsync(cudaStream_t, void* address, std::size_t,
                                                     unsigned) {
  // Who may touch managed memory, and when, decides about the movement of its pages.
  return device_entry(Api::event_record, [&] {
    const auto memory = driver::host_memory_of(address);
    return memory && memory->kind == driver::HostMemoryKind::managed ? cudaSuccess
                                                                     : cudaErrorInvalidValue;
  });
}
