#pragma once

#include "rank/runtime/spin_lock.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>

namespace phantora::rank {

/// Where tensors end that lie in larger blocks of an allocator: what launches of kernels that are
/// read wrote last, whether or not anything is known of it. Hangs on the launches alone, so that
/// phantora measure finds the same. A note costs some 10 ns. Thread-safe.
class TensorEnds {
 public:
  static constexpr std::size_t kept = 8192;

  void note(const void* address, std::size_t bytes) {
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    const std::lock_guard lock{lock_};
    ring_[count_++ % kept] = {begin, begin + bytes};
  }
  /// How many writes were noted.
  [[nodiscard]] std::uint64_t count() {
    const std::lock_guard lock{lock_};
    return count_;
  }
  /// From `address` to the end of the latest write there, of the first `before` of them; 0 where
  /// that is not kept.
  [[nodiscard]] std::size_t bytes_from(
      const void* address, std::uint64_t before = std::numeric_limits<std::uint64_t>::max()) {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    const std::lock_guard lock{lock_};
    const std::uint64_t oldest = count_ - std::min<std::uint64_t>(count_, kept);
    for (std::uint64_t i = std::min(count_, before); i-- > oldest;) {
      const Write& write = ring_[i % kept];
      if (write.begin <= at && at < write.end) return write.end - at;
    }
    return 0;
  }

 private:
  struct Write {
    std::uintptr_t begin = 0, end = 0;
  };
  SpinLock lock_{};
  std::array<Write, kept> ring_{};
  std::uint64_t count_ = 0;
};

/// From an address to the end of what wrote there last, as far as this process' TensorEnds tell,
/// else of its allocation; 0 where there is none.
std::size_t bytes_of_tensor(const void* address);

}  // namespace phantora::rank
