#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>

namespace phantora::rank {

/// Of flags that are too many to be kept, which share is set, where whoever wrote them could tell:
/// a mask of tokens, expanded to the tokens' features, selects as many of these as the program
/// expects. Not thread-safe.
class FlagShares {
 public:
  /// Those of `bytes` from `address` on.
  void note(std::uint64_t address, std::size_t bytes, double share) {
    forget(address, bytes);
    noted_[address] = {address + bytes, share};
  }
  /// Something was written there. Costs nothing while nothing is noted.
  void forget(std::uint64_t address, std::size_t bytes) {
    if (noted_.empty()) return;
    auto at = noted_.upper_bound(address);
    if (at != noted_.begin() && std::prev(at)->second.end > address) --at;
    while (at != noted_.end() && at->first < address + bytes) at = noted_.erase(at);
  }
  /// Of the flags that begin at `address` and were noted together.
  [[nodiscard]] std::optional<double> of(std::uint64_t address, std::size_t bytes) const {
    const auto found = noted_.find(address);
    if (found == noted_.end() || found->second.end != address + bytes) return std::nullopt;
    return found->second.share;
  }

 private:
  struct Noted {
    std::uint64_t end = 0;
    double share = 0;
  };
  std::map<std::uint64_t, Noted> noted_;  ///< by where they begin; none overlap
};

}  // namespace phantora::rank
