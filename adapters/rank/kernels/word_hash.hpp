#pragma once

#include <cstdint>

namespace phantora::rank {

/// A hash of words, of launches and the like: FNV-1a by words, whose high bits are mixed in.
class WordHash {
 public:
  explicit WordHash(std::uint64_t begin = 0) noexcept : value_{begin} {}
  void mix(std::uint64_t word) noexcept {
    value_ = (value_ ^ word) * 0x100000001b3ULL;
    value_ ^= value_ >> 32U;
  }
  [[nodiscard]] std::uint64_t value() const noexcept { return value_; }

 private:
  std::uint64_t value_;
};

}  // namespace phantora::rank
