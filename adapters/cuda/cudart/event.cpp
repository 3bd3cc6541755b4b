#include "cuda/cudart/entry.hpp"
#include "cuda/driver/stream.hpp"
#include "rank/runtime/timeline.hpp"

#include <memory>

using namespace phantora::cudart;
namespace driver = phantora::driver;
namespace rank = phantora::rank;

namespace {

rank::Event* event_of(cudaEvent_t event) { return reinterpret_cast<rank::Event*>(event); }

}  // namespace

PHANTORA_EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags,
                                                         int priority) {
  return device_entry(Api::event_create, [&] {
    if (!stream || flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
    *stream = reinterpret_cast<cudaStream_t>(&driver::create_stream(flags, priority));
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

PHANTORA_EXPORT cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

PHANTORA_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return device_entry(Api::event_create, [&] {
    return driver::destroy_stream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
}

PHANTORA_EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return device_entry(Api::get_device, [&] {
    if (least) *least = 0;
    if (greatest) *greatest = driver::greatest_priority;
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return device_entry(Api::event_create, [&] {
    constexpr unsigned known =
        cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
    const bool valid =
        !(flags & ~known) && (!(flags & cudaEventInterprocess) || (flags & cudaEventDisableTiming));
    if (!event || !valid) return cudaErrorInvalidValue;
    auto made = std::make_unique<rank::Event>();
    made->device = rank::current_device();
    made->flags = flags;
    *event = reinterpret_cast<cudaEvent_t>(made.release());
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

PHANTORA_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return entry(Api::event_create, [&] {
    if (!event) return cudaErrorInvalidResourceHandle;
    if (!event_of(event)->shared) rank::forget_marker(event_of(event)->marker.load());
    delete event_of(event);
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) {
  return entry(Api::event_query, [&] {
    if (!event) return cudaErrorInvalidResourceHandle;
    return rank::done(*event_of(event)) ? cudaSuccess : cudaErrorNotReady;
  });
}

PHANTORA_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return entry(Api::synchronize, [&] {
    if (!event) return cudaErrorInvalidResourceHandle;
    rank::synchronize(*event_of(event));
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start,
                                                 cudaEvent_t end) {
  return entry(Api::event_query, [&] {
    if (!milliseconds) return cudaErrorInvalidValue;
    if (!start || !end) return cudaErrorInvalidResourceHandle;
    const rank::Event& first = *event_of(start);
    const rank::Event& second = *event_of(end);
    if ((first.flags | second.flags) & cudaEventDisableTiming)
      return cudaErrorInvalidResourceHandle;
    const rank::Marker from = rank::marker_of(first), to = rank::marker_of(second);
    if (!from || !to) return cudaErrorInvalidResourceHandle;
    const auto elapsed = rank::elapsed(from, to);
    if (!elapsed) return cudaErrorNotReady;
    *milliseconds = static_cast<float>(phantora::to_seconds(*elapsed) * 1e3);
    return cudaSuccess;
  });
}
