#pragma once

#include "rank/runtime/host_thread.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include <time.h>

/// Between virtual time as a program sees it and the real clocks on which it waits.
namespace phantora::libc {

constexpr std::int64_t ns_per_s = 1'000'000'000;

/// Longer waits are as long as this: for ever, as far as a run goes. C++'s wait_until with
/// time_point::max(), and Python's with a time-out of years, end after 2^63 ns, which are more than
/// there are picoseconds in a Time.
constexpr std::int64_t longest_ns = std::int64_t{50} * 24 * 3600 * ns_per_s;

constexpr std::int64_t to_ns(const timespec& t) {
  constexpr std::int64_t most_seconds = INT64_MAX / ns_per_s - 1;
  return t.tv_sec > most_seconds ? INT64_MAX : t.tv_sec * ns_per_s + t.tv_nsec;
}
constexpr timespec to_timespec(std::int64_t ns) {
  return {.tv_sec = ns / ns_per_s, .tv_nsec = ns % ns_per_s};
}

/// The reading of `clock` at virtual time zero; -1 for clocks that stay real.
inline std::int64_t epoch_of(clockid_t clock) noexcept {
  switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
    case CLOCK_TAI:
      return rank::epoch().realtime_ns;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME:
      return rank::epoch().monotonic_ns;
    default:
      return -1;
  }
}

/// Virtual nanoseconds since the start of the simulation, for the calling thread.
inline std::int64_t virtual_ns() noexcept {
  return rank::virtual_now().time_since_epoch().count() / 1000;
}
/// The same as the program reads it.
inline std::int64_t read_ns(rank::ProgramClock clock) noexcept {
  return rank::read_clock(clock).time_since_epoch().count() / 1000;
}

/// So long from now, of the calling thread's virtual time.
inline Time after(std::int64_t ns) noexcept {
  return rank::virtual_now() + std::chrono::nanoseconds{std::min(ns, longest_ns)};
}

timespec real_now(clockid_t clock) noexcept;

/// A wait until an absolute deadline of the program's clock: waits stay real.
class Deadline {
 public:
  Deadline(clockid_t clock, const timespec& deadline) noexcept;
  /// The instant of the real clock at which to give up.
  [[nodiscard]] const timespec* real() const noexcept { return &real_; }
  /// What wait_ends() is told if the wait ended by timeout.
  [[nodiscard]] std::int64_t virtual_ps() const noexcept { return virtual_ps_; }

 private:
  timespec real_{};
  std::int64_t virtual_ps_ = 0;
};

}  // namespace phantora::libc
