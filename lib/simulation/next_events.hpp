#pragma once

#include <phantora/units.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace phantora::detail {

/// When each of many things, numbered from 0, changes next by itself: the earliest of all, and in
/// order those that are due.
///
/// A tournament: the leaves are the instants, each node above has the earlier of its two, so that a
/// change goes up only as far as it is the earliest. EarliestEnd of the network is for many writes
/// between two questions and has room for 4,096 from the start; here each event writes one or two
/// and asks, things that are due change one another while they are visited, and each GPU has one.
class NextEvents {
 public:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  void set(std::uint32_t slot, Time next) {
    if (slot >= leaves_) grow(slot);
    std::size_t node = leaves_ + slot;
    if (std::exchange(earliest_[node], next) == next) return;
    while ((node /= 2) > 0) {
      const Time least = std::min(earliest_[2 * node], earliest_[2 * node + 1]);
      if (std::exchange(earliest_[node], least) == least) break;
    }
  }

  [[nodiscard]] Time earliest() const noexcept { return leaves_ == 0 ? never : earliest_[1]; }

  /// The first slot from `from` on whose instant is not after `now`, which is before `never`.
  [[nodiscard]] std::uint32_t first_due(std::uint32_t from, Time now) const noexcept {
    if (from >= leaves_ || earliest_[1] > now) return none;
    std::size_t node = leaves_ + from;
    while (earliest_[node] > now) {
      while (node % 2 == 1) node /= 2;  // nothing is to its right below the node above
      if (node == 0) return none;
      ++node;
    }
    while (node < leaves_) {
      node *= 2;
      if (earliest_[node] > now) ++node;
    }
    return static_cast<std::uint32_t>(node - leaves_);
  }

 private:
  void grow(std::uint32_t slot) {
    const std::vector<Time> before = std::move(earliest_);
    const std::size_t count = std::exchange(leaves_, std::max<std::size_t>(leaves_, 1));
    while (leaves_ <= slot) leaves_ *= 2;
    earliest_.assign(2 * leaves_, never);
    std::copy_n(before.begin() + static_cast<std::ptrdiff_t>(count), count,
                earliest_.begin() + static_cast<std::ptrdiff_t>(leaves_));
    for (std::size_t node = leaves_; --node > 0;)
      earliest_[node] = std::min(earliest_[2 * node], earliest_[2 * node + 1]);
  }

  std::size_t leaves_ = 0;  ///< a power of two
  /// Node 1 is the root, the children of node n are 2n and 2n + 1, leaves are the last half.
  std::vector<Time> earliest_{};
};

}  // namespace phantora::detail
