#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace phantora {

/// An instant's touch of a link.
struct Touch {
  std::int64_t at = std::numeric_limits<std::int64_t>::min();
  std::int64_t residual = 0;  ///< of the link, before
  bool open = false;          ///< certainly not saturated, before and after
};

/// The touches of one link, by time. The last lies at hand: while nothing is told late it is the
/// only one that matters, and an event notes hundreds.
class TouchList {
 public:
  [[nodiscard]] bool empty() const noexcept { return last_.at == Touch{}.at; }
  [[nodiscard]] std::size_t size() const noexcept { return empty() ? 0 : older_.size() + 1; }
  [[nodiscard]] const Touch& operator[](std::size_t i) const noexcept {
    return i < older_.size() ? older_[i] : last_;
  }
  [[nodiscard]] Touch& operator[](std::size_t i) noexcept {
    return i < older_.size() ? older_[i] : last_;
  }
  /// When it was touched last; before all time if never.
  [[nodiscard]] std::int64_t last() const noexcept { return last_.at; }

  /// Appends a touch, later than all others; those before `committed` may be dropped.
  void push(const Touch& touch, std::int64_t committed) {
    if (last_.at < committed) {
      older_.clear();
    } else if (!empty()) {
      if (older_.size() == older_.capacity()) {
        std::size_t stale = 0;
        while (stale < older_.size() && older_[stale].at < committed) ++stale;
        older_.erase(older_.begin(), older_.begin() + static_cast<std::ptrdiff_t>(stale));
      }
      older_.push_back(last_);
    }
    last_ = touch;
  }
  /// Puts a touch before the i-th.
  void insert(std::size_t i, const Touch& touch) {
    older_.insert(older_.begin() + static_cast<std::ptrdiff_t>(i), touch);
  }
  void erase(std::size_t i) {
    if (i < older_.size()) {
      older_.erase(older_.begin() + static_cast<std::ptrdiff_t>(i));
    } else if (older_.empty()) {
      last_ = Touch{};
    } else {
      last_ = older_.back();
      older_.pop_back();
    }
  }

 private:
  Touch last_;
  std::vector<Touch> older_;
};

}  // namespace phantora
