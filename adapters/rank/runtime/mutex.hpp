#pragma once

#include "channel/futex.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>  // for those who hold one: std::lock_guard and others

namespace phantora::rank {

/// A mutex for state of our own. The C library's are hooked (libc/locks.cpp), since a program's
/// waits for one are accounted for. Ours are none of the program's, and through the hooks they
/// would cost four calls each where this one, while it is free, costs none.
///
/// Who finds it taken sleeps, unlike with SpinLock. The states are those of mutex2 in U. Drepper,
/// "Futexes Are Tricky".
class Mutex {
 public:
  constexpr Mutex() noexcept = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() noexcept {
    if (!try_lock()) [[unlikely]]
      wait();
  }
  bool try_lock() noexcept {
    std::uint32_t found = free;
    return state_.compare_exchange_strong(found, taken, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  void unlock() noexcept {
    if (state_.exchange(free, std::memory_order_release) == awaited) [[unlikely]]
      wake();
  }

 private:
  static constexpr std::uint32_t free = 0, taken = 1;
  static constexpr std::uint32_t awaited = 2;  ///< taken, and somebody may sleep

  // Apart, so that what is inlined stays small.
  [[gnu::cold, gnu::noinline]] void wait() noexcept {
    // Whoever has slept takes it as awaited: others may sleep on.
    while (state_.exchange(awaited, std::memory_order_acquire) != free)
      channel::futex(state_, FUTEX_WAIT_PRIVATE, awaited);
  }
  [[gnu::cold, gnu::noinline]] void wake() noexcept {
    channel::futex(state_, FUTEX_WAKE_PRIVATE, 1);
  }

  std::atomic<std::uint32_t> state_{free};
};

}  // namespace phantora::rank
