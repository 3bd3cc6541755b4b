#pragma once

#include "rank/memory/extents.hpp"

#include <cstdint>
#include <map>
#include <utility>

namespace phantora::rank {

/// What can be told of ranges of memory whose bytes are too many to be kept: which share of a
/// mask's flags is set, how its elements are computed. Gone as soon as anything is written there.
/// Not thread-safe.
template <class T>
class NotedRanges {
 public:
  void note(std::uint64_t address, std::uint64_t bytes, T what) {
    forget(address, bytes);
    noted_.emplace(address, Noted{address + bytes, std::move(what)});
  }
  /// Something was written there. Costs nothing while nothing is noted.
  void forget(std::uint64_t address, std::uint64_t bytes) {
    if (noted_.empty()) return;
    for (auto at = first_beyond(noted_, address);
         at != noted_.end() && at->first < address + bytes;)
      at = noted_.erase(at);
  }
  /// Of the bytes that begin at `address` and were noted together; nullptr: nothing.
  [[nodiscard]] const T* of(std::uint64_t address, std::uint64_t bytes) const {
    const auto found = noted_.find(address);
    return found != noted_.end() && found->second.end == address + bytes ? &found->second.what
                                                                         : nullptr;
  }
  /// Of a range that holds all of them, and how far into it they begin; nullptr: none does.
  struct Part {
    const T* what = nullptr;
    std::uint64_t offset = 0;
  };
  [[nodiscard]] Part holding(std::uint64_t address, std::uint64_t bytes) const {
    if (noted_.empty()) return {};
    const auto found = first_beyond(noted_, address);
    if (found == noted_.end() || found->first > address || found->second.end < address + bytes)
      return {};
    return {&found->second.what, address - found->first};
  }

 private:
  struct Noted {
    std::uint64_t end = 0;
    T what;
  };
  std::map<std::uint64_t, Noted> noted_;  ///< by where they begin; none overlap
};

}  // namespace phantora::rank
