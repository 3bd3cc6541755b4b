// CUPTI's activity interface: what the program asks to be told of, and the telling.

#include "cuda/cupti/buffers.hpp"
#include "cuda/cupti/records.hpp"
#include "rank/runtime/activities.hpp"
#include "rank/runtime/host_thread.hpp"
#include "rank/runtime/process.hpp"
#include "rank/runtime/program_ticks.hpp"

#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include <cupti.h>
#include <x86intrin.h>

using namespace phantora::cupti;
namespace rank = phantora::rank;

#define PHANTORA_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using phantora::Time;

/// What the program chose. Its callbacks may call CUPTI.
struct Choice {
  std::recursive_mutex mutex;
  Buffers buffers;
  std::set<CUpti_ActivityKind> enabled;
  std::set<CUpti_ActivityKind> since_flush;  ///< that were enabled at some time since
  std::set<std::pair<CUpti_ActivityKind, std::uint32_t>> left_out;  ///< calls, by their numbers
  bool in_ticks = false;  ///< its clock is the time stamp counter
};
Choice& choice() {
  static auto& made = *new Choice;
  return made;
}

std::int64_t ns_since_1970(Time instant) {
  return rank::epoch().realtime_ns + instant.time_since_epoch().count() / 1000;
}

/// What the rest of the process has to note for a kind; nothing: it is not simulated. CUPTI itself
/// takes no time here: there are never records of its overhead.
std::optional<unsigned> notes_for(CUpti_ActivityKind kind) {
  using rank::Activities;
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_MEMCPY:
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return Activities::launches;
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return Activities::calls;
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return Activities::named_calls;
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return Activities::waits | Activities::events;
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
      return Activities::events;
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return 0;
    default:
      return std::nullopt;
  }
}

void note_what_is_enabled(const Choice& choice) {
  unsigned notes = 0;
  for (const CUpti_ActivityKind kind : choice.enabled) notes |= notes_for(kind).value_or(0);
  rank::want_activities(notes);
}

CUptiResult set_call(CUpti_ActivityKind kind, std::uint32_t number, bool enable) {
  Choice& it = choice();
  const std::lock_guard lock{it.mutex};
  if (enable) {
    it.left_out.erase({kind, number});
  } else {
    it.left_out.insert({kind, number});
  }
  return CUPTI_SUCCESS;
}

}  // namespace

PHANTORA_EXPORT CUptiResult cuptiActivityRegisterCallbacks(
    CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete) {
  if (!request || !complete) return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock{choice().mutex};
  choice().buffers.use(request, complete);
  return CUPTI_SUCCESS;
}

PHANTORA_EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (!rank::simulated()) return CUPTI_ERROR_NOT_INITIALIZED;
  if (!notes_for(kind)) {
    rank::unsupported(("cuptiActivityEnable of kind " + std::to_string(kind)).c_str());
    return CUPTI_ERROR_NOT_COMPATIBLE;
  }
  const rank::ApiCall call{rank::Api::get_device};
  Choice& it = choice();
  const std::lock_guard lock{it.mutex};
  it.enabled.insert(kind);
  it.since_flush.insert(kind);
  // Kineto asks for records only if a buffer is with us.
  it.buffers.have_one();
  note_what_is_enabled(it);
  return CUPTI_SUCCESS;
}

PHANTORA_EXPORT CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  if (!rank::simulated()) return CUPTI_ERROR_NOT_INITIALIZED;
  const rank::ApiCall call{rank::Api::get_device};
  Choice& it = choice();
  const std::lock_guard lock{it.mutex};
  it.enabled.erase(kind);
  note_what_is_enabled(it);
  return CUPTI_SUCCESS;
}

PHANTORA_EXPORT CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId number,
                                                          std::uint8_t enable) {
  return set_call(CUPTI_ACTIVITY_KIND_RUNTIME, number, enable != 0);
}
PHANTORA_EXPORT CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId number,
                                                         std::uint8_t enable) {
  return set_call(CUPTI_ACTIVITY_KIND_DRIVER, number, enable != 0);
}

/// Of where an event was on the GPU nothing is told.
PHANTORA_EXPORT CUptiResult cuptiActivityEnableCudaEventDeviceTimestamps(std::uint8_t) {
  return CUPTI_SUCCESS;
}

/// Hands over what has ended by now, whatever the flags.
PHANTORA_EXPORT CUptiResult cuptiActivityFlushAll(std::uint32_t) {
  if (!rank::simulated()) return CUPTI_SUCCESS;
  const rank::ApiCall call{rank::Api::synchronize};
  const std::vector<rank::Activity> all = rank::take_activities();
  Choice& it = choice();
  const std::lock_guard lock{it.mutex};
  if (!it.buffers.usable()) return CUPTI_ERROR_INVALID_OPERATION;
  const Stamp stamp = [&](Time instant) -> std::uint64_t {
    const std::int64_t ns = ns_since_1970(instant);
    return it.in_ticks ? rank::instant_as_ticks(ns) : static_cast<std::uint64_t>(ns);
  };
  const auto wanted = [&](CUpti_ActivityKind kind) { return it.since_flush.contains(kind); };
  const Write write = [&](std::span<const std::byte> record) {
    const auto* const call_record = reinterpret_cast<const CUpti_ActivityAPI*>(record.data());
    const bool is_call = call_record->kind == CUPTI_ACTIVITY_KIND_RUNTIME ||
                         call_record->kind == CUPTI_ACTIVITY_KIND_DRIVER;
    if (is_call && it.left_out.contains({call_record->kind, call_record->cbid})) return;
    it.buffers.put(record);
  };
  for (const rank::Activity& activity : all) put(activity, stamp, wanted, write);
  it.buffers.hand_back();
  it.since_flush = it.enabled;
  if (!it.enabled.empty()) it.buffers.have_one();
  return CUPTI_SUCCESS;
}

PHANTORA_EXPORT CUptiResult cuptiActivityFlush(CUcontext, std::uint32_t, std::uint32_t flags) {
  return cuptiActivityFlushAll(flags);
}

PHANTORA_EXPORT CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t size,
                                                       CUpti_Activity** record) {
  if (!buffer || !record) return CUPTI_ERROR_INVALID_PARAMETER;
  std::uint8_t* next = buffer;
  if (*record) next = reinterpret_cast<std::uint8_t*>(*record) + size_of((*record)->kind);
  if (next >= buffer + size) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return size_of((*record)->kind) == 0 ? CUPTI_ERROR_INVALID_KIND : CUPTI_SUCCESS;
}

PHANTORA_EXPORT CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t,
                                                              std::size_t* dropped) {
  if (!dropped) return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock{choice().mutex};
  *dropped = choice().buffers.take_dropped();
  return CUPTI_SUCCESS;
}

/// The sizes of CUPTI's own buffers on device and host, of which there are none.
PHANTORA_EXPORT CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute, std::size_t* size,
                                                      void* value) {
  return size && value ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

PHANTORA_EXPORT CUptiResult
cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, std::uint64_t id) {
  const rank::ApiCall call{rank::Api::get_device};
  rank::Activities::push_number(kind, id);
  return CUPTI_SUCCESS;
}

PHANTORA_EXPORT CUptiResult
cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, std::uint64_t* last) {
  const rank::ApiCall call{rank::Api::get_device};
  const auto number = rank::Activities::pop_number(kind);
  if (!number) return CUPTI_ERROR_QUEUE_EMPTY;
  if (last) *last = *number;
  return CUPTI_SUCCESS;
}

PHANTORA_EXPORT CUptiResult cuptiGetTimestamp(std::uint64_t* timestamp) {
  if (!timestamp) return CUPTI_ERROR_INVALID_PARAMETER;
  if (!rank::in_virtual_time()) return CUPTI_ERROR_NOT_INITIALIZED;
  const std::int64_t ns = ns_since_1970(rank::virtual_now());
  *timestamp = choice().in_ticks ? rank::instant_as_ticks(ns) : static_cast<std::uint64_t>(ns);
  return CUPTI_SUCCESS;
}

/// Records bear times of the program's own clock: simulated time, or the processor's counter.
PHANTORA_EXPORT CUptiResult
cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock) {
  Choice& it = choice();
  const std::lock_guard lock{it.mutex};
  it.in_ticks = false;
  if (!clock || !rank::in_virtual_time()) return CUPTI_SUCCESS;
  const std::int64_t ns_before = ns_since_1970(rank::virtual_now());
  const std::uint64_t ticks_before = __rdtsc();
  const std::uint64_t reading = clock();
  const bool counts_ticks = ticks_before <= reading && reading <= __rdtsc();
  const bool shows_time = static_cast<std::int64_t>(reading) >= ns_before &&
                          static_cast<std::int64_t>(reading) <= ns_since_1970(rank::virtual_now());
  it.in_ticks = counts_ticks && rank::ticks_are_translated();
  if (it.in_ticks || shows_time) return CUPTI_SUCCESS;
  rank::unsupported("cuptiActivityRegisterTimestampCallback of a clock other than CLOCK_REALTIME");
  return CUPTI_ERROR_NOT_SUPPORTED;
}
