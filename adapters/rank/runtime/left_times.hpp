#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace phantora::rank {

/// Times left at objects (semaphores, condition variables, threads) for whoever comes there. Where
/// two objects share one of the `count` entries the older one's time is lost: whoever comes there
/// goes on by its own clock, as if nothing had been left.
template <std::size_t count>
class LeftTimes {
 public:
  void leave(const void* object, std::int64_t clock_ps) noexcept {
    Left& left = of(object);
    left.clock_ps.store(clock_ps, std::memory_order_relaxed);
    left.object.store(object, std::memory_order_release);
  }
  /// Nothing where no time was left.
  [[nodiscard]] std::optional<std::int64_t> at(const void* object) noexcept {
    const Left& left = of(object);
    if (left.object.load(std::memory_order_acquire) != object) return std::nullopt;
    return left.clock_ps.load(std::memory_order_relaxed);
  }

 private:
  struct Left {
    std::atomic<const void*> object{nullptr};
    std::atomic<std::int64_t> clock_ps{0};
  };
  Left& of(const void* object) noexcept {
    // Semaphores are 32 bytes apart at least.
    return all_[(reinterpret_cast<std::uintptr_t>(object) >> 5U) % count];
  }
  std::array<Left, count> all_{};
};

}  // namespace phantora::rank
