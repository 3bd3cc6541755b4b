#include "cuda/cudart/stream_argument.hpp"

#include <cuda.h>
#include <dlfcn.h>

using namespace phantora::cudart;

namespace {

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
constexpr unsigned long long own_flags = cudaEnablePerThreadDefaultStream;
#else
constexpr unsigned long long own_flags = cudaEnableLegacyStream;
#endif

using GetProcAddress = CUresult(const char*, void**, int, cuuint64_t,
                                CUdriverProcAddressQueryResult*);

/// cuGetProcAddress of the driver library, which is loaded with the first question, as the real
/// runtime loads it; nullptr if there is none.
GetProcAddress* driver_lookup() {
  static auto* const function = [] {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return library ? reinterpret_cast<GetProcAddress*>(dlsym(library, "cuGetProcAddress_v2"))
                   : nullptr;
  }();
  return function;
}

}  // namespace

PHANTORA_EXPORT cudaError_t cudaGetDriverEntryPointByVersion(
    const char* symbol, void** function, unsigned version, unsigned long long flags,
    cudaDriverEntryPointQueryResult* result) {
  return entry(Api::get_last_error, [&] {
    if (!symbol || !*symbol || !function) return cudaErrorInvalidValue;
    *function = nullptr;
    GetProcAddress* const lookup = driver_lookup();
    if (!lookup) return cudaErrorInsufficientDriver;
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    lookup(symbol, function, static_cast<int>(version), flags ? flags : own_flags, &found);
    if (result) *result = static_cast<cudaDriverEntryPointQueryResult>(found);
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t PHANTORA_PTSZ(cudaGetDriverEntryPoint)(
    const char* symbol, void** function, unsigned long long flags,
    cudaDriverEntryPointQueryResult* result) {
  return cudaGetDriverEntryPointByVersion(symbol, function, PHANTORA_CUDA_VERSION, flags, result);
}
