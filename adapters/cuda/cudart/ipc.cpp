// Memory and events of other processes of the host.
#include "cuda/driver/ipc.hpp"

#include "cuda/cudart/entry.hpp"
#include "rank/runtime/timeline.hpp"

#include <bit>
#include <memory>

using namespace phantora::cudart;
namespace driver = phantora::driver;
namespace rank = phantora::rank;

namespace {

cudaError_t error_of(driver::IpcStatus status) {
  switch (status) {
    case driver::IpcStatus::ok:
      return cudaSuccess;
    case driver::IpcStatus::invalid_value:
      return cudaErrorInvalidValue;
    case driver::IpcStatus::invalid_handle:
      return cudaErrorInvalidResourceHandle;
    case driver::IpcStatus::same_process:
      return cudaErrorDeviceUninitialized;
    case driver::IpcStatus::cannot_map:
      return cudaErrorMapBufferObjectFailed;
    case driver::IpcStatus::out_of_memory:
      return cudaErrorMemoryAllocation;
  }
  return cudaErrorInvalidValue;
}

}  // namespace

PHANTORA_EXPORT cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* address) {
  return device_entry(Api::pointer_attributes, [&] {
    driver::IpcHandle made;
    if (!handle) return cudaErrorInvalidValue;
    const cudaError_t status = error_of(driver::show_memory(address, made));
    if (status == cudaSuccess) *handle = std::bit_cast<cudaIpcMemHandle_t>(made);
    return status;
  });
}

PHANTORA_EXPORT cudaError_t cudaIpcOpenMemHandle(void** address, cudaIpcMemHandle_t handle,
                                                 unsigned flags) {
  return device_entry(Api::malloc, [&] {
    if (!address || flags != cudaIpcMemLazyEnablePeerAccess) return cudaErrorInvalidValue;
    return error_of(driver::open_memory(std::bit_cast<driver::IpcHandle>(handle), *address));
  });
}

PHANTORA_EXPORT cudaError_t cudaIpcCloseMemHandle(void* address) {
  return entry(Api::free, [&] { return error_of(driver::close_memory(address)); });
}

PHANTORA_EXPORT cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  return entry(Api::event_create, [&] {
    driver::IpcHandle made;
    if (!handle || !event) return cudaErrorInvalidValue;
    const cudaError_t status =
        error_of(driver::show_event(*reinterpret_cast<rank::Event*>(event), made));
    if (status == cudaSuccess) *handle = std::bit_cast<cudaIpcEventHandle_t>(made);
    return status;
  });
}

PHANTORA_EXPORT cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event,
                                                   cudaIpcEventHandle_t handle) {
  return device_entry(Api::event_create, [&] {
    if (!event) return cudaErrorInvalidValue;
    std::unique_ptr<rank::Event> made;
    const cudaError_t status =
        error_of(driver::open_event(std::bit_cast<driver::IpcHandle>(handle), made));
    if (status == cudaSuccess) *event = reinterpret_cast<cudaEvent_t>(made.release());
    return status;
  });
}
