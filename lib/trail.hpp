#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace phantora {

/// A growing record whose old end is dropped: positions count from the very first item.
template <class T>
class Trail {
 public:
  void push(T item) { items_.push_back(std::move(item)); }
  [[nodiscard]] std::uint64_t end() const noexcept { return dropped_ + items_.size(); }
  [[nodiscard]] std::uint64_t begin() const noexcept { return dropped_ + head_; }
  [[nodiscard]] bool empty() const noexcept { return head_ == items_.size(); }
  [[nodiscard]] T& operator[](std::uint64_t at) noexcept {
    return items_[static_cast<std::size_t>(at - dropped_)];
  }
  [[nodiscard]] T& back() noexcept { return items_.back(); }
  [[nodiscard]] const T& back() const noexcept { return items_.back(); }
  void cut_back(std::uint64_t to) { items_.resize(static_cast<std::size_t>(to - dropped_)); }
  /// Drops everything before a position; memory is given back once half of it is unused.
  void drop_before(std::uint64_t at) {
    head_ = static_cast<std::size_t>(at - dropped_);
    if (head_ < 1024 || head_ < items_.size() / 2) return;
    items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(head_));
    dropped_ = at;
    head_ = 0;
    if (items_.capacity() > 4 * items_.size() + 1024) items_.shrink_to_fit();
  }
  [[nodiscard]] std::size_t size() const noexcept { return items_.size() - head_; }

 private:
  std::vector<T> items_;
  std::size_t head_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace phantora
