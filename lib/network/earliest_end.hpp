#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace phantora {

/// The earliest of many instants that change all the time.
///
/// An event moves some ends and asks for the earliest once or twice, so writing must be cheap: a
/// write marks its block of 16 instants, and asking goes up from the marked blocks, through blocks
/// of blocks, as far as anything changes.
class EarliestEnd {
 public:
  static constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();

  void set(std::uint32_t slot, std::int64_t end) {
    const std::uint32_t block = slot / width;
    if (block >= marked_.size()) grow(slot);
    least_[0][slot] = end;
    if (!marked_[block]) {
      marked_[block] = 1;
      marks_.push_back(block);
    }
  }

  [[nodiscard]] std::int64_t get(std::uint32_t slot) const noexcept {
    return slot < least_[0].size() ? least_[0][slot] : none;
  }

  [[nodiscard]] std::int64_t earliest() const noexcept {
    refresh();
    return earliest_;
  }

  /// Calls visit(slot) for each slot whose end is `end`; it may set() the slot visited.
  template <class Visit>
  void for_each_at(std::int64_t end, Visit visit) {
    if (earliest() > end) return;
    visit_from(top, 0, static_cast<std::uint32_t>(least_[top].size()), end, visit);
  }

 private:
  static constexpr std::uint32_t width = 16;
  static constexpr std::size_t top = 3;

  void grow(std::uint32_t slot) {
    // Whole blocks on all levels.
    std::size_t size = slot / (width * width * width) + 1;
    for (std::size_t level = top; level > 0; --level, size *= width)
      least_[level].resize(size, none);
    least_[0].resize(size, none);
    marked_.resize(size / width, 0);
  }

  [[nodiscard]] std::int64_t least_of(std::size_t level, std::uint32_t block) const noexcept {
    const std::int64_t* const first = &least_[level][std::size_t{block} * width];
    return *std::min_element(first, first + width);
  }

  void refresh() const noexcept {
    if (marks_.empty()) return;
    for (const std::uint32_t mark : marks_) {
      marked_[mark] = 0;
      std::uint32_t block = mark;
      std::int64_t now = least_of(0, block);
      std::int64_t before = std::exchange(least_[1][block], now);
      for (std::size_t level = 2; level <= top && now != before; ++level) {
        block /= width;
        std::int64_t& above = least_[level][block];
        if (now > above && before != above) break;  // another block is the earliest there
        const std::int64_t least = now <= above ? now : least_of(level - 1, block);
        before = std::exchange(above, least);
        now = least;
      }
    }
    marks_.clear();
    earliest_ = none;
    for (const std::int64_t block : least_[top]) earliest_ = std::min(earliest_, block);
  }

  template <class Visit>
  void visit_from(std::size_t level, std::uint32_t first, std::uint32_t last, std::int64_t end,
                  Visit& visit) {
    for (std::uint32_t i = first; i < last; ++i) {
      if (least_[level][i] != end) continue;
      if (level == 0) {
        visit(i);
      } else {
        visit_from(level - 1, i * width, (i + 1) * width, end, visit);
      }
    }
  }

  /// The least end of each slot, and of 16, 256 and 4,096 slots together; all levels but the first
  /// are caches of the one below.
  mutable std::array<std::vector<std::int64_t>, top + 1> least_;
  mutable std::vector<char> marked_;
  mutable std::vector<std::uint32_t> marks_;
  mutable std::int64_t earliest_ = none;  ///< unless a block is marked
};

}  // namespace phantora
