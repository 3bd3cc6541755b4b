#pragma once

#include "network/room.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace phantora {

/// A growing list whose old end is dropped: positions count from the very first item.
template <class T>
class Trail {
 public:
  void push(T item) {
    make_room(items_, 1);
    items_.push_back(std::move(item));
  }
  [[nodiscard]] std::uint64_t end() const noexcept { return dropped_ + items_.size(); }
  [[nodiscard]] std::uint64_t begin() const noexcept { return dropped_ + head_; }
  [[nodiscard]] bool empty() const noexcept { return head_ == items_.size(); }
  [[nodiscard]] T& operator[](std::uint64_t at) noexcept {
    return items_[static_cast<std::size_t>(at - dropped_)];
  }
  [[nodiscard]] const T& operator[](std::uint64_t at) const noexcept {
    return items_[static_cast<std::size_t>(at - dropped_)];
  }
  [[nodiscard]] T& back() noexcept { return items_.back(); }
  [[nodiscard]] const T& back() const noexcept { return items_.back(); }
  /// The first item that satisfies a predicate, which all that follow do; null if none does.
  template <class Predicate>
  [[nodiscard]] const T* find_first(Predicate predicate) const {
    const auto begin = items_.begin() + static_cast<std::ptrdiff_t>(head_);
    const auto found =
        std::partition_point(begin, items_.end(), [&](const T& item) { return !predicate(item); });
    return found == items_.end() ? nullptr : &*found;
  }
  /// Drops the youngest items that satisfy a predicate.
  template <class Predicate>
  void cut_while(Predicate predicate) {
    while (!empty() && predicate(back())) items_.pop_back();
  }
  void cut_back(std::uint64_t to) {
    items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(to - dropped_), items_.end());
  }
  template <class Predicate>
  void erase_if(Predicate predicate) {
    items_.erase(std::remove_if(items_.begin() + static_cast<std::ptrdiff_t>(head_), items_.end(),
                                predicate),
                 items_.end());
  }
  /// Drops the oldest items that satisfy a predicate; memory is given back once half is unused.
  template <class Predicate>
  void drop_while(Predicate predicate) {
    std::uint64_t to = begin();
    while (to < end() && predicate((*this)[to])) ++to;
    drop_to(to);
  }
  /// Drops all items before a position.
  void drop_to(std::uint64_t to) {
    head_ = static_cast<std::size_t>(to - dropped_);
    if (head_ < 1024 || head_ < items_.size() / 2) return;
    items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(head_));
    dropped_ += head_;
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
