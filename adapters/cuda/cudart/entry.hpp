#pragma once

#include "cuda/driver/context.hpp"
#include "cuda/version.hpp"
#include "rank/runtime/api_call.hpp"
#include "rank/runtime/host_thread.hpp"
#include "rank/runtime/process.hpp"
#include "rank/runtime/refusal.hpp"

#include <exception>
#include <new>

#include <cuda_runtime_api.h>

/// What every entry point of the runtime API does around its own work.
namespace phantora::cudart {

#define PHANTORA_EXPORT extern "C" __attribute__((visibility("default")))

using rank::Api;

/// Keeps `status` for cudaGetLastError if it is an error; returns it.
cudaError_t remember(cudaError_t status) noexcept;
/// cudaGetLastError: the latest error of this thread; `clear` unless it only peeks.
cudaError_t last_error(bool clear) noexcept;

/// Logs an exception that reached an entry point.
void report(const std::exception& error) noexcept;

/// Runs `body`, charged as `api`; no exception leaves, and the error state is kept.
template <class Body>
cudaError_t entry(rank::NamedApi api, Body&& body) noexcept {
  const rank::ApiCall call{api.api, {rank::Interface::runtime, api.name}};
  try {
    if (!rank::simulated()) return remember(cudaErrorNoDevice);
    return remember(body());
  } catch (const rank::Refusal& refusal) {
    return remember(static_cast<cudaError_t>(refusal.status));
  } catch (const std::bad_alloc&) {
    return remember(cudaErrorMemoryAllocation);
  } catch (const std::exception& error) {
    report(error);
    return remember(cudaErrorUnknown);
  }
}

/// The same for a call that initialises the current device's primary context, as most do.
template <class Body>
cudaError_t device_entry(rank::NamedApi api, Body&& body) noexcept {
  return entry(api, [&]() -> cudaError_t {
    if (rank::in_host_function()) return cudaErrorNotPermitted;
    if (!driver::activate(rank::current_device())) return cudaErrorMemoryAllocation;
    return body();
  });
}

inline bool valid_device(int device) { return device >= 0 && device < rank::device_count(); }

}  // namespace phantora::cudart
