#include "cuda/cupti/records.hpp"

#include "cuda/cupti/call_numbers.hpp"
#include "cuda/cupti/nccl_kernels.hpp"
#include "rank/runtime/process.hpp"

#include <cstring>
#include <optional>
#include <string_view>

#include <unistd.h>

namespace phantora::cupti {
namespace {

using rank::Interface;

using KernelRecord = CUpti_ActivityKernel11;
using CopyRecord = CUpti_ActivityMemcpy6;
using FillRecord = CUpti_ActivityMemset4;
using CallRecord = CUpti_ActivityAPI;
using NamedCallRecord = CUpti_ActivityExternalCorrelation;
using WaitRecord = CUpti_ActivitySynchronization2;
using EventRecord = CUpti_ActivityCudaEvent2;

template <class Record>
Record blank(CUpti_ActivityKind kind) {
  Record record;
  std::memset(&record, 0, sizeof record);  // padding too: the program may write it somewhere
  record.kind = kind;
  return record;
}

/// A copy by its name among queries.
struct Route {
  CUpti_ActivityMemcpyKind kind{};
  CUpti_ActivityMemoryKind source{}, destination{};
};
std::optional<Route> route_of(std::string_view name) {
  constexpr auto device = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  constexpr auto pinned = CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
  constexpr auto pageable = CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;
  if (name == "memcpy_h2d_pinned") return Route{CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, pinned, device};
  if (name == "memcpy_h2d_pageable")
    return Route{CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, pageable, device};
  if (name == "memcpy_d2h_pinned") return Route{CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, device, pinned};
  if (name == "memcpy_d2h_pageable")
    return Route{CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, device, pageable};
  if (name == "memcpy_d2d") return Route{CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, device, device};
  if (name == "memcpy_p2p") return Route{CUPTI_ACTIVITY_MEMCPY_KIND_PTOP, device, device};
  return std::nullopt;
}

class Writer {
 public:
  Writer(const Stamp& stamp, const std::function<bool(CUpti_ActivityKind)>& wanted,
         const Write& write)
      : stamp_{stamp}, wanted_{wanted}, write_{write} {}

  void operator()(const rank::CallActivity& it) const {
    const auto kind = it.function.interface == Interface::runtime ? CUPTI_ACTIVITY_KIND_RUNTIME
                                                                  : CUPTI_ACTIVITY_KIND_DRIVER;
    const auto number = number_of(it.function);
    if (!wanted_(kind) || !number) return;
    auto record = blank<CallRecord>(kind);
    record.cbid = *number;
    record.start = stamp_(it.start);
    record.end = stamp_(it.end);
    record.processId = static_cast<std::uint32_t>(getpid());
    record.threadId = it.thread;
    record.correlationId = it.call;
    put(record);
  }

  void operator()(const rank::NamedCallActivity& it) const {
    if (!wanted_(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)) return;
    auto record = blank<NamedCallRecord>(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
    record.externalKind = static_cast<CUpti_ExternalCorrelationKind>(it.kind);
    record.externalId = it.number;
    record.correlationId = it.call;
    put(record);
  }

  void operator()(const rank::LaunchActivity& it) const {
    const KernelQuery& query = *it.query;
    const auto bytes = static_cast<std::uint64_t>(query.bytes);
    if (const auto route = route_of(query.name)) {
      if (!wanted_(CUPTI_ACTIVITY_KIND_MEMCPY)) return;
      auto record = placed<CopyRecord>(CUPTI_ACTIVITY_KIND_MEMCPY, it);
      record.copyKind = static_cast<std::uint8_t>(route->kind);
      record.srcKind = static_cast<std::uint8_t>(route->source);
      record.dstKind = static_cast<std::uint8_t>(route->destination);
      record.bytes = bytes;
      record.copyCount = 1;
      put(record);
    } else if (query.name == "memset") {
      if (!wanted_(CUPTI_ACTIVITY_KIND_MEMSET)) return;
      auto record = placed<FillRecord>(CUPTI_ACTIVITY_KIND_MEMSET, it);
      record.bytes = bytes;
      record.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
      put(record);
    } else {
      const auto kind = kernel_kind();
      if (!kind) return;
      auto record = kernel(*kind, it);
      record.name = it.code.name != nullptr ? it.code.name : query.name.c_str();
      record.registersPerThread = static_cast<std::uint16_t>(it.code.registers);
      record.staticSharedMemory = static_cast<std::int32_t>(it.code.static_shared);
      record.dynamicSharedMemory = static_cast<std::int32_t>(query.shared_bytes);
      record.localMemoryPerThread = static_cast<std::uint32_t>(it.code.local);
      if (query.grid) shape(record, *query.grid, query.block);
      put(record);
    }
  }

  void operator()(const rank::CollectiveActivity& it) const {
    const auto kind = kernel_kind();
    if (!kind) return;
    auto record = kernel(*kind, it);
    record.name = nccl_kernel(it.op, it.type, it.tree);
    put(record);
  }

  void operator()(const rank::WaitActivity& it) const {
    using For = rank::WaitActivity::For;
    if (!wanted_(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION)) return;
    auto record = blank<WaitRecord>(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
    switch (it.kind) {
      case For::event:
        record.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE;
        break;
      case For::event_on_stream:
        record.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT;
        break;
      case For::stream:
        record.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE;
        break;
      case For::device:
        record.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE;
        break;
    }
    record.start = stamp_(it.start);
    record.end = stamp_(it.end);
    record.correlationId = it.call;
    record.contextId = context_id(it.device);
    record.streamId =
        it.stream != nullptr ? stream_id(*it.stream) : CUPTI_SYNCHRONIZATION_INVALID_VALUE;
    record.cudaEventId = it.marker != 0 ? event_id(it.marker) : CUPTI_SYNCHRONIZATION_INVALID_VALUE;
    record.cudaEventSyncId = it.marker;
    put(record);
  }

  void operator()(const rank::EventActivity& it) const {
    // Who asks for synchronisations is told of the events for which they wait.
    if (!wanted_(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION) && !wanted_(CUPTI_ACTIVITY_KIND_CUDA_EVENT)) {
      return;
    }
    auto record = blank<EventRecord>(CUPTI_ACTIVITY_KIND_CUDA_EVENT);
    record.correlationId = it.call;
    record.deviceId = static_cast<std::uint32_t>(it.stream->device);
    record.contextId = context_id(it.stream->device);
    record.streamId = stream_id(*it.stream);
    record.eventId = event_id(it.marker);
    record.cudaEventSyncId = it.marker;
    put(record);
  }

 private:
  /// Each recording of an event counts as one of its own: a wait names the recording that it is
  /// for.
  static std::uint32_t event_id(rank::Marker marker) { return static_cast<std::uint32_t>(marker); }

  [[nodiscard]] std::optional<CUpti_ActivityKind> kernel_kind() const {
    for (const auto kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_KERNEL})
      if (wanted_(kind)) return kind;
    return std::nullopt;
  }

  /// With what all that runs on a stream has.
  template <class Record, class It>
  Record placed(CUpti_ActivityKind kind, const It& it) const {
    auto record = blank<Record>(kind);
    record.start = stamp_(it.start);
    record.end = stamp_(it.end);
    record.deviceId = static_cast<std::uint32_t>(it.stream->device);
    record.contextId = context_id(it.stream->device);
    record.streamId = stream_id(*it.stream);
    record.correlationId = it.call;
    return record;
  }
  template <class It>
  KernelRecord kernel(CUpti_ActivityKind kind, const It& it) const {
    auto record = placed<KernelRecord>(kind, it);
    record.completed = record.end;
    record.gridId = it.call;
    record.priority = it.stream->priority;
    record.channelType = CUPTI_CHANNEL_TYPE_COMPUTE;
    // Of a library's kernel it is not known: it fills the GPU. (Kineto wants some.)
    shape(record, {static_cast<std::uint32_t>(rank::gpu().sm_count), 1, 1}, {});
    return record;
  }
  static void shape(KernelRecord& record, const KernelQuery::Dim3& grid,
                    const KernelQuery::Dim3& block) {
    record.gridX = static_cast<std::int32_t>(grid.x);
    record.gridY = static_cast<std::int32_t>(grid.y);
    record.gridZ = static_cast<std::int32_t>(grid.z);
    record.blockX = static_cast<std::int32_t>(block.x);
    record.blockY = static_cast<std::int32_t>(block.y);
    record.blockZ = static_cast<std::int32_t>(block.z);
  }

  template <class Record>
  void put(const Record& record) const {
    write_(std::as_bytes(std::span{&record, 1}));
  }

  const Stamp& stamp_;
  const std::function<bool(CUpti_ActivityKind)>& wanted_;
  const Write& write_;
};

}  // namespace

void put(const rank::Activity& activity, const Stamp& stamp,
         const std::function<bool(CUpti_ActivityKind)>& wanted, const Write& write) {
  std::visit(Writer{stamp, wanted, write}, activity);
}

std::size_t size_of(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL:
      return sizeof(KernelRecord);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CopyRecord);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(FillRecord);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return sizeof(CallRecord);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(NamedCallRecord);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return sizeof(WaitRecord);
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
      return sizeof(EventRecord);
    default:
      return 0;
  }
}

std::uint32_t context_id(int device) { return static_cast<std::uint32_t>(device) + 1; }

std::uint32_t stream_id(const rank::Stream& stream) {
  // The legacy stream is 7 in every trace of an H200, the program's own come from 13 on.
  constexpr std::uint32_t legacy = 7, first = 13;
  return stream.legacy ? legacy : first - 1 + static_cast<std::uint32_t>(stream.id);
}

}  // namespace phantora::cupti
