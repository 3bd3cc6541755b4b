#pragma once

#include "libc/deadline.hpp"
#include "rank/runtime/followed_clock.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>

/// Clocks and timed waits of processes that use no GPU: they follow the run.
namespace phantora::libc {

/// What the program reads from `clock`.
inline std::int64_t followed_ns(rank::FollowedClock& followed, clockid_t clock) noexcept {
  const std::int64_t real = to_ns(real_now(CLOCK_MONOTONIC));
  const std::int64_t ahead = followed.monotonic_ns(real) - real;
  return ahead + (epoch_of(clock) == epoch_of(CLOCK_MONOTONIC) ? real : to_ns(real_now(clock)));
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
  std::int64_t left = 0;
  do {
    left = instant.left_ns();
  } while (wait(std::min(left, longest_slice_ns)) && left > 0);
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
