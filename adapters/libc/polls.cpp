// Waiting for several descriptors (descriptors.cpp has single ones). These waits stay real; one
// that times out lets the program see that its time has passed (event loops and loops until a
// deadline compare).

#include "libc/caller.hpp"
#include "libc/deadline.hpp"
#include "libc/followed.hpp"
#include "libc/real.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <optional>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

using namespace phantora::libc;
namespace rank = phantora::rank;

namespace {

constinit Real<int (*)(pollfd*, nfds_t, int)> real_poll{"poll"};
constinit Real<int (*)(pollfd*, nfds_t, const timespec*, const sigset_t*)> real_ppoll{"ppoll"};
constinit Real<int (*)(int, fd_set*, fd_set*, fd_set*, timeval*)> real_select{"select"};
constinit Real<int (*)(int, fd_set*, fd_set*, fd_set*, const timespec*, const sigset_t*)>
    real_pselect{"pselect"};
constinit Real<int (*)(int, epoll_event*, int, int)> real_epoll_wait{"epoll_wait"};
constinit Real<int (*)(int, epoll_event*, int, int, const sigset_t*)> real_epoll_pwait{
    "epoll_pwait"};

/// Runs a wait of up to `ns` nanoseconds, or for ever if that is negative; it timed out if it
/// returns 0. `wait` is given how long, of real time.
template <class Wait>
int wait_for(std::int64_t ns, const void* caller, Wait wait) {
  if (!rank::in_virtual_time()) {
    rank::FollowedClock* const followed = rank::followed_clock();
    if (followed == nullptr || ns <= 0) return wait(ns);
    int ready = 0;
    wait_until(FollowedInstant::after(*followed, ns), [&](std::int64_t slice_ns) {
      ready = wait(slice_ns);
      return ready == 0;
    });
    return ready;
  }
  const bool library = is_infrastructure(library_of(caller));
  if (ns == 0) {
    const int ready = wait(ns);
    if (ready == 0 && !library) rank::looked_in_vain();
    return ready;
  }
  if (!rank::this_thread().issues) {
    if (ns > 0) rank::is_a_poller();
    rank::looks_for_messages();
    const phantora::Time deadline = after(ns);
    const int result = wait(ns);
    if (result == 0 && !library) rank::wait_timed_out(deadline);
    return result;
  }
  if (const int ready = wait(0); ready != 0) return ready;
  const phantora::Time deadline = after(ns);
  const bool own = !library && ns > 0;
  rank::wait_begins(nullptr, phantora::channel::Wait::descriptor,
                    own ? std::optional{deadline} : std::nullopt);
  const int result = wait(ns);
  const int saved = errno;
  rank::wait_ends(phantora::channel::no_time);
  if (result == 0 && own) rank::wait_timed_out(deadline);
  errno = saved;
  return result;
}

constexpr std::int64_t ns_per_ms = 1'000'000;

/// Of the calls that count milliseconds: of a part of one they wait the whole.
int ms_of(std::int64_t ns) {
  return static_cast<int>(std::min<std::int64_t>((ns + ns_per_ms - 1) / ns_per_ms, INT_MAX));
}

/// gloo's loops wake every 10 ms, only to see whether they are to end: two of them in each of many
/// ranks keep a machine busy, and make a rank that waits look as if it ran.
std::int64_t calmer(std::int64_t ns, const void* caller) {
  constexpr std::int64_t calm_ns = 40 * ns_per_ms;
  const bool polls = ns > 0 && ns < calm_ns && rank::in_virtual_time() &&
                     !rank::this_thread().issues && is_infrastructure(library_of(caller));
  return polls ? calm_ns : ns;
}

/// select(). Where nothing becomes ready the sets stay as they are, for the next wait.
template <class Select>
int keep_sets(fd_set* read, fd_set* write, fd_set* except, Select select) {
  const std::array<fd_set*, 3> sets = {read, write, except};
  std::array<fd_set, 3> copies{};
  std::array<fd_set*, 3> looked{};
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (sets[i] == nullptr) continue;
    copies[i] = *sets[i];
    looked[i] = &copies[i];
  }
  const int ready = select(looked);
  if (ready <= 0) return ready;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (sets[i] != nullptr) *sets[i] = copies[i];
  }
  return ready;
}

/// Which the caller finds empty after a wait whose time was up.
int empty_if_none(int ready, fd_set* read, fd_set* write, fd_set* except) {
  if (ready != 0) return ready;
  for (fd_set* const set : {read, write, except}) {
    if (set != nullptr) FD_ZERO(set);
  }
  return 0;
}

}  // namespace

extern "C" {

int poll(pollfd* descriptors, nfds_t count, int timeout_ms) {
  return wait_for(timeout_ms * ns_per_ms, __builtin_return_address(0), [&](std::int64_t ns) {
    return real_poll(descriptors, count, ns < 0 ? -1 : ms_of(ns));
  });
}

int ppoll(pollfd* descriptors, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  return wait_for(timeout != nullptr ? to_ns(*timeout) : -1, __builtin_return_address(0),
                  [&](std::int64_t ns) {
                    const timespec length = to_timespec(ns);
                    return real_ppoll(descriptors, count, ns < 0 ? nullptr : &length, mask);
                  });
}

int select(int count, fd_set* read, fd_set* write, fd_set* except, timeval* timeout) {
  const std::int64_t length_ns =
      timeout != nullptr ? timeout->tv_sec * ns_per_s + timeout->tv_usec * 1000 : -1;
  const int ready = wait_for(length_ns, __builtin_return_address(0), [&](std::int64_t ns) {
    timeval length{.tv_sec = ns / ns_per_s, .tv_usec = ns % ns_per_s / 1000};
    return keep_sets(read, write, except, [&](const auto& sets) {
      return real_select(count, sets[0], sets[1], sets[2], ns < 0 ? nullptr : &length);
    });
  });
  return empty_if_none(ready, read, write, except);
}

int pselect(int count, fd_set* read, fd_set* write, fd_set* except, const timespec* timeout,
            const sigset_t* mask) {
  const std::int64_t length_ns = timeout != nullptr ? to_ns(*timeout) : -1;
  const int ready = wait_for(length_ns, __builtin_return_address(0), [&](std::int64_t ns) {
    const timespec length = to_timespec(ns);
    return keep_sets(read, write, except, [&](const auto& sets) {
      return real_pselect(count, sets[0], sets[1], sets[2], ns < 0 ? nullptr : &length, mask);
    });
  });
  return empty_if_none(ready, read, write, except);
}

int epoll_wait(int descriptor, epoll_event* events, int count, int timeout_ms) {
  const void* const caller = __builtin_return_address(0);
  return wait_for(timeout_ms * ns_per_ms, caller, [&](std::int64_t ns) {
    return real_epoll_wait(descriptor, events, count, ns < 0 ? -1 : ms_of(calmer(ns, caller)));
  });
}

int epoll_pwait(int descriptor, epoll_event* events, int count, int timeout_ms,
                const sigset_t* mask) {
  return wait_for(timeout_ms * ns_per_ms, __builtin_return_address(0), [&](std::int64_t ns) {
    return real_epoll_pwait(descriptor, events, count, ns < 0 ? -1 : ms_of(ns), mask);
  });
}

}  // extern "C"
