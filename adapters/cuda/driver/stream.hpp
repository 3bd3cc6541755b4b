#pragma once

#include "rank/runtime/timeline.hpp"

#include <cstdint>

/// Streams as handles of the program.
namespace phantora::driver {

/// What the null handle means: the legacy stream, or the calling thread's (API names in
/// _ptsz/_ptds).
enum class DefaultStream : std::uint8_t { legacy, per_thread };

/// The stream behind a CUstream, which cudaStream_t and the streams of all libraries are.
/// 0, 1 (legacy) and 2 (per thread) belong to the current device.
rank::Stream& stream_of(const void* handle, DefaultStream null_handle = DefaultStream::legacy);

/// Greatest stream priority; the least is 0. cudaDeviceGetStreamPriorityRange of compute
/// capability 7.0 and later.
inline constexpr int greatest_priority = -5;

/// A stream on the current device; `priority` is clamped to the range.
rank::Stream& create_stream(unsigned flags, int priority);
/// False if `handle` is no stream of create_stream that is still alive.
bool destroy_stream(const void* handle);

}  // namespace phantora::driver
