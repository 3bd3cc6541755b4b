#pragma once

#include <atomic>

#include <sys/syscall.h>
#include <unistd.h>

namespace phantora::rank {

/// For sections of some nanoseconds, and for the account of waits itself: the C library's locks are
/// hooked, and waiting for one is accounted for.
class SpinLock {
 public:
  void lock() noexcept {
    while (taken_.test_and_set(std::memory_order_acquire)) syscall(SYS_sched_yield);
  }
  void unlock() noexcept { taken_.clear(std::memory_order_release); }

 private:
  std::atomic_flag taken_{};
};

}  // namespace phantora::rank
