#include "cuda/driver/host_memory.hpp"

#include "rank/memory/host_reach.hpp"
#include "rank/runtime/process.hpp"

#include <map>
#include <mutex>
#include <shared_mutex>

#include <sys/mman.h>

namespace phantora::driver {
namespace {

std::shared_mutex mutex;
/// By start address; never destroyed, since libraries free memory in their destructors.
std::map<const std::byte*, HostMemory>& known() {
  static auto* const map = new std::map<const std::byte*, HostMemory>;
  return *map;
}

/// The entry that holds `address`, else end(); under the lock.
auto find(const void* address) {
  const auto* byte = static_cast<const std::byte*>(address);
  auto next = known().upper_bound(byte);
  if (next == known().begin()) return known().end();
  --next;
  return byte < next->first + next->second.size ? next : known().end();
}

bool forget(void* address, bool registered) {
  const std::scoped_lock lock{mutex};
  const auto entry = known().find(static_cast<std::byte*>(address));
  if (entry == known().end() || (entry->second.kind == HostMemoryKind::registered) != registered) {
    return false;
  }
  rank::device_leaves(address);
  if (!registered) munmap(address, entry->second.size);
  known().erase(entry);
  return true;
}

}  // namespace

void* allocate_host(std::size_t bytes, HostMemoryKind kind, unsigned flags) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  const std::scoped_lock lock{mutex};
  auto* base = static_cast<std::byte*>(memory);
  known()[base] = {base, bytes, kind, flags, rank::current_device(), {}};
  rank::device_reaches(base, bytes);
  return memory;
}

bool free_host(void* address) { return forget(address, false); }

bool register_host(void* address, std::size_t bytes, unsigned flags) {
  const std::scoped_lock lock{mutex};
  auto* base = static_cast<std::byte*>(address);
  const auto next = known().lower_bound(base);
  const bool overlaps =
      find(address) != known().end() || (next != known().end() && next->first < base + bytes);
  if (overlaps) return false;
  known()[base] = {base, bytes, HostMemoryKind::registered, flags, rank::current_device(), {}};
  rank::device_reaches(base, bytes);
  return true;
}

bool unregister_host(void* address) { return forget(address, true); }

bool advise(const void* address, const std::function<void(Advice&)>& change) {
  const std::scoped_lock lock{mutex};
  const auto entry = find(address);
  if (entry == known().end() || entry->second.kind != HostMemoryKind::managed) return false;
  change(entry->second.advice);
  return true;
}

std::optional<HostMemory> host_memory_of(const void* address) {
  const std::shared_lock lock{mutex};
  const auto entry = find(address);
  if (entry == known().end()) return std::nullopt;
  return entry->second;
}

bool pinned(const void* address) {
  const std::shared_lock lock{mutex};
  return find(address) != known().end();
}

}  // namespace phantora::driver
