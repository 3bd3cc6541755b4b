#pragma once

#include <array>
#include <cstdint>

namespace phantora::rank {

/// The Philox 4x32-10 generator as cuRAND seeds it (Salmon et al., "Parallel random numbers: as
/// easy as 1, 2, 3", SC'11; curand_init of curand_kernel.h): the same numbers as on the device.
class Philox {
 public:
  /// @param offset  in numbers: multiples of 4 skip whole blocks.
  Philox(std::uint64_t seed, std::uint64_t subsequence, std::uint64_t offset)
      : key_{low(seed), high(seed)},
        counter_{low(offset / 4), high(offset / 4), low(subsequence), high(subsequence)},
        next_{static_cast<unsigned>(offset % 4)} {
    block_ = generate();
  }

  /// curand4: the next four numbers.
  std::array<std::uint32_t, 4> four() {
    const auto current = block_;
    advance();
    std::array<std::uint32_t, 4> result;
    for (unsigned i = 0; i < 4; ++i) {
      result[i] = next_ + i < 4 ? current[next_ + i] : block_[next_ + i - 4];
    }
    return result;
  }
  /// curand: one number.
  std::uint32_t one() {
    const std::uint32_t result = block_[next_++];
    if (next_ == 4) {
      advance();
      next_ = 0;
    }
    return result;
  }

 private:
  static std::uint32_t low(std::uint64_t v) { return static_cast<std::uint32_t>(v); }
  static std::uint32_t high(std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); }

  void advance() {
    for (std::uint32_t& word : counter_) {
      if (++word != 0) break;
    }
    block_ = generate();
  }

  [[nodiscard]] std::array<std::uint32_t, 4> generate() const {
    // The multipliers and the key's increments are those of the paper, section 4.3.
    constexpr std::uint64_t multiplier_0 = 0xd2511f53, multiplier_1 = 0xcd9e8d57;
    constexpr std::uint32_t weyl_0 = 0x9e3779b9, weyl_1 = 0xbb67ae85;
    constexpr int rounds = 10;
    auto c = counter_;
    auto k = key_;
    for (int round = 0; round < rounds; ++round) {
      const std::uint64_t a = multiplier_0 * c[0], b = multiplier_1 * c[2];
      c = {high(b) ^ c[1] ^ k[0], low(b), high(a) ^ c[3] ^ k[1], low(a)};
      k[0] += weyl_0;
      k[1] += weyl_1;
    }
    return c;
  }

  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 4> block_{};
  unsigned next_;
};

}  // namespace phantora::rank
