#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace phantora {

/// The earliest of many instants that change all the time.
///
/// An event moves some ends and asks for the earliest once or twice, so writing must be cheap:
/// instants lie in blocks of 64, and blocks in pages of 64; a write marks its block, and asking
/// scans marked blocks and their pages.
class EarliestEnd {
 public:
  static constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();

  void set(std::uint32_t slot, std::int64_t end) {
    const std::uint32_t block = slot / width;
    if (block >= marked_.size()) {
      // Whole pages, so that all blocks of a page are there.
      const std::uint32_t pages = block / width + 1;
      ends_.resize(std::size_t{pages} * width * width, none);
      least_of_block_.resize(std::size_t{pages} * width, none);
      least_of_page_.resize(pages, none);
      marked_.resize(std::size_t{pages} * width, 0);
    }
    ends_[slot] = end;
    if (!marked_[block]) {
      marked_[block] = 1;
      marks_.push_back(block);
    }
  }

  [[nodiscard]] std::int64_t get(std::uint32_t slot) const noexcept {
    return slot < ends_.size() ? ends_[slot] : none;
  }

  [[nodiscard]] std::int64_t earliest() const noexcept {
    refresh();
    std::int64_t least = none;
    for (const std::int64_t it : least_of_page_) least = std::min(least, it);
    return least;
  }

  /// Calls visit(slot) for each slot whose end is `end`; it may set() the slot visited.
  template <class Visit>
  void for_each_at(std::int64_t end, Visit visit) {
    refresh();
    for (std::uint32_t page = 0; page < least_of_page_.size(); ++page) {
      if (least_of_page_[page] != end) continue;
      for (std::uint32_t block = page * width; block < (page + 1) * width; ++block) {
        if (least_of_block_[block] != end) continue;
        for (std::uint32_t slot = block * width; slot < (block + 1) * width; ++slot)
          if (ends_[slot] == end) visit(slot);
      }
    }
  }

 private:
  static constexpr std::uint32_t width = 64;

  static std::int64_t least_of(const std::vector<std::int64_t>& of, std::uint32_t block) noexcept {
    std::int64_t least = none;
    for (std::uint32_t i = block * width; i < (block + 1) * width; ++i)
      least = std::min(least, of[i]);
    return least;
  }

  void refresh() const noexcept {
    for (const std::uint32_t block : marks_) {
      marked_[block] = 0;
      const std::int64_t before = least_of_block_[block], now = least_of(ends_, block);
      if (now == before) continue;
      least_of_block_[block] = now;
      std::int64_t& page = least_of_page_[block / width];
      if (now <= page) {
        page = now;
      } else if (page == before) {
        page = least_of(least_of_block_, block / width);
      }
    }
    marks_.clear();
  }

  std::vector<std::int64_t> ends_;
  // Caches of what they say.
  mutable std::vector<std::int64_t> least_of_block_, least_of_page_;
  mutable std::vector<char> marked_;
  mutable std::vector<std::uint32_t> marks_;
};

}  // namespace phantora
