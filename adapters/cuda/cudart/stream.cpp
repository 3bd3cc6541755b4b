#include "cuda/cudart/stream_argument.hpp"
#include "rank/runtime/capture.hpp"
#include "rank/runtime/timeline.hpp"

#include <memory>

using namespace phantora::cudart;
namespace rank = phantora::rank;

PHANTORA_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return device_entry(Api::synchronize, [&] {
    rank::refuse_if_captured(stream_of(stream));
    rank::refuse_if_unsafe();
    rank::synchronize(stream_of(stream));
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return device_entry(Api::stream_query, [&] {
    return rank::done(stream_of(stream)) ? cudaSuccess : cudaErrorNotReady;
  });
}

PHANTORA_EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                                unsigned flags) {
  return device_entry(Api::stream_wait_event, [&] {
    if (!event) return cudaErrorInvalidResourceHandle;
    rank::wait(stream_of(stream), *reinterpret_cast<rank::Event*>(event),
               flags == cudaEventWaitExternal);
    return cudaSuccess;
  });
}

namespace {
cudaError_t record(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  auto* const recorded = reinterpret_cast<rank::Event*>(event);
  if (!recorded) return cudaErrorInvalidResourceHandle;
  rank::Stream& target = stream_of(stream);
  if (recorded->device != target.device) return cudaErrorInvalidResourceHandle;
  rank::record(target, *recorded, flags == cudaEventRecordExternal);
  return cudaSuccess;
}
}  // namespace

PHANTORA_EXPORT cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream,
                                                     unsigned flags) {
  const auto* known = reinterpret_cast<rank::Event*>(event);
  const bool timing = known && !(known->flags & cudaEventDisableTiming);
  const Api cost = timing ? Api::event_record_timing : Api::event_record_with_flags;
  return device_entry(cost, [&] { return record(event, stream, flags); });
}

PHANTORA_EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return device_entry(Api::event_record,
                      [&] { return record(event, stream, cudaEventRecordDefault); });
}

PHANTORA_EXPORT cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  return device_entry(Api::get_device, [&] {
    *device = stream_of(stream).device;
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return device_entry(Api::get_device, [&] {
    *flags = stream_of(stream).flags;
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  return device_entry(Api::get_device, [&] {
    *id = stream_of(stream).id;
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return device_entry(Api::get_device, [&] {
    *priority = stream_of(stream).priority;
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaStreamAddCallback(cudaStream_t stream,
                                                  cudaStreamCallback_t callback, void* data,
                                                  unsigned) {
  return device_entry(Api::launch, [&] {
    if (!callback) return cudaErrorInvalidValue;
    rank::refuse_if_captured(stream_of(stream));  // it would be called once
    struct Call {
      cudaStream_t stream;
      cudaStreamCallback_t callback;
      void* data;
    };
    auto call = std::make_unique<Call>(Call{stream, callback, data});
    rank::host_function(
        stream_of(stream),
        [](void* argument) {
          const std::unique_ptr<Call> made{static_cast<Call*>(argument)};
          made->callback(made->stream, cudaSuccess, made->data);
        },
        call.get());
    call.release();  // the stream's now
    return cudaSuccess;
  });
}
