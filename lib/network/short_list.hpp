#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace phantora {

/// A list whose first few items need no memory of their own.
///
/// Of a hundred thousand links most carry a few flows. To find these in the list itself, and not on
/// the heap, spares a cache miss for each link of each flow that comes or goes.
template <class Item>
class ShortList {
  static_assert(std::is_trivially_copyable_v<Item>);

 public:
  ShortList() noexcept : here_{} {}
  ShortList(const ShortList&) = delete;
  ShortList& operator=(const ShortList&) = delete;
  ~ShortList() {
    if (capacity_ != few) delete[] there_;
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] Item* begin() noexcept { return capacity_ == few ? here_ : there_; }
  [[nodiscard]] const Item* begin() const noexcept { return capacity_ == few ? here_ : there_; }
  [[nodiscard]] const Item* end() const noexcept { return begin() + size_; }
  [[nodiscard]] Item& operator[](std::size_t i) noexcept { return begin()[i]; }
  [[nodiscard]] const Item& operator[](std::size_t i) const noexcept { return begin()[i]; }
  [[nodiscard]] const Item& front() const noexcept { return *begin(); }
  [[nodiscard]] const Item& back() const noexcept { return begin()[size_ - 1]; }

  void push_back(Item item) {
    if (size_ == capacity_) grow();
    begin()[size_++] = item;
  }
  void pop_back() noexcept { --size_; }

 private:
  static constexpr std::uint32_t few = 16 / sizeof(Item);

  /// By an eighth: see make_room().
  void grow() {
    const std::uint32_t capacity = std::max(size_ + 2, size_ + 1 + (size_ + 1) / 8);
    Item* items = new Item[capacity];
    std::copy(begin(), begin() + size_, items);
    if (capacity_ != few) delete[] there_;
    there_ = items;
    capacity_ = capacity;
  }

  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = few;
  union {
    Item here_[few];
    Item* there_;  ///< once there have been more than `few`
  };
};

}  // namespace phantora
