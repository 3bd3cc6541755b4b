#pragma once

#include <phantora/network/network_view.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace phantora {

/// Sums what a collective puts on each link.
class LinkLoads {
 public:
  void add(std::span<const LinkUse> route, double bytes) {
    for (const LinkUse& use : route) loads_.push_back({use.link, use.bytes_per_byte * bytes});
    if (loads_.size() >= 2 * merged_ + 1024) merge();
  }
  [[nodiscard]] std::vector<LinkUse> uses() && {
    merge();
    return std::move(loads_);
  }

 private:
  /// Sorts by link and sums, in the order in which they were added.
  void merge() {
    std::stable_sort(loads_.begin(), loads_.end(),
                     [](const LinkUse& a, const LinkUse& b) { return a.link < b.link; });
    std::size_t kept = 0;
    for (const LinkUse& use : loads_) {
      if (kept > 0 && loads_[kept - 1].link == use.link) {
        loads_[kept - 1].bytes_per_byte += use.bytes_per_byte;
      } else {
        loads_[kept++] = use;
      }
    }
    loads_.resize(kept);
    merged_ = kept;
  }

  std::vector<LinkUse> loads_;
  std::size_t merged_ = 0;
};

}  // namespace phantora
