#include "rank/memory/host_reach.hpp"

#include "rank/small_data.hpp"

#include <mutex>

namespace phantora::rank {

void HostReach::add(const void* base, std::size_t bytes) {
  const std::scoped_lock lock{mutex_};
  ranges_[static_cast<const std::byte*>(base)] = bytes;
}

void HostReach::remove(const void* base) {
  const std::scoped_lock lock{mutex_};
  ranges_.erase(static_cast<const std::byte*>(base));
}

bool HostReach::holds(const void* address) const {
  const auto* const byte = static_cast<const std::byte*>(address);
  const std::scoped_lock lock{mutex_};
  auto next = ranges_.upper_bound(byte);
  if (next == ranges_.begin()) return false;
  --next;
  return byte < next->first + next->second;
}

void device_reaches(const void* base, std::size_t bytes) {
  small_data().host_reach.add(base, bytes);
}
void device_leaves(const void* base) { small_data().host_reach.remove(base); }
bool reached_by_device(const void* address) { return small_data().host_reach.holds(address); }

}  // namespace phantora::rank
