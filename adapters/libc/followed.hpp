#pragma once

#include "libc/deadline.hpp"
#include "rank/runtime/followed_clock.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>

/// Clocks and timed waits of processes that use no GPU: they follow the run.
namespace phantora::libc {

/// What `clock` shows where CLOCK_MONOTONIC shows `monotonic`, and really `real`.
inline std::int64_t shown_as(clockid_t clock, std::int64_t monotonic, std::int64_t real) noexcept {
  const bool same = epoch_of(clock) == epoch_of(CLOCK_MONOTONIC);
  return same ? monotonic : to_ns(real_now(clock)) + monotonic - real;
}

/// What `clock` shows in a process that follows the run.
inline std::int64_t followed_ns(rank::FollowedClock& followed, clockid_t clock) noexcept {
  const std::int64_t real = to_ns(real_now(CLOCK_MONOTONIC));
  return shown_as(clock, followed.monotonic_ns(real), real);
}

/// Of a wait that ended before its time had come by the clock: the program sees once, in either
/// kind of clock, that it has passed.
inline thread_local std::array<std::int64_t, 2> shown_once_ns{};

/// What the program reads from `clock`.
inline std::int64_t read_followed_ns(rank::FollowedClock& followed, clockid_t clock) noexcept {
  const std::int64_t real = to_ns(real_now(CLOCK_MONOTONIC));
  const bool monotonic = epoch_of(clock) == epoch_of(CLOCK_MONOTONIC);
  const std::int64_t once = std::exchange(shown_once_ns[monotonic ? 1 : 0], 0);
  return shown_as(clock, std::max(followed.monotonic_ns(real), once), real);
}

/// An instant of what the program reads from a clock.
struct FollowedInstant {
  rank::FollowedClock& followed;
  clockid_t clock;
  std::int64_t ns;

  static FollowedInstant after(rank::FollowedClock& followed, std::int64_t ns) noexcept {
    const std::int64_t now = followed_ns(followed, CLOCK_MONOTONIC);
    return {followed, CLOCK_MONOTONIC, now + std::min(ns, longest_ns)};
  }
  /// Until then; 0 once it has come.
  [[nodiscard]] std::int64_t left_ns() const noexcept {
    return std::max<std::int64_t>(0, std::min(ns - followed_ns(followed, clock), longest_ns));
  }
};

/// Waits that are no longer are those of who polls: they end when as much real time has passed, so
/// that whoever looks a hundred times looks a hundred times.
constexpr std::int64_t longest_poll_ns = ns_per_s;

/// A wait by the followed clock looks at that so often: it can be faster than real time.
constexpr std::int64_t longest_slice_ns = 20'000'000;

/// `ns` of real time from now.
inline timespec real_after(clockid_t clock, std::int64_t ns) noexcept {
  return to_timespec(to_ns(real_now(clock)) + ns);
}

/// Calls `wait` with some nanoseconds of real time after others, as long as it returns true (its
/// time was up), until the instant comes; the last time with 0.
template <class Wait>
void wait_until(const FollowedInstant& instant, Wait wait) {
  instant.followed.wait();
  const std::int64_t length = instant.left_ns();
  const std::int64_t began = to_ns(real_now(CLOCK_MONOTONIC));
  const std::int64_t shown = instant.followed.monotonic_ns(began);
  std::int64_t left = length;
  while (wait(std::min(left, longest_slice_ns)) && left > 0) {
    left = instant.left_ns();
    if (length > longest_poll_ns) continue;
    const std::int64_t waited = to_ns(real_now(CLOCK_MONOTONIC)) - began;
    left = std::max<std::int64_t>(0, std::min(left, length - waited));
  }
  if (left == 0 && instant.left_ns() > 0) shown_once_ns.fill(shown + length);
}

/// Whether a wait ended so: pthread functions return the error.
inline bool timed_out(int result) noexcept {
  return result == ETIMEDOUT || (result == -1 && errno == ETIMEDOUT);
}

/// A wait until `until` of `clock`, outside of virtual time. `wait` is given the instant of the
/// real clock.
template <class Wait>
int wait_as_followed(clockid_t clock, const timespec& until, Wait wait) {
  rank::FollowedClock* const followed = rank::followed_clock();
  if (followed == nullptr || epoch_of(clock) < 0) return wait(&until);
  int result = 0;
  wait_until({*followed, clock, to_ns(until)}, [&](std::int64_t ns) {
    const timespec soon = real_after(clock, ns);
    result = wait(&soon);
    return timed_out(result);
  });
  return result;
}

}  // namespace phantora::libc
