#include "cuda/libcuda/entry.hpp"
#include "rank/memory/data_queue.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/runtime/capture.hpp"
#include "rank/runtime/timeline.hpp"

#include <memory>

using namespace phantora::libcuda;
namespace rank = phantora::rank;

PHANTORA_EXPORT CUresult cuStreamSynchronize(CUstream stream) {
  return device_entry(Api::synchronize, [&] {
    rank::refuse_if_captured(stream_of(stream));
    rank::refuse_if_unsafe();
    rank::synchronize(stream_of(stream));
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuStreamQuery(CUstream stream) {
  return device_entry(Api::stream_query, [&] {
    return rank::done(stream_of(stream)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

PHANTORA_EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  return device_entry(Api::stream_wait_event, [&] {
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    rank::wait(stream_of(stream), *reinterpret_cast<rank::Event*>(event),
               flags == CU_EVENT_WAIT_EXTERNAL);
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  return device_entry(Api::event_record, [&] {
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    rank::Stream& target = stream_of(stream);
    auto& recorded = *reinterpret_cast<rank::Event*>(event);
    if (recorded.device != target.device) return CUDA_ERROR_INVALID_HANDLE;
    rank::record(target, recorded, flags == CU_EVENT_RECORD_EXTERNAL);
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
  return cuEventRecordWithFlags(event, stream, 0);
}

PHANTORA_EXPORT CUresult cuStreamGetFlags(CUstream stream, unsigned* flags) {
  return device_entry(Api::get_device, [&] {
    *flags = stream_of(stream).flags;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuStreamGetPriority(CUstream stream, int* priority) {
  return device_entry(Api::get_device, [&] {
    *priority = stream_of(stream).priority;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuStreamGetId(CUstream stream, unsigned long long* id) {
  return device_entry(Api::get_device, [&] {
    *id = stream_of(stream).id;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuStreamGetDevice(CUstream stream, CUdevice* device) {
  return device_entry(Api::get_device, [&] {
    *device = stream_of(stream).device;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  return device_entry(Api::get_device, [&] {
    rank::set_current_device(stream_of(stream).device);
    return cuCtxGetCurrent(context);
  });
}

PHANTORA_EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* argument) {
  return device_entry(Api::launch, [&] {
    if (!function) return CUDA_ERROR_INVALID_VALUE;
    rank::host_function(stream_of(stream), function, argument);
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr destination,
                                              cuuint32_t value, unsigned) {  // _v2
  return device_entry(Api::memset_async, [&] {
    phantora::KernelQuery query;
    query.name = "memset";
    query.bytes = sizeof value;
    rank::Stream& target = stream_of(stream);
    rank::launch(target, query);
    rank::data::enqueue(target, [=] { rank::write(pointer(destination), &value, sizeof value); });
    return CUDA_SUCCESS;
  });
}
