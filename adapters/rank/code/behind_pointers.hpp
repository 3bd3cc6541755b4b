#pragma once

#include "rank/code/launch_memory.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace phantora::rank {

/// Memory that a launch reaches, told by the pointers among its parameters, so that other launches
/// of the kernel, which have theirs elsewhere, can be asked what lies there.
class BehindPointers {
 public:
  BehindPointers() = default;
  /// @param reached    by a launch
  /// @param constants  of that launch: constant bank 0
  BehindPointers(const std::vector<AddressRange>& reached, std::span<const std::byte> constants);
  /// Where that is for a launch with these constants.
  [[nodiscard]] std::vector<AddressRange> ranges(std::span<const std::byte> constants) const;
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
