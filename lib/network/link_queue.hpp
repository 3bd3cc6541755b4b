#pragma once

#include "network/table.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace phantora {

/// The links that wait for evaluation, the least level first: a tournament over all links.
///
/// A solve queues and requeues the same few links hundreds of times. Here each link has one place,
/// so that a write costs the few rounds whose winner it changes, and no outdated entry is ever
/// found.
class LinkQueue {
 public:
  static constexpr double not_queued = std::numeric_limits<double>::infinity();

  explicit LinkQueue(std::size_t links) {
    rounds_.emplace_back(padded(links), not_queued);
    while (rounds_.back().size() > width)
      rounds_.emplace_back(padded(rounds_.back().size() / width), not_queued);
  }

  [[nodiscard]] double level(std::uint32_t link) const noexcept { return rounds_.front()[link]; }
  [[nodiscard]] bool queued(std::uint32_t link) const noexcept { return level(link) != not_queued; }
  /// The least level; not_queued when empty.
  [[nodiscard]] double least() const noexcept { return winner(rounds_.back().data()); }

  void prefetch(std::uint32_t link) const noexcept {
    __builtin_prefetch(&rounds_.front()[link], 1);
  }

  void set(std::uint32_t link, double level) noexcept {
    std::size_t at = link;
    for (Table<double>& round : rounds_) {
      const double before = round[at];
      round[at] = level;
      const std::size_t block = at / width;
      if (&round == &rounds_.back()) return;
      const double shown = (&round)[1][block];
      if (level <= shown) {
        if (level == shown) return;
      } else {
        if (before != shown) return;  // another link had won
        level = winner(&round[block * width]);
        if (level == shown) return;
      }
      at = block;
    }
  }

  /// Takes out the link of the least level, the first of several with that level; not when empty.
  std::uint32_t pop() noexcept {
    std::size_t at = 0;
    for (std::size_t r = rounds_.size(); r-- > 0;) {
      const double* block = &rounds_[r][at * width];
      const double least = r + 1 == rounds_.size() ? winner(block) : rounds_[r + 1][at];
      std::size_t i = 0;
      while (block[i] != least) ++i;
      at = at * width + i;
    }
    set(static_cast<std::uint32_t>(at), not_queued);
    return static_cast<std::uint32_t>(at);
  }

 private:
  static constexpr std::size_t width = 16;
  static std::size_t padded(std::size_t n) {
    return std::max<std::size_t>(1, (n + width - 1) / width) * width;
  }
  static double winner(const double* block) noexcept {
    // Four chains, so that the comparisons overlap.
    double a = block[0], b = block[1], c = block[2], d = block[3];
    for (std::size_t i = 4; i < width; i += 4) {
      a = std::min(a, block[i]);
      b = std::min(b, block[i + 1]);
      c = std::min(c, block[i + 2]);
      d = std::min(d, block[i + 3]);
    }
    return std::min(std::min(a, b), std::min(c, d));
  }

  std::vector<Table<double>> rounds_;
};

}  // namespace phantora
