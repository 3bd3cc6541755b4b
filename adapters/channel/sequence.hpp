#pragma once

#include "channel/futex.hpp"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <limits>

namespace phantora::channel {

/// A number in shared memory that one raises and others wait for, also across processes. Raising it
/// is a system call only while somebody sleeps.
class Sequence {
 public:
  /// Whoever finds it raised sees what was written before.
  [[nodiscard]] std::uint32_t value() const noexcept {
    return value_.load(std::memory_order_acquire);
  }
  void raise() noexcept {
    // In one order with a sleeper's count of itself: either it is seen here, or the kernel finds
    // the number raised when it is to put it to sleep.
    value_.fetch_add(1);
    if (sleepers_.load() != 0) futex(value_, FUTEX_WAKE, std::numeric_limits<int>::max());
  }
  /// Sleeps while the number is `seen`: for a second at most unless told otherwise, since whoever
  /// raises it may be gone.
  /// @return whether it did not sleep for so long.
  bool sleep(std::uint32_t seen, timespec patience = {1, 0}) noexcept {
    sleepers_.fetch_add(1);
    const long result = futex(value_, FUTEX_WAIT, seen, &patience);
    sleepers_.fetch_sub(1);
    return result != -ETIMEDOUT;
  }
  [[nodiscard]] std::uint32_t sleepers() const noexcept { return sleepers_.load(); }

 private:
  std::atomic<std::uint32_t> value_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace phantora::channel
