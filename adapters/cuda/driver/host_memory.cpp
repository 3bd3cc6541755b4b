#include "cuda/driver/host_memory.hpp"

#include "cuda/driver/driver_state.hpp"
#include "rank/memory/host_reach.hpp"
#include "rank/runtime/api_call.hpp"
#include "rank/runtime/process.hpp"

#include <phantora/simulation/host_cost.hpp>

#include <sys/mman.h>

namespace phantora::driver {

namespace {

Bytes size_of(std::size_t bytes) { return Bytes{static_cast<std::int64_t>(bytes)}; }

}  // namespace

/// The entry that holds `address`, else end(); under the lock.
HostMemories::Map::const_iterator HostMemories::holding(const void* address) const {
  const auto* byte = static_cast<const std::byte*>(address);
  auto next = known_.upper_bound(byte);
  if (next == known_.begin()) return known_.end();
  --next;
  return byte < next->first + next->second.size ? next : known_.end();
}

bool HostMemories::forget(void* address, bool registered) {
  const std::scoped_lock lock{mutex_};
  const auto entry = known_.find(static_cast<std::byte*>(address));
  if (entry == known_.end() || (entry->second.kind == HostMemoryKind::registered) != registered) {
    return false;
  }
  rank::device_leaves(address);
  if (!registered) munmap(address, entry->second.size);
  known_.erase(entry);
  return true;
}

void* HostMemories::allocate(std::size_t bytes, HostMemoryKind kind, unsigned flags, int device) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  const std::scoped_lock lock{mutex_};
  auto* base = static_cast<std::byte*>(memory);
  known_[base] = {base, bytes, kind, flags, device, {}};
  rank::device_reaches(base, bytes);
  return memory;
}

bool HostMemories::add(void* address, std::size_t bytes, unsigned flags, int device) {
  const std::scoped_lock lock{mutex_};
  auto* base = static_cast<std::byte*>(address);
  const auto next = known_.lower_bound(base);
  const bool overlaps =
      holding(address) != known_.end() || (next != known_.end() && next->first < base + bytes);
  if (overlaps) return false;
  known_[base] = {base, bytes, HostMemoryKind::registered, flags, device, {}};
  rank::device_reaches(base, bytes);
  return true;
}

bool HostMemories::advise(const void* address, const std::function<void(Advice&)>& change) {
  const std::scoped_lock lock{mutex_};
  const auto entry = holding(address);
  if (entry == known_.end() || entry->second.kind != HostMemoryKind::managed) return false;
  change(known_.at(entry->first).advice);
  return true;
}

std::optional<HostMemory> HostMemories::find(const void* address) const {
  const std::scoped_lock lock{mutex_};
  const auto entry = holding(address);
  if (entry == known_.end()) return std::nullopt;
  return entry->second;
}

void* allocate_host(std::size_t bytes, HostMemoryKind kind, unsigned flags) {
  const bool managed = kind == HostMemoryKind::managed;
  rank::costs_more((managed ? managed_cost : locking_cost)(size_of(bytes)));
  return driver_state().host_memories.allocate(bytes, kind, flags, rank::current_device());
}
bool free_host(void* address) {
  const auto memory = host_memory_of(address);
  if (!memory) return false;
  const bool managed = memory->kind == HostMemoryKind::managed;
  rank::costs_more((managed ? managed_free_cost : unlocking_cost)(size_of(memory->size)));
  return driver_state().host_memories.free(address);
}
// The program's own memory is taken to be locked at the same cost.
bool register_host(void* address, std::size_t bytes, unsigned flags) {
  rank::costs_more(locking_cost(size_of(bytes)));
  return driver_state().host_memories.add(address, bytes, flags, rank::current_device());
}
bool unregister_host(void* address) {
  if (const auto memory = host_memory_of(address))
    rank::costs_more(unlocking_cost(size_of(memory->size)));
  return driver_state().host_memories.remove(address);
}
bool advise(const void* address, const std::function<void(Advice&)>& change) {
  return driver_state().host_memories.advise(address, change);
}
std::optional<HostMemory> host_memory_of(const void* address) {
  return driver_state().host_memories.find(address);
}
bool pinned(const void* address) { return host_memory_of(address).has_value(); }

}  // namespace phantora::driver
