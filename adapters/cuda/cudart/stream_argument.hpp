#pragma once

#include "cuda/cudart/entry.hpp"
#include "cuda/driver/stream.hpp"

// The runtime exports every entry point that knows a default stream twice: NAME, whose null stream
// is the legacy one, and NAME_ptsz or NAME_ptds, whose null stream is the calling thread's. Sources
// that include this header are compiled twice, the second time with
// CUDA_API_PER_THREAD_DEFAULT_STREAM, by which NVIDIA's header renames the functions.

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define PHANTORA_PTSZ(name) name##_ptsz
#else
#define PHANTORA_PTSZ(name) name
#endif

namespace phantora::cudart {
namespace {

/// The stream that a handle names in this compilation of the source.
[[maybe_unused]] rank::Stream& stream_of(cudaStream_t handle) {
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
  return driver::stream_of(handle, driver::DefaultStream::per_thread);
#else
  return driver::stream_of(handle, driver::DefaultStream::legacy);
#endif
}

}  // namespace
}  // namespace phantora::cudart
