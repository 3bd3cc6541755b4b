#include "rank/memory/host_reach.hpp"

#include <map>
#include <mutex>
#include <shared_mutex>

namespace phantora::rank {
namespace {

std::shared_mutex mutex;
/// By start address; never destroyed, since libraries free memory in their destructors.
std::map<const std::byte*, std::size_t>& ranges() {
  static auto* const map = new std::map<const std::byte*, std::size_t>;
  return *map;
}

}  // namespace

void device_reaches(const void* base, std::size_t bytes) {
  const std::scoped_lock lock{mutex};
  ranges()[static_cast<const std::byte*>(base)] = bytes;
}

void device_leaves(const void* base) {
  const std::scoped_lock lock{mutex};
  ranges().erase(static_cast<const std::byte*>(base));
}

bool reached_by_device(const void* address) {
  const auto* const byte = static_cast<const std::byte*>(address);
  const std::shared_lock lock{mutex};
  auto next = ranges().upper_bound(byte);
  if (next == ranges().begin()) return false;
  --next;
  return byte < next->first + next->second;
}

}  // namespace phantora::rank
