// Reading clocks and sleeping: one virtual timeline per rank (design section 4, rule 2).

#include "libc/caller.hpp"
#include "libc/deadline.hpp"
#include "libc/followed.hpp"
#include "libc/real.hpp"
#include "rank/runtime/helper.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>

#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace phantora::libc {
namespace {

constinit Real<int (*)(clockid_t, timespec*)> real_clock_gettime{"clock_gettime"};
constinit Real<int (*)(timeval*, void*)> real_gettimeofday{"gettimeofday"};
constinit Real<time_t (*)(time_t*)> real_time{"time"};
constinit Real<int (*)(const timespec*, timespec*)> real_nanosleep{"nanosleep"};
constinit Real<int (*)(clockid_t, int, const timespec*, timespec*)> real_clock_nanosleep{
    "clock_nanosleep"};
constinit Real<int (*)(int, int, const itimerspec*, itimerspec*)> real_timerfd_settime{
    "timerfd_settime"};

/// Runs the real `sleep` of `ns` nanoseconds.
template <class Sleep>
int sleep_for(std::int64_t ns, const void* caller, Sleep sleep) {
  if (!is_infrastructure(library_of(caller))) {
    rank::sleeps_until(after(ns));
  }
  rank::is_a_poller();
  const rank::Sleeping sleeping;
  return sleep();
}

/// Sleeps until `instant`; `left` becomes what is left of that if a signal comes. @return 0, or the
/// error.
int sleep_until(const FollowedInstant& instant, timespec* left) {
  int result = 0;
  wait_until(instant, [&](std::int64_t ns) {
    const timespec slice = to_timespec(ns);
    result = real_clock_nanosleep(CLOCK_MONOTONIC, 0, &slice, nullptr);
    return result == 0;
  });
  if (result != 0 && left != nullptr) *left = to_timespec(instant.left_ns());
  return result;
}

/// What CLOCK_MONOTONIC last showed the calling thread, outside of virtual time; 0: it never did.
thread_local std::int64_t shown_monotonic_ns = 0;

/// How long a thread that helps a rank sleeps. Where host time is free, none has passed since it
/// read the clock that its deadline was made of (Python's time.sleep() makes one).
std::chrono::nanoseconds helper_sleep(clockid_t clock, bool absolute, std::int64_t until_ns) {
  if (!absolute) return std::chrono::nanoseconds{std::max<std::int64_t>(0, until_ns)};
  const bool free = rank::host_time_policy().kind != phantora::HostTime::measured;
  const bool shown = free && clock == CLOCK_MONOTONIC && shown_monotonic_ns != 0;
  const std::int64_t from = shown ? shown_monotonic_ns : to_ns(real_now(clock));
  if (clock == CLOCK_MONOTONIC) shown_monotonic_ns = std::max(from, until_ns);
  return std::chrono::nanoseconds{std::max<std::int64_t>(0, until_ns - from)};
}

/// nanosleep() where a process follows the run's clock, or has nothing to do with it.
int sleep_outside(const timespec* length, timespec* left) {
  rank::FollowedClock* const followed = rank::followed_clock();
  const bool bad = length->tv_sec < 0 || length->tv_nsec < 0 || length->tv_nsec >= ns_per_s;
  rank::Helper* const helper = rank::helper();
  if (helper != nullptr && !bad) helper->slept(std::chrono::nanoseconds{to_ns(*length)});
  if (followed == nullptr || bad) return real_nanosleep(length, left);
  const int error = sleep_until(FollowedInstant::after(*followed, to_ns(*length)), left);
  if (error == 0) return 0;
  errno = error;
  return -1;
}

}  // namespace

timespec real_now(clockid_t clock) noexcept {
  timespec now{};
  real_clock_gettime(clock, &now);
  return now;
}

Deadline::Deadline(clockid_t clock, const timespec& deadline) noexcept : real_{deadline} {
  const std::int64_t zero = epoch_of(clock);
  if (zero < 0) return;
  const std::int64_t at_ns = std::min(to_ns(deadline) - zero, virtual_ns() + longest_ns);
  virtual_ps_ = at_ns * 1000;
  const std::int64_t left = std::max<std::int64_t>(0, at_ns - virtual_ns());
  const std::int64_t now = to_ns(real_now(clock));
  real_ = to_timespec(left > INT64_MAX - now ? INT64_MAX : now + left);
}

}  // namespace phantora::libc

using namespace phantora::libc;
namespace rank = phantora::rank;

extern "C" {

int clock_gettime(clockid_t clock, timespec* out) {
  if (rank::in_virtual_time()) {
    const std::int64_t zero = epoch_of(clock);
    if (zero >= 0) {
      const bool realtime = zero == epoch_of(CLOCK_REALTIME);
      *out = to_timespec(
          zero + read_ns(realtime ? rank::ProgramClock::realtime : rank::ProgramClock::monotonic));
      return 0;
    }
  }
  rank::FollowedClock* const followed = rank::followed_clock();
  if (followed == nullptr || epoch_of(clock) < 0) {
    const int result = real_clock_gettime(clock, out);
    if (result == 0 && clock == CLOCK_MONOTONIC) shown_monotonic_ns = to_ns(*out);
    return result;
  }
  *out = to_timespec(read_followed_ns(*followed, clock));
  return 0;
}

int gettimeofday(timeval* out, void* zone) {
  rank::FollowedClock* const followed = rank::followed_clock();
  if (!rank::in_virtual_time() && followed == nullptr) return real_gettimeofday(out, zone);
  const std::int64_t now = followed != nullptr
                               ? followed_ns(*followed, CLOCK_REALTIME)
                               : epoch_of(CLOCK_REALTIME) + read_ns(rank::ProgramClock::realtime);
  *out = {.tv_sec = now / ns_per_s, .tv_usec = now % ns_per_s / 1000};
  return 0;
}

time_t time(time_t* out) {
  timeval at{};
  if (gettimeofday(&at, nullptr) != 0) return real_time(out);
  const time_t now = at.tv_sec;
  if (out != nullptr) *out = now;
  return now;
}

int nanosleep(const timespec* length, timespec* left) {
  if (!rank::in_virtual_time()) return sleep_outside(length, left);
  return sleep_for(to_ns(*length), __builtin_return_address(0),
                   [&] { return real_nanosleep(length, left); });
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* request, timespec* left) {
  rank::FollowedClock* const followed = rank::followed_clock();
  if (followed != nullptr && epoch_of(clock) >= 0) {
    const std::int64_t now = (flags & TIMER_ABSTIME) != 0 ? 0 : followed_ns(*followed, clock);
    const FollowedInstant until{*followed, clock, now + std::min(to_ns(*request), longest_ns)};
    return sleep_until(until, (flags & TIMER_ABSTIME) != 0 ? nullptr : left);
  }
  if (!rank::in_virtual_time() || epoch_of(clock) < 0) {
    if (rank::Helper* const helper = rank::helper())
      helper->slept(helper_sleep(clock, (flags & TIMER_ABSTIME) != 0, to_ns(*request)));
    return real_clock_nanosleep(clock, flags, request, left);
  }
  if ((flags & TIMER_ABSTIME) == 0) {
    return sleep_for(to_ns(*request), __builtin_return_address(0),
                     [&] { return real_clock_nanosleep(clock, flags, request, left); });
  }
  const Deadline deadline{clock, *request};
  const std::int64_t ns =
      std::max<std::int64_t>(0, to_ns(*request) - epoch_of(clock) - virtual_ns());
  const int result = sleep_for(ns, __builtin_return_address(0), [&] {
    return real_clock_nanosleep(clock, flags, deadline.real(), left);
  });
  if (result == 0) rank::shows_once(phantora::Time{phantora::Duration{deadline.virtual_ps()}});
  return result;
}

int usleep(useconds_t microseconds) {
  const timespec length = to_timespec(std::int64_t{microseconds} * 1000);
  if (!rank::in_virtual_time()) return sleep_outside(&length, nullptr);
  return sleep_for(to_ns(length), __builtin_return_address(0),
                   [&] { return real_nanosleep(&length, nullptr); });
}

unsigned sleep(unsigned seconds) {
  const timespec length{.tv_sec = seconds, .tv_nsec = 0};
  timespec left{};
  const int result = rank::in_virtual_time()
                         ? sleep_for(to_ns(length), __builtin_return_address(0),
                                     [&] { return real_nanosleep(&length, &left); })
                         : sleep_outside(&length, &left);
  return result == 0 ? 0U : static_cast<unsigned>(left.tv_sec) + (left.tv_nsec > 0 ? 1U : 0U);
}

int timerfd_settime(int descriptor, int flags, const itimerspec* value, itimerspec* old) {
  rank::FollowedClock* const followed = rank::followed_clock();
  // The descriptor's clock is not told here; monotonic is what event loops use.
  if ((!rank::in_virtual_time() && followed == nullptr) || (flags & TFD_TIMER_ABSTIME) == 0 ||
      to_ns(value->it_value) == 0) {
    return real_timerfd_settime(descriptor, flags, value, old);
  }
  itimerspec translated = *value;
  if (followed != nullptr) {
    const FollowedInstant until{*followed, CLOCK_MONOTONIC, to_ns(value->it_value)};
    translated.it_value = real_after(CLOCK_MONOTONIC, until.left_ns());
  } else {
    translated.it_value = *Deadline{CLOCK_MONOTONIC, value->it_value}.real();
  }
  return real_timerfd_settime(descriptor, flags, &translated, old);
}

}  // extern "C"
