// Memory and events of other processes of the host.
#include "cuda/driver/ipc.hpp"

#include "cuda/libcuda/entry.hpp"
#include "rank/runtime/timeline.hpp"

#include <bit>
#include <memory>

using namespace phantora::libcuda;
namespace driver = phantora::driver;
namespace rank = phantora::rank;

namespace {

CUresult result_of(driver::IpcStatus status) {
  switch (status) {
    case driver::IpcStatus::ok:
      return CUDA_SUCCESS;
    case driver::IpcStatus::invalid_value:
      return CUDA_ERROR_INVALID_VALUE;
    case driver::IpcStatus::invalid_handle:
      return CUDA_ERROR_INVALID_HANDLE;
    case driver::IpcStatus::same_process:
      return CUDA_ERROR_INVALID_CONTEXT;
    case driver::IpcStatus::cannot_map:
      return CUDA_ERROR_MAP_FAILED;
    case driver::IpcStatus::out_of_memory:
      return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

PHANTORA_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr at) {
  return device_entry(Api::pointer_attributes, [&] {
    driver::IpcHandle made;
    if (!handle) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = result_of(driver::show_memory(pointer(at), made));
    if (result == CUDA_SUCCESS) *handle = std::bit_cast<CUipcMemHandle>(made);
    return result;
  });
}

PHANTORA_EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr* at, CUipcMemHandle handle,
                                            unsigned flags) {  // _v2
  return device_entry(Api::malloc, [&] {
    if (!at || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
    void* opened = nullptr;
    const CUresult result =
        result_of(driver::open_memory(std::bit_cast<driver::IpcHandle>(handle), opened));
    if (result == CUDA_SUCCESS) *at = address(opened);
    return result;
  });
}

PHANTORA_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr at) {
  return entry(Api::free, [&] { return result_of(driver::close_memory(pointer(at))); });
}

PHANTORA_EXPORT CUresult cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event) {
  return entry(Api::event_create, [&] {
    driver::IpcHandle made;
    if (!handle || !event) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result =
        result_of(driver::show_event(*reinterpret_cast<rank::Event*>(event), made));
    if (result == CUDA_SUCCESS) *handle = std::bit_cast<CUipcEventHandle>(made);
    return result;
  });
}

PHANTORA_EXPORT CUresult cuIpcOpenEventHandle(CUevent* event, CUipcEventHandle handle) {
  return device_entry(Api::event_create, [&] {
    if (!event) return CUDA_ERROR_INVALID_VALUE;
    std::unique_ptr<rank::Event> made;
    const CUresult result =
        result_of(driver::open_event(std::bit_cast<driver::IpcHandle>(handle), made));
    if (result == CUDA_SUCCESS) *event = reinterpret_cast<CUevent>(made.release());
    return result;
  });
}
