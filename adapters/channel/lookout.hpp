#pragma once

#include <algorithm>
#include <cstdint>

#include <x86intrin.h>

namespace phantora::channel {

/// Looks for something for a little before its owner sleeps until it comes. To sleep and be woken
/// takes both sides some microseconds of a core, and one of them waits for 10 or more. To look as
/// long at most costs no more than twice the better of the two, whatever comes; and who has looked
/// in vain looks the more seldom the more often that was so.
///
/// For whoever has a core to spare: where others wait for one, looking holds them up.
class Lookout {
 public:
  /// Of the processor's counter: 10 to 25 us at 5 to 2 GHz.
  static constexpr std::uint64_t longest_ticks = 50'000;
  static constexpr int most_skipped = 63;

  /// Whether `come()` is true now, or becomes so in a little.
  template <class Come>
  bool sees(Come come) noexcept {
    if (come()) {
      to_skip_ = skipped_at_once_ = 0;
      return true;
    }
    if (to_skip_ > 0) {
      --to_skip_;
      return false;
    }
    const std::uint64_t begin = __rdtsc();
    do {
      _mm_pause();
      if (!come()) continue;
      skipped_at_once_ = 0;
      return true;
    } while (__rdtsc() - begin < longest_ticks);
    to_skip_ = skipped_at_once_ = std::min(2 * skipped_at_once_ + 1, most_skipped);
    return false;
  }

 private:
  int to_skip_ = 0;          ///< times yet to come when it does not look
  int skipped_at_once_ = 0;  ///< since it last looked in vain
};

}  // namespace phantora::channel
