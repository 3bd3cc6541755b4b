#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace phantora {

/// How far a link was from saturation, over the uncommitted time: a list of periods.
///
/// Most links are never near saturation, and of such a link a replay only has to know how much it
/// had to spare. So a period holds the least residual of several states in a row; answers err on
/// the side of saturation.
class LinkHistory {
 public:
  /// Stands for the residual of a link that may be saturated.
  static constexpr std::int64_t closed = std::numeric_limits<std::int64_t>::min();

  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

  explicit LinkHistory(std::int64_t residual) : last_{before_all, residual} {}

  /// Notes that the link has this residual from `at` on, which no earlier call was beyond. Periods
  /// before `committed` may be dropped.
  void push(std::int64_t at, std::int64_t residual, std::int64_t committed) {
    const bool was_closed = last_.least == closed;
    const std::uint32_t room = was_closed != (residual == closed) ? few_states
                               : was_closed                       ? states_ + 1
                                                                  : states_per_period;
    if (last_.from == at || states_ < room) {
      last_.least = std::min(last_.least, residual);
      ++states_;
      if (!was_closed && residual == closed && !older_.empty() && older_.back().least == closed) {
        last_.from = older_.back().from;
        older_.pop_back();
        states_ = few_states;
      }
      return;
    }
    if (last_.from < committed) {
      older_.clear();
    } else if (older_.size() == older_.capacity()) {
      std::size_t stale = 0;
      while (stale + 1 < older_.size() && older_[stale + 1].from < committed) ++stale;
      older_.erase(older_.begin(), older_.begin() + static_cast<std::ptrdiff_t>(stale));
    }
    older_.push_back(last_);
    last_ = {at, residual};
    states_ = 1;
  }

  /// The first instant from `at` on when the residual may be at most `residual`; `at` if it may
  /// have been just before.
  [[nodiscard]] std::int64_t first_below(std::int64_t at, std::int64_t residual) const noexcept {
    std::int64_t first = never;
    for (std::size_t i = older_.size() + 1; i-- > 0;) {
      const Period& period = i < older_.size() ? older_[i] : last_;
      if (period.least <= residual) first = std::max(at, period.from);
      if (period.from < at) break;
    }
    return first;
  }

  /// Notes that from just before `at` on the residuals may have been less by `by`.
  void lower_from(std::int64_t at, std::int64_t by) noexcept {
    for (std::size_t i = older_.size() + 1; i-- > 0;) {
      Period& period = i < older_.size() ? older_[i] : last_;
      if (period.least != closed) period.least -= by;
      if (period.from < at) break;
    }
  }

  /// Notes that since the last push() the residual may have been this one.
  void lower(std::int64_t residual) noexcept { last_.least = std::min(last_.least, residual); }

  /// Forgets what was after an instant.
  void forget_after(std::int64_t at) noexcept {
    while (last_.from > at && !older_.empty()) {
      last_ = older_.back();
      older_.pop_back();
      states_ = states_per_period;
    }
  }

  [[nodiscard]] std::size_t bytes() const noexcept { return older_.size() * sizeof(Period); }

 private:
  static constexpr std::int64_t before_all = std::numeric_limits<std::int64_t>::min();
  // A link that is open or closed for an instant or two is not worth a period.
  static constexpr std::uint32_t few_states = 8;
  static constexpr std::uint32_t states_per_period = 64;
  struct Period {
    std::int64_t from;
    std::int64_t least;
  };

  Period last_;
  std::uint32_t states_ = 1;
  std::vector<Period> older_;
};

}  // namespace phantora
