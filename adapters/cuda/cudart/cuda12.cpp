// What CUDA 12's runtime has and CUDA 13's has not: CUDA 13 gave these names to functions with
// other arguments, which CUDA 12 has too, under second names (cuda12.hpp). What knows a default
// stream is compiled again for its _ptsz name.

#include "cuda/cudart/stream_argument.hpp"

using namespace phantora::cudart;

// These are second names.
extern "C" cudaError_t cudaMemAdvise(const void*, std::size_t, cudaMemoryAdvise, cudaMemLocation);
extern "C" cudaError_t cudaMemPrefetchAsync(const void*, std::size_t, cudaMemLocation, unsigned,
                                            cudaStream_t);

namespace {

/// A GPU, or cudaCpuDeviceId.
[[maybe_unused]] cudaMemLocation location_of(int device) {
  cudaMemLocation location{};
  location.type = device == cudaCpuDeviceId ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
  location.id = device == cudaCpuDeviceId ? 0 : device;
  return location;
}

// Kept, before the first names get their own meaning back.
constexpr auto advise = cudaMemAdvise;
constexpr auto prefetch = cudaMemPrefetchAsync;

}  // namespace

#undef cudaMemAdvise
#undef cudaMemPrefetchAsync

// The header declares the first names with CUDA 13's arguments, so that ours are given by their
// symbols.
#define PHANTORA_SYMBOL(name) __asm__(name) __attribute__((visibility("default")))
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define PHANTORA_SYMBOL_PTSZ(name) PHANTORA_SYMBOL(name "_ptsz")
#else
#define PHANTORA_SYMBOL_PTSZ(name) PHANTORA_SYMBOL(name)

extern "C" cudaError_t phantora_advise(const void*, std::size_t, cudaMemoryAdvise, int)
    PHANTORA_SYMBOL("cudaMemAdvise");
cudaError_t phantora_advise(const void* address, std::size_t bytes, cudaMemoryAdvise advice,
                            int device) {
  return advise(address, bytes, advice, location_of(device));
}

extern "C" cudaError_t phantora_elapsed(float*, cudaEvent_t, cudaEvent_t)
    PHANTORA_SYMBOL("cudaEventElapsedTime_v2");
cudaError_t phantora_elapsed(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return cudaEventElapsedTime(milliseconds, start, end);
}
#endif

extern "C" cudaError_t phantora_prefetch(const void*, std::size_t, int, cudaStream_t)
    PHANTORA_SYMBOL_PTSZ("cudaMemPrefetchAsync");
cudaError_t phantora_prefetch(const void* address, std::size_t bytes, int device,
                              cudaStream_t stream) {
  return prefetch(address, bytes, location_of(device), 0, stream);
}
