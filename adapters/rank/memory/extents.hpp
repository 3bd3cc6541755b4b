#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace phantora::rank {

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
      by_size_.erase(best);
      by_base_.erase(base);
      if (skipped > 0) insert(base, skipped);
      if (extent > skipped + size) insert(base + skipped + size, extent - skipped - size);
      return base + skipped;
    }
    return std::nullopt;
  }

  /// Gives [base, base + size) back. @return the free extent that it is part of now.
  std::pair<std::uint64_t, std::uint64_t> give(std::uint64_t base, std::uint64_t size) {
    const auto next = by_base_.lower_bound(base);
    if (next != by_base_.end() && next->first == base + size) {
      size += next->second;
      remove(next);
    }
    const auto after = by_base_.lower_bound(base);
    if (after != by_base_.begin()) {
      const auto previous = std::prev(after);
      if (previous->first + previous->second == base) {
        base = previous->first;
        size += previous->second;
        remove(previous);
      }
    }
    insert(base, size);
    return {base, size};
  }

  /// Takes [base, base + size), which must be a free extent as give() returned it.
  void take_exactly(std::uint64_t base) { remove(by_base_.find(base)); }

 private:
  void insert(std::uint64_t base, std::uint64_t size) {
    by_base_.emplace(base, size);
    by_size_.emplace(size, base);
  }
  void remove(std::map<std::uint64_t, std::uint64_t>::iterator extent) {
    by_size_.erase({extent->second, extent->first});
    by_base_.erase(extent);
  }
  std::map<std::uint64_t, std::uint64_t> by_base_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;
};

}  // namespace phantora::rank
