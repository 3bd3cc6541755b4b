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
  /// What is known there for a launch with these constants.
  [[nodiscard]] KnownBytes known(std::span<const std::byte> constants) const;
  [[nodiscard]] std::uint64_t content(std::span<const std::byte> constants) const {
    return known(constants).content;
  }
  bool operator==(const BehindPointers&) const = default;

 private:
  struct Range {
    std::size_t pointer = 0;            ///< where it lies in the constants, behind which this is
    std::uint64_t first = 0, last = 0;  ///< bytes behind it; the byte after the last
    bool elsewhere = false;             ///< behind none of them: these are addresses
    bool operator==(const Range&) const = default;
  };
  std::vector<Range> ranges_{};
};

/// The constants with pointers to device memory told by where they stand to one another and to
/// lines of a cache. Where these are equal, launches do the same behind their pointers, if the same
/// lies there and no addresses do.
std::vector<std::byte> related_pointers(std::span<const std::byte> constants);

/// Whether addresses of device memory are known to lie in these ranges.
bool holds_addresses(const std::vector<AddressRange>& ranges);

}  // namespace phantora::rank
