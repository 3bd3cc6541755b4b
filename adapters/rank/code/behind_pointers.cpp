#include "rank/code/behind_pointers.hpp"

#include "rank/code/code_execution.hpp"
#include "rank/code/code_walk.hpp"
#include "rank/memory/device_memory.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>

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

KnownBytes BehindPointers::known(std::span<const std::byte> constants) const {
  return known_bytes(ranges(constants));
}

std::vector<std::byte> related_pointers(std::span<const std::byte> constants) {
  constexpr std::uint64_t lines = 256, number_at = std::uint64_t{1} << 48;
  std::vector<std::byte> related{constants.begin(), constants.end()};
  std::vector<std::pair<const std::byte*, std::uint64_t>> first;  // of each allocation's pointers
  for (const std::size_t at : pointers(constants)) {
    const std::uint64_t address = pointer_at(constants, at);
    const auto allocation = allocation_of(reinterpret_cast<std::byte*>(address));
    if (!allocation) continue;  // the host's memory stays where it is
    const auto before =
        std::ranges::find(first, allocation->base, &decltype(first)::value_type::first);
    const auto number = static_cast<std::uint64_t>(before - first.begin());
    const std::uint64_t place = before != first.end() ? address - before->second : address % lines;
    const std::uint64_t word = number * number_at + place;
    if (before == first.end()) first.emplace_back(allocation->base, address);
    std::memcpy(related.data() + at, &word, sizeof word);
  }
  return related;
}

bool holds_addresses(const std::vector<AddressRange>& ranges) {
  std::vector<std::byte> bytes;
  std::vector<std::uint8_t> mask;
  return std::ranges::any_of(ranges, [&](const AddressRange& range) {
    constexpr std::uint64_t word = sizeof(void*);
    const std::uint64_t begin = (range.first + word - 1) / word * word;
    if (begin + word > range.last) return false;
    const std::size_t size = range.last - begin;
    bytes.resize(size);
    mask.resize(size);
    if (!read_known(bytes, mask, begin)) return false;
    for (std::size_t at = 0; at + word <= size; at += word) {
      const bool known = std::all_of(mask.begin() + static_cast<std::ptrdiff_t>(at),
                                     mask.begin() + static_cast<std::ptrdiff_t>(at + word),
                                     [](std::uint8_t byte) { return byte != 0; });
      if (known && is_device_address(reinterpret_cast<void*>(pointer_at(bytes, at)))) return true;
    }
    return false;
  });
}

}  // namespace phantora::rank
