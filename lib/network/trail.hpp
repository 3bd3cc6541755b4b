#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

namespace phantora {

/// A growing list whose old end is dropped: positions count from the very first item.
template <class T>
class Trail {
 public:
  void push(T item) { items_.push_back(std::move(item)); }
  [[nodiscard]] std::uint64_t begin() const noexcept { return dropped_; }
  [[nodiscard]] std::uint64_t end() const noexcept { return dropped_ + items_.size(); }
  [[nodiscard]] bool empty() const noexcept { return items_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return items_.size(); }
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
    const auto found = std::partition_point(items_.begin(), items_.end(),
                                            [&](const T& item) { return !predicate(item); });
    return found == items_.end() ? nullptr : &*found;
  }
  /// Drops the youngest items that satisfy a predicate.
  template <class Predicate>
  void cut_while(Predicate predicate) {
    while (!empty() && predicate(back())) items_.pop_back();
  }
  void cut_back(std::uint64_t to) { items_.erase(iterator_at(to), items_.end()); }
  template <class Predicate>
  void erase_if(Predicate predicate) {
    std::erase_if(items_, predicate);
  }
  /// Drops the oldest items that satisfy a predicate.
  template <class Predicate>
  void drop_while(Predicate predicate) {
    while (!empty() && predicate(items_.front())) {
      items_.pop_front();
      ++dropped_;
    }
  }
  /// Drops all items before a position.
  void drop_to(std::uint64_t to) {
    items_.erase(items_.begin(), iterator_at(to));
    dropped_ = to;
  }

 private:
  [[nodiscard]] auto iterator_at(std::uint64_t at) {
    return items_.begin() + static_cast<std::ptrdiff_t>(at - dropped_);
  }

  // In blocks: neither end's growth moves what is kept, and memory goes back as the old end does.
  std::deque<T> items_;
  std::uint64_t dropped_ = 0;
};

}  // namespace phantora
