#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace phantora::rank {

/// The first of `ranges` that ends beyond `address`: a map, by where they begin, of disjoint ones
/// that have an `end`.
template <class Ranges>
auto first_beyond(Ranges& ranges, std::uint64_t address) {
  const auto next = ranges.upper_bound(address);
  if (next == ranges.begin()) return next;
  const auto previous = std::prev(next);
  return previous->second.end > address ? previous : next;
}

/// Free extents of an address range: best fit, neighbours coalesced. Not thread-safe.
class FreeExtents {
 public:
  /// Takes `size` bytes at a multiple of `alignment` from the smallest free extent that has them;
  /// the lowest of equals.
  std::optional<std::uint64_t> take(std::uint64_t size, std::uint64_t alignment = 1) {
    for (auto best = by_size_.lower_bound({size, 0}); best != by_size_.end(); ++best) {
      const auto [extent, base] = *best;
      const std::uint64_t skipped = (alignment - base % alignment) % alignment;
      if (skipped > extent - size) continue;
      Entries entries = remove(by_base_.find(base));
      if (extent > skipped + size)
        insert(std::move(entries), base + skipped + size, extent - skipped - size);
      if (skipped > 0) insert({}, base, skipped);
      return base + skipped;
    }
    return std::nullopt;
  }

  /// Gives [base, base + size) back. @return the free extent that it is part of now.
  std::pair<std::uint64_t, std::uint64_t> give(std::uint64_t base, std::uint64_t size) {
    Entries entries;
    const auto next = by_base_.lower_bound(base);
    const auto previous = next == by_base_.begin() ? by_base_.end() : std::prev(next);
    if (next != by_base_.end() && next->first == base + size) {
      size += next->second;
      entries = remove(next);
    }
    if (previous != by_base_.end() && previous->first + previous->second == base) {
      base = previous->first;
      size += previous->second;
      entries = remove(previous);
    }
    insert(std::move(entries), base, size);
    return {base, size};
  }

  /// Takes [base, base + size), which must be a free extent as give() returned it.
  void take_exactly(std::uint64_t base) { remove(by_base_.find(base)); }

 private:
  using ByBase = std::map<std::uint64_t, std::uint64_t>;
  using BySize = std::set<std::pair<std::uint64_t, std::uint64_t>>;
  /// An extent's, which were removed: another may have their memory.
  struct Entries {
    ByBase::node_type of_base{};
    BySize::node_type of_size{};
  };

  void insert(Entries entries, std::uint64_t base, std::uint64_t size) {
    if (entries.of_base.empty()) {
      by_base_.emplace(base, size);
      by_size_.emplace(size, base);
      return;
    }
    entries.of_base.key() = base;
    entries.of_base.mapped() = size;
    by_base_.insert(std::move(entries.of_base));
    entries.of_size.value() = {size, base};
    by_size_.insert(std::move(entries.of_size));
  }
  Entries remove(ByBase::iterator extent) {
    auto of_size = by_size_.extract({extent->second, extent->first});
    return {by_base_.extract(extent), std::move(of_size)};
  }
  ByBase by_base_;
  BySize by_size_;
};

}  // namespace phantora::rank
