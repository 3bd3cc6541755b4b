#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

namespace phantora {

/// The earliest of many instants that change all the time.
///
/// An event moves the ends of hundreds of flows and asks for the earliest once, so writing must be
/// cheap: instants lie in blocks of 64, a write marks its block, and asking scans marked blocks.
class EarliestEnd {
 public:
  static constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();

  void set(std::uint32_t slot, std::int64_t end) {
    const std::uint32_t block = slot / width;
    if (block >= blocks_.size()) {
      blocks_.resize(block + 1, filled());
      least_.resize(block + 1, none);
      marked_.resize(block + 1, 0);
    }
    blocks_[block][slot % width] = end;
    if (!marked_[block]) {
      marked_[block] = 1;
      marks_.push_back(block);
    }
  }

  [[nodiscard]] std::int64_t get(std::uint32_t slot) const noexcept {
    return slot / width < blocks_.size() ? blocks_[slot / width][slot % width] : none;
  }

  [[nodiscard]] std::int64_t earliest() const noexcept {
    refresh();
    std::int64_t least = none;
    for (const std::int64_t it : least_) least = std::min(least, it);
    return least;
  }

  /// Calls visit(slot) for each slot whose end is `end`; it may set() the slot visited.
  template <class Visit>
  void for_each_at(std::int64_t end, Visit visit) {
    refresh();
    for (std::uint32_t block = 0; block < least_.size(); ++block) {
      if (least_[block] != end) continue;
      for (std::uint32_t i = 0; i < width; ++i)
        if (blocks_[block][i] == end) visit(block * width + i);
    }
  }

 private:
  static constexpr std::uint32_t width = 64;
  using Block = std::array<std::int64_t, width>;
  static Block filled() {
    Block block;
    block.fill(none);
    return block;
  }

  void refresh() const noexcept {
    for (const std::uint32_t block : marks_) {
      std::int64_t least = none;
      for (const std::int64_t it : blocks_[block]) least = std::min(least, it);
      least_[block] = least;
      marked_[block] = 0;
    }
    marks_.clear();
  }

  std::vector<Block> blocks_;
  // Caches of what the blocks say.
  mutable std::vector<std::int64_t> least_;
  mutable std::vector<char> marked_;
  mutable std::vector<std::uint32_t> marks_;
};

}  // namespace phantora
