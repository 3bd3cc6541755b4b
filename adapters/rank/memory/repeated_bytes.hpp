#pragma once

#include "rank/memory/extents.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>

namespace phantora::rank {

/// Ranges of addresses that hold one element over and over, as memset and fill kernels leave them:
/// known in full at no cost per byte. Not thread-safe.
class RepeatedBytes {
 public:
  /// 16 bytes hold every element size (1 to 16, powers of two) a whole number of times. The byte at
  /// address a is word[a % 16], so that a part of a range has the range's word.
  using Word = std::array<std::byte, 16>;

  /// The word of a range at `address` that starts with `element`, of 1, 2, 4, 8 or 16 bytes.
  static Word word_of(std::uint64_t address, std::span<const std::byte> element) {
    Word first{};
    // By arithmetic: copying from what was just written would wait for that to leave the core.
    const auto repeat = [&](auto part, std::uint64_t times) {
      std::memcpy(&part, element.data(), sizeof part);
      const std::uint64_t half = part * times;
      first = std::bit_cast<Word>(std::array{half, half});
    };
    switch (element.size()) {
      case 1:
        repeat(std::uint8_t{}, 0x0101'0101'0101'0101U);
        break;
      case 2:
        repeat(std::uint16_t{}, 0x0001'0001'0001'0001U);
        break;
      case 4:
        repeat(std::uint32_t{}, 0x0000'0001'0000'0001U);
        break;
      case 8:
        repeat(std::uint64_t{}, 1U);
        break;
      default:
        std::memcpy(first.data(), element.data(), std::min(element.size(), first.size()));
    }
    return (address & (element.size() - 1)) == 0 ? first : moved(first, address);
  }
  /// The word after everything has moved by `distance` (which may be negative, modulo 2^64).
  static Word moved(const Word& word, std::uint64_t distance) {
    const std::size_t beyond = distance % word.size();
    if (beyond == 0) return word;  // as between most allocations
    Word result{};
    std::memcpy(result.data() + beyond, word.data(), word.size() - beyond);
    std::memcpy(result.data(), word.data() + (word.size() - beyond), beyond);
    return result;
  }

  /// Replaces what was known of [begin, end).
  void set(std::uint64_t begin, std::uint64_t end, const Word& word) {
    if (begin == end) return;
    // What is filled is mostly what was filled before.
    if (const auto same = ranges_.find(begin); same != ranges_.end() && same->second.end == end) {
      same->second.word = word;
      return;
    }
    erase(begin, end);
    ranges_.emplace(begin, Range{end, word});
  }

  void erase(std::uint64_t begin, std::uint64_t end) {
    if (begin == end) return;
    auto at = first_beyond(ranges_, begin);
    while (at != ranges_.end() && at->first < end) {
      const auto [from, range] = *at;
      at = ranges_.erase(at);
      if (from < begin) ranges_.emplace(from, Range{begin, range.word});
      if (end < range.end) ranges_.emplace(end, Range{range.end, range.word});
    }
  }

  /// Calls visit(from, to, word) for each part of [begin, end) that is held here, in order.
  template <class F>
  void visit(std::uint64_t begin, std::uint64_t end, F f) const {
    for (auto at = first_beyond(ranges_, begin); at != ranges_.end() && at->first < end; ++at) {
      f(std::max(begin, at->first), std::min(end, at->second.end), at->second.word);
    }
  }

  /// What all of [begin, end) repeats, if one range holds it.
  [[nodiscard]] std::optional<Word> word_throughout(std::uint64_t begin, std::uint64_t end) const {
    const auto at = first_beyond(ranges_, begin);
    if (at == ranges_.end() || at->first > begin || at->second.end < end) return std::nullopt;
    return at->second.word;
  }

  [[nodiscard]] bool overlaps(std::uint64_t begin, std::uint64_t end) const {
    const auto at = first_beyond(ranges_, begin);
    return at != ranges_.end() && at->first < end;
  }

 private:
  struct Range {
    std::uint64_t end = 0;
    Word word{};
  };
  std::map<std::uint64_t, Range> ranges_;  // by begin; disjoint
};

}  // namespace phantora::rank
