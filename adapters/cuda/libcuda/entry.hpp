#pragma once

#include "cuda/driver/context.hpp"
#include "cuda/driver/stream.hpp"
#include "rank/runtime/api_call.hpp"
#include "rank/runtime/host_thread.hpp"
#include "rank/runtime/process.hpp"
#include "rank/runtime/refusal.hpp"

#include <exception>
#include <new>
#include <string>

#include <cuda.h>

/// What every entry point of the driver API does around its own work.
namespace phantora::libcuda {

#define PHANTORA_EXPORT extern "C" __attribute__((visibility("default")))

using rank::Api;

/// Runs `body`, charged as `api`; no exception leaves.
template <class Body>
CUresult entry(rank::NamedApi api, Body&& body) noexcept {
  const rank::ApiCall call{api.api, {rank::Interface::driver, api.name}};
  try {
    if (!rank::simulated()) return CUDA_ERROR_NO_DEVICE;
    return body();
  } catch (const rank::Refusal& refusal) {
    return static_cast<CUresult>(refusal.status);
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    rank::warn_once(error.what(),
                    std::string{"internal error in a CUDA driver call: "} + error.what());
    return CUDA_ERROR_UNKNOWN;
  }
}

/// The same for a call that needs the current device's context.
template <class Body>
CUresult device_entry(rank::NamedApi api, Body&& body) noexcept {
  return entry(api, [&]() -> CUresult {
    if (rank::in_host_function()) return CUDA_ERROR_NOT_PERMITTED;
    if (!driver::activate(rank::current_device())) return CUDA_ERROR_OUT_OF_MEMORY;
    return body();
  });
}

inline bool valid_device(CUdevice device) { return device >= 0 && device < rank::device_count(); }

inline void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }
inline CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

namespace {
/// The stream that a handle names in this compilation of the source: as in the runtime, sources
/// with a stream argument are compiled twice.
[[maybe_unused]] rank::Stream& stream_of(CUstream handle) {
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
  return driver::stream_of(handle, driver::DefaultStream::per_thread);
#else
  return driver::stream_of(handle, driver::DefaultStream::legacy);
#endif
}
}  // namespace

}  // namespace phantora::libcuda
