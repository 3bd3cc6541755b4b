#include "cuda/libcuda/entry.hpp"
#include "rank/runtime/timeline.hpp"

#include <memory>

using namespace phantora::libcuda;
namespace rank = phantora::rank;
namespace driver = phantora::driver;

namespace {
rank::Event* event_of(CUevent event) { return reinterpret_cast<rank::Event*>(event); }
}  // namespace

PHANTORA_EXPORT CUresult cuEventCreate(CUevent* event, unsigned flags) {
  return device_entry(Api::event_create, [&] {
    if (!event) return CUDA_ERROR_INVALID_VALUE;
    auto made = std::make_unique<rank::Event>();
    made->device = rank::current_device();
    made->flags = flags;
    *event = reinterpret_cast<CUevent>(made.release());
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuEventDestroy(CUevent event) {  // _v2
  return entry(Api::event_create, [&] {
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    if (!event_of(event)->shared) rank::forget_marker(event_of(event)->marker.load());
    delete event_of(event);
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuEventQuery(CUevent event) {
  return entry(Api::event_query, [&] {
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    return rank::done(*event_of(event)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

PHANTORA_EXPORT CUresult cuEventSynchronize(CUevent event) {
  return entry(Api::synchronize, [&] {
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    rank::synchronize(*event_of(event));
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuEventElapsedTime(float* milliseconds, CUevent start,
                                            CUevent end) {  // _v2
  return entry(Api::event_query, [&] {
    if (!start || !end) return CUDA_ERROR_INVALID_HANDLE;
    if ((event_of(start)->flags | event_of(end)->flags) & CU_EVENT_DISABLE_TIMING) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
    const rank::Marker from = rank::marker_of(*event_of(start)),
                       to = rank::marker_of(*event_of(end));
    if (!from || !to) return CUDA_ERROR_INVALID_HANDLE;
    const auto elapsed = rank::elapsed(from, to);
    if (!elapsed) return CUDA_ERROR_NOT_READY;
    *milliseconds = static_cast<float>(phantora::to_seconds(*elapsed) * 1e3);
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags,
                                                    int priority) {
  return device_entry(Api::event_create, [&] {
    if (!stream || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    *stream = reinterpret_cast<CUstream>(&driver::create_stream(flags, priority));
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}

PHANTORA_EXPORT CUresult cuStreamDestroy(CUstream stream) {  // _v2
  return device_entry(Api::event_create, [&] {
    return driver::destroy_stream(stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  });
}
