#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace phantora::measure {

/// CUPTI's own clock: nanoseconds since 1970.
inline std::uint64_t cupti_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::nanoseconds{now}.count());
}

/// The clock of a profiler of the program's own (PyTorch's counts the processor's ticks), by which
/// CUPTI tells all times once it has been registered.
class OtherClock {
 public:
  using Now = std::uint64_t (*)();

  explicit OtherClock(Now own = cupti_time) : own_{own} {}

  void use(Now other) {
    const std::lock_guard lock{mutex_};
    other_ = other;
    begin_ = pair();
  }

  /// @return nanoseconds from `start` to `end`, two times of one record.
  std::uint64_t nanoseconds(std::uint64_t start, std::uint64_t end) {
    const std::lock_guard lock{mutex_};
    if (other_ == nullptr) return end - start;
    const Pair now = pair();
    const auto apart = [](std::uint64_t a, std::uint64_t b) { return a > b ? a - b : b - a; };
    // What was recorded before that clock came has CUPTI's own times.
    if (apart(start, now.other) > apart(start, now.own)) return end - start;
    // The longer both clocks have gone, the better is what one says of the other.
    const double rate = static_cast<double>(now.own - begin_.own) /
                        static_cast<double>(std::max<std::uint64_t>(1, now.other - begin_.other));
    return static_cast<std::uint64_t>(rate * static_cast<double>(end - start) + 0.5);
  }

 private:
  /// What both say at one time.
  struct Pair {
    std::uint64_t own = 0, other = 0;
  };
  [[nodiscard]] Pair pair() const { return {own_(), other_ != nullptr ? other_() : 0}; }

  std::mutex mutex_;
  Now own_;
  Now other_ = nullptr;
  Pair begin_;
};

}  // namespace phantora::measure
