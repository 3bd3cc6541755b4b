#include "rank/code/behind_pointers.hpp"

#include "rank/code/code_execution.hpp"
#include "rank/code/code_walk.hpp"
#include "rank/memory/device_memory.hpp"

#include <algorithm>
#include <iterator>
#include <map>

namespace phantora::rank {

BehindPointers::BehindPointers(const std::vector<AddressRange>& reached,
                               std::span<const std::byte> constants) {
  std::map<std::uint64_t, std::size_t> places;  // of pointers, by where they lead
  for (const std::size_t at : pointers(constants)) places.emplace(pointer_at(constants, at), at);
  for (const AddressRange& range : reached) {
    const auto next = places.upper_bound(range.first);
    const auto allocation = allocation_of(reinterpret_cast<std::byte*>(range.first));
    const bool behind = next != places.begin() && allocation &&
                        std::prev(next)->first >= reinterpret_cast<std::uint64_t>(allocation->base);
    if (behind) {
      const auto& [address, at] = *std::prev(next);
      ranges_.push_back({at, range.first - address, range.last - address});
    } else {
      ranges_.push_back({0, range.first, range.last, true});
    }
  }
}

std::vector<AddressRange> BehindPointers::ranges(std::span<const std::byte> constants) const {
  std::vector<AddressRange> here;
  here.reserve(ranges_.size());
  for (const Range& range : ranges_) {
    const std::uint64_t base = range.elsewhere ? 0 : pointer_at(constants, range.pointer);
    here.push_back({base + range.first, base + range.last});
  }
  return here;
}

std::uint64_t BehindPointers::content(std::span<const std::byte> constants) const {
  return known_content(ranges(constants));
}

}  // namespace phantora::rank
