#pragma once

#include <cstdint>

namespace phantora::rank {

/// A hash of words, of launches and the like: a sum of folded products of two words each, as wyhash
/// has them. No product waits for the one before, which every launch would wait for.
class WordHash {
 public:
  explicit WordHash(std::uint64_t begin = 0) noexcept : value_{begin} {}
  void mix(std::uint64_t one, std::uint64_t other = 0) noexcept {
    // Other numbers for each place: multiples of 2^64 over the golden ratio and over the square
    // root of two.
    first_ += 0x9e37'79b9'7f4a'7c15U;
    second_ += 0xb504'f333'f9de'6485U;
    const Product product = Product{one ^ first_} * (other ^ second_);
    value_ += static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
  }
  [[nodiscard]] std::uint64_t value() const noexcept { return value_; }

 private:
  __extension__ typedef unsigned __int128 Product;

  std::uint64_t value_;
  std::uint64_t first_ = 0, second_ = 0;
};

}  // namespace phantora::rank
