#pragma once

#include "rank/code/code_walk.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace phantora::rank {

/// Whether a kernel does as much whatever the data are: positions that go on by one in each step,
/// pages of a cache. Then its code is walked with new data now and then only: for the 1st, 2nd, 4th
/// and 8th new data since the last walk, and then for each 16th.
class StableWork {
 public:
  /// Of a launch with data that no launch has had lately. Counts them.
  [[nodiscard]] bool is_taken_to_last() {
    if (alike_ < enough_alike) return false;
    if (++since_walk_ < 1 << (alike_ - enough_alike)) return true;
    since_walk_ = 0;
    return false;
  }
  /// What was walked for the last data, and for new ones.
  void note(const std::optional<CodeWork>& last, const std::optional<CodeWork>& now) {
    alike_ = is_alike(last, now) ? std::min(alike_ + 1, enough_alike + doublings) : 0;
  }

 private:
  static constexpr int enough_alike = 3, doublings = 4;

  static bool is_alike(const std::optional<CodeWork>& x, const std::optional<CodeWork>& y) {
    if (!x || !y) return !x && !y;
    // A third of the standard error that the mean over the walked warps has.
    constexpr double apart = 0.01;
    const auto near = [&](double CodeWork::*what) {
      return std::abs(*x.*what - *y.*what) <= apart * std::max(*x.*what, *y.*what);
    };
    return near(&CodeWork::instructions) && near(&CodeWork::sectors) &&
           near(&CodeWork::read_bytes) && near(&CodeWork::written_bytes) &&
           near(&CodeWork::warp_cycles) && near(&CodeWork::longest_cycles) &&
           near(&CodeWork::half_flops) && near(&CodeWork::atomics);
  }

  int alike_ = 0;       ///< walks that found the same as the one before, one after the other
  int since_walk_ = 0;  ///< new data
};

}  // namespace phantora::rank
