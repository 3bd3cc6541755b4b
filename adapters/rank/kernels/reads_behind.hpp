#pragma once

#include "rank/kernels/launch_memory.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace phantora::rank {

/// What a launch read, told by the pointers among its parameters, so that other launches of the
/// kernel, which have theirs elsewhere, can be asked whether the same lies there.
class ReadsBehind {
 public:
  /// @param constants  of the launch: constant bank 0
  ReadsBehind(const std::vector<AddressRange>& read, std::span<const std::byte> constants);
  /// A hash of what is known there for a launch with these constants.
  [[nodiscard]] std::uint64_t content(std::span<const std::byte> constants) const;

 private:
  struct Range {
    std::size_t pointer = 0;            ///< where it lies in the constants, behind which this is
    std::uint64_t first = 0, last = 0;  ///< bytes behind it; the byte after the last
    bool elsewhere = false;             ///< behind none of them: these are addresses
  };
  std::vector<Range> ranges_{};
};

}  // namespace phantora::rank
