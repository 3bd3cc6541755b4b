#include "cuda/driver/driver_state.hpp"
#include "cuda/libcuda/entry.hpp"
#include "rank/runtime/capture.hpp"
#include "rank/runtime/timeline.hpp"

#include <vector>

using namespace phantora::libcuda;
namespace driver = phantora::driver;
namespace rank = phantora::rank;

namespace {

using driver::Context;

driver::Contexts& contexts() { return driver::driver_state().contexts; }

/// The calling thread's stack; what the runtime made current lies under its bottom.
thread_local std::vector<Context*> stack;

/// Null as long as neither the driver API nor the runtime has made a context current.
Context* current() {
  if (!stack.empty() && stack.back()->device == rank::current_device()) return stack.back();
  const int device = rank::current_device();
  return driver::active(device) ? &contexts().primary(device) : nullptr;
}

CUcontext handle(Context* context) { return reinterpret_cast<CUcontext>(context); }
Context* context_of(CUcontext handle) { return reinterpret_cast<Context*>(handle); }

}  // namespace

PHANTORA_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return entry(Api::get_device, [&] {
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (!driver::activate(device)) return CUDA_ERROR_OUT_OF_MEMORY;
    contexts().retain(device);
    *context = handle(&contexts().primary(device));
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device) {  // _v2
  return entry(Api::get_device, [&] {
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    // The runtime keeps it alive, as it does in a real process.
    return contexts().release(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
  });
}

PHANTORA_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device) {  // _v2
  return entry(Api::synchronize, [&] {
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    driver::deactivate(device);
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {  // _v2
  return entry(Api::get_device, [&] {
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    contexts().primary(device).flags = flags;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  return entry(Api::get_device, [&] {
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *flags = contexts().primary(device).flags;
    *active = driver::active(device);
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuCtxCreate(CUcontext* context, CUctxCreateParams*, unsigned flags,
                                     CUdevice device) {  // _v4
  return entry(Api::set_device, [&] {
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (!driver::activate(device)) return CUDA_ERROR_OUT_OF_MEMORY;
    Context& made = contexts().create(device, flags);
    stack.push_back(&made);
    rank::set_current_device(device);
    *context = handle(&made);
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device) {
  return cuCtxCreate(context, nullptr, flags, device);
}

PHANTORA_EXPORT CUresult cuCtxDestroy(CUcontext context) {  // _v2
  return entry(Api::set_device, [&] {
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    std::erase(stack, context_of(context));
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
  return entry(Api::set_device, [&] {
    if (!stack.empty()) stack.pop_back();
    if (context) {
      stack.push_back(context_of(context));
      rank::set_current_device(context_of(context)->device);
    }
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuCtxGetCurrent(CUcontext* context) {
  return entry(Api::get_device, [&] {
    *context = handle(current());
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuCtxPushCurrent(CUcontext context) {  // _v2
  return entry(Api::set_device, [&] {
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (Context* const below = current(); stack.empty() && below) stack.push_back(below);
    stack.push_back(context_of(context));
    rank::set_current_device(context_of(context)->device);
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuCtxPopCurrent(CUcontext* context) {  // _v2
  return entry(Api::set_device, [&] {
    Context* const top = current();
    if (!top) return CUDA_ERROR_INVALID_CONTEXT;
    if (context) *context = handle(top);
    if (!stack.empty()) stack.pop_back();
    if (!stack.empty()) rank::set_current_device(stack.back()->device);
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuCtxGetDevice(CUdevice* device) {
  return entry(Api::get_device, [&] {
    const Context* const context = current();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    *device = context->device;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext context) {
  return entry(Api::get_device, [&] {
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    *device = context_of(context)->device;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuCtxGetFlags(unsigned* flags) {
  return entry(Api::get_device, [&] {
    const Context* const context = current();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    *flags = context->flags;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
  return entry(Api::get_device, [&] {
    const Context* const asked = context ? context_of(context) : current();
    if (!asked) return CUDA_ERROR_INVALID_CONTEXT;
    *id = reinterpret_cast<unsigned long long>(asked);
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuCtxGetApiVersion(CUcontext, unsigned* version) {
  return entry(Api::get_device, [&] {
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuCtxSynchronize() {
  return device_entry(Api::synchronize, [] {
    rank::refuse_if_captured(rank::current_device());
    rank::synchronize_device(rank::current_device());
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return device_entry(Api::get_device, [&] {
    if (least) *least = 0;
    if (greatest) *greatest = driver::greatest_priority;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuCtxSetCacheConfig(CUfunc_cache) {
  return device_entry(Api::set_device, [] { return CUDA_SUCCESS; });  // a hint
}

PHANTORA_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  return device_entry(Api::set_device, [&] {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    const int device = rank::current_device();
    if (!peer || context_of(peer)->device == device) return CUDA_ERROR_INVALID_CONTEXT;
    return contexts().enable_peer(device, context_of(peer)->device)
               ? CUDA_SUCCESS
               : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  });
}
