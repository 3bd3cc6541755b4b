#include "cuda/driver/ipc.hpp"

#include "cuda/driver/driver_state.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/runtime/process.hpp"
#include "rank/runtime/timeline.hpp"

#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <string_view>
#include <utility>

#include <cuda.h>
#include <unistd.h>

namespace phantora::driver {
namespace {

/// What a handle says. Hosts are told apart by a hash of their names.
struct Told {
  enum class Kind : std::uint64_t {
    memory = 0x6d656d6f72790001,  // "memory", "event"
    event = 0x6576656e74000001,
  } kind{};
  std::uint64_t host = 0;
  std::uint64_t base = 0, size = 0;
  std::int32_t device = 0;  ///< of the host
  rank::SharedMarker::Name event{};
  std::int32_t process_id = 0;
};
static_assert(sizeof(Told) <= sizeof(IpcHandle));

std::uint64_t this_host() { return std::hash<std::string_view>{}(rank::host_name()); }

IpcHandle handle_of(const Told& told) {
  IpcHandle handle{};
  std::memcpy(handle.data(), &told, sizeof told);
  return handle;
}
IpcStatus read(const IpcHandle& handle, Told::Kind kind, Told& told) {
  std::memcpy(&told, handle.data(), sizeof told);
  if (told.kind != kind || told.host != this_host()) return IpcStatus::invalid_handle;
  return told.process_id == getpid() ? IpcStatus::same_process : IpcStatus::ok;
}

}  // namespace

IpcStatus show_memory(const void* address, IpcHandle& handle) {
  const auto allocation = rank::allocation_of(address);
  if (!allocation || allocation->reserved) return IpcStatus::invalid_value;
  rank::show_others(allocation->base);
  handle = handle_of({.kind = Told::Kind::memory,
                      .host = this_host(),
                      .base = reinterpret_cast<std::uint64_t>(allocation->base),
                      .size = allocation->size,
                      .device = rank::physical_device(allocation->device),
                      .process_id = getpid()});
  return IpcStatus::ok;
}

IpcStatus open_memory(const IpcHandle& handle, void*& address) {
  Told told;
  if (const IpcStatus status = read(handle, Told::Kind::memory, told); status != IpcStatus::ok) {
    return status;
  }
  OpenedMemories& opened = driver_state().opened_memories;
  const std::scoped_lock lock{opened.mutex};
  auto& mapping = opened.all[{told.process_id, told.base}];
  if (mapping.openings == 0) {
    const int device = rank::visible_device(told.device);
    void* const range =
        device < 0 ? nullptr : rank::reserve_addresses(rank::current_device(), told.size);
    if (range == nullptr) {
      opened.all.erase({told.process_id, told.base});
      return device < 0 ? IpcStatus::cannot_map : IpcStatus::out_of_memory;
    }
    rank::show_peer(range, device);
    rank::grant_access(range, told.size);
    rank::show_others(range);
    mapping.address = range;
  }
  ++mapping.openings;
  address = mapping.address;
  return IpcStatus::ok;
}

IpcStatus close_memory(void* address) {
  OpenedMemories& opened = driver_state().opened_memories;
  const std::scoped_lock lock{opened.mutex};
  for (auto next = opened.all.begin(); next != opened.all.end(); ++next) {
    if (next->second.address != address) continue;
    if (--next->second.openings > 0) return IpcStatus::ok;
    rank::release_addresses(address);
    opened.all.erase(next);
    return IpcStatus::ok;
  }
  return IpcStatus::invalid_value;
}

IpcStatus show_event(rank::Event& event, IpcHandle& handle) {
  if ((event.flags & CU_EVENT_INTERPROCESS) == 0) return IpcStatus::invalid_handle;
  if (!event.shared) {
    auto shared = std::make_shared<rank::SharedMarker>();
    if (!shared->make()) return IpcStatus::out_of_memory;
    if (const rank::Marker marker = event.marker.load()) shared->store(marker);
    event.shared = std::move(shared);
  }
  handle = handle_of({.kind = Told::Kind::event,
                      .host = this_host(),
                      .device = rank::physical_device(event.device),
                      .event = event.shared->name(),
                      .process_id = getpid()});
  return IpcStatus::ok;
}

IpcStatus open_event(const IpcHandle& handle, std::unique_ptr<rank::Event>& event) {
  Told told;
  if (const IpcStatus status = read(handle, Told::Kind::event, told); status != IpcStatus::ok) {
    return status;
  }
  auto shared = std::make_shared<rank::SharedMarker>();
  if (!shared->open(told.event)) return IpcStatus::cannot_map;
  event = std::make_unique<rank::Event>();
  event->device = rank::current_device();
  event->flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
  event->shared = std::move(shared);
  return IpcStatus::ok;
}

}  // namespace phantora::driver
