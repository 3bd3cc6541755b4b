#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace phantora::detail {

/// Things that come and go, each at an address that stays. What goes leaves its slot to what comes
/// next, with the memory of its lists: where as many have been there before, nothing is allocated.
///
/// T has `void renew()`, which makes it as it was at first, but for its lists' memory.
template <class T>
class Slots {
 public:
  using Slot = std::uint32_t;

  /// The slot of another thing.
  Slot take() {
    if (free_.empty()) {
      if (end_ == blocks_.size() * block_size) blocks_.push_back(std::make_unique<Block>());
      return end_++;
    }
    const Slot slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void give_back(Slot slot) {
    (*this)[slot].renew();
    free_.push_back(slot);
  }
  [[nodiscard]] T& operator[](Slot slot) noexcept {
    return (*blocks_[slot / block_size])[slot % block_size];
  }
  [[nodiscard]] const T& operator[](Slot slot) const noexcept {
    return (*blocks_[slot / block_size])[slot % block_size];
  }
  /// How many slots there have been at once: things that are there, and renewed ones.
  [[nodiscard]] Slot size() const noexcept { return end_; }

 private:
  static constexpr Slot block_size = 64;
  using Block = std::array<T, block_size>;

  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Slot> free_;
  Slot end_ = 0;
};

}  // namespace phantora::detail
