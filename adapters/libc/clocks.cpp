// Reading clocks and sleeping: one virtual timeline per rank (design section 4, rule 2).

#include "libc/caller.hpp"
#include "libc/deadline.hpp"
#include "libc/real.hpp"

#include <algorithm>
#include <cerrno>
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
  return real_clock_gettime(clock, out);
}

int gettimeofday(timeval* out, void* zone) {
  if (!rank::in_virtual_time()) return real_gettimeofday(out, zone);
  const std::int64_t now = epoch_of(CLOCK_REALTIME) + read_ns(rank::ProgramClock::realtime);
  *out = {.tv_sec = now / ns_per_s, .tv_usec = now % ns_per_s / 1000};
  return 0;
}

time_t time(time_t* out) {
  if (!rank::in_virtual_time()) return real_time(out);
  const time_t now = (epoch_of(CLOCK_REALTIME) + read_ns(rank::ProgramClock::realtime)) / ns_per_s;
  if (out != nullptr) *out = now;
  return now;
}

int nanosleep(const timespec* length, timespec* left) {
  if (!rank::in_virtual_time()) return real_nanosleep(length, left);
  return sleep_for(to_ns(*length), __builtin_return_address(0),
                   [&] { return real_nanosleep(length, left); });
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* request, timespec* left) {
  if (!rank::in_virtual_time() || epoch_of(clock) < 0) {
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
  if (!rank::in_virtual_time()) return real_nanosleep(&length, nullptr);
  return sleep_for(to_ns(length), __builtin_return_address(0),
                   [&] { return real_nanosleep(&length, nullptr); });
}

unsigned sleep(unsigned seconds) {
  const timespec length{.tv_sec = seconds, .tv_nsec = 0};
  timespec left{};
  const auto real = [&] { return real_nanosleep(&length, &left); };
  const int result = rank::in_virtual_time()
                         ? sleep_for(to_ns(length), __builtin_return_address(0), real)
                         : real();
  return result == 0 ? 0U : static_cast<unsigned>(left.tv_sec) + (left.tv_nsec > 0 ? 1U : 0U);
}

int timerfd_settime(int descriptor, int flags, const itimerspec* value, itimerspec* old) {
  // The descriptor's clock is not told here; monotonic is what event loops use.
  if (!rank::in_virtual_time() || (flags & TFD_TIMER_ABSTIME) == 0 || to_ns(value->it_value) == 0) {
    return real_timerfd_settime(descriptor, flags, value, old);
  }
  itimerspec translated = *value;
  translated.it_value = *Deadline{CLOCK_MONOTONIC, value->it_value}.real();
  return real_timerfd_settime(descriptor, flags, &translated, old);
}

}  // extern "C"
