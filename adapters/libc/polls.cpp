// Waiting for several descriptors (descriptors.cpp has single ones). These waits stay real; one
// that times out lets the program see that its time has passed (event loops and loops until a
// deadline compare).

#include "libc/caller.hpp"
#include "libc/deadline.hpp"
#include "libc/real.hpp"

#include <array>
#include <cerrno>

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
/// returns 0. `look` is the same wait with no time at all.
template <class Wait, class Look>
int wait_for(std::int64_t ns, const void* caller, Wait wait, Look look) {
  if (!rank::in_virtual_time()) return wait();
  const bool library = is_infrastructure(library_of(caller));
  if (ns == 0) {
    const int ready = wait();
    if (ready == 0 && !library) rank::looked_in_vain();
    return ready;
  }
  if (!rank::this_thread().issues) {
    if (library && ns > 0) rank::is_a_poller();
    rank::looks_for_messages();
    const phantora::Time deadline = after(ns);
    const int result = wait();
    if (result == 0 && !library) rank::wait_timed_out(deadline);
    return result;
  }
  if (const int ready = look(); ready != 0) return ready;
  const phantora::Time deadline = after(ns);
  const bool own = !library && ns > 0;
  rank::wait_begins(nullptr, phantora::channel::Wait::descriptor,
                    own ? std::optional{deadline} : std::nullopt);
  const int result = wait();
  const int saved = errno;
  rank::wait_ends(phantora::channel::no_time);
  if (result == 0 && own) rank::wait_timed_out(deadline);
  errno = saved;
  return result;
}

constexpr std::int64_t ns_per_ms = 1'000'000;

/// gloo's loops wake every 10 ms, only to see whether they are to end: two of them in each of many
/// ranks keep a machine busy, and make a rank that waits look as if it ran.
int calmer(int timeout_ms, const void* caller) {
  constexpr int calm_ms = 40;
  const bool polls = timeout_ms > 0 && timeout_ms < calm_ms && rank::in_virtual_time() &&
                     !rank::this_thread().issues && is_infrastructure(library_of(caller));
  return polls ? calm_ms : timeout_ms;
}

/// select() without waiting. Where nothing is ready the sets stay as they are, for the wait.
int look(int count, fd_set* read, fd_set* write, fd_set* except) {
  std::array<fd_set*, 3> sets = {read, write, except};
  std::array<fd_set, 3> copies{};
  std::array<fd_set*, 3> looked{};
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (sets[i] == nullptr) continue;
    copies[i] = *sets[i];
    looked[i] = &copies[i];
  }
  timeval none{};
  const int ready = real_select(count, looked[0], looked[1], looked[2], &none);
  if (ready <= 0) return ready;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (sets[i] != nullptr) *sets[i] = copies[i];
  }
  return ready;
}

}  // namespace

extern "C" {

int poll(pollfd* descriptors, nfds_t count, int timeout_ms) {
  return wait_for(
      timeout_ms * ns_per_ms, __builtin_return_address(0),
      [&] { return real_poll(descriptors, count, timeout_ms); },
      [&] { return real_poll(descriptors, count, 0); });
}

int ppoll(pollfd* descriptors, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  constexpr timespec none{};
  return wait_for(
      timeout != nullptr ? to_ns(*timeout) : -1, __builtin_return_address(0),
      [&] { return real_ppoll(descriptors, count, timeout, mask); },
      [&] { return real_ppoll(descriptors, count, &none, mask); });
}

int select(int count, fd_set* read, fd_set* write, fd_set* except, timeval* timeout) {
  const std::int64_t ns =
      timeout != nullptr ? timeout->tv_sec * ns_per_s + timeout->tv_usec * 1000 : -1;
  return wait_for(
      ns, __builtin_return_address(0),
      [&] { return real_select(count, read, write, except, timeout); },
      [&] { return look(count, read, write, except); });
}

int pselect(int count, fd_set* read, fd_set* write, fd_set* except, const timespec* timeout,
            const sigset_t* mask) {
  return wait_for(
      timeout != nullptr ? to_ns(*timeout) : -1, __builtin_return_address(0),
      [&] { return real_pselect(count, read, write, except, timeout, mask); },
      [&] { return look(count, read, write, except); });
}

int epoll_wait(int descriptor, epoll_event* events, int count, int timeout_ms) {
  const int calm_ms = calmer(timeout_ms, __builtin_return_address(0));
  return wait_for(
      timeout_ms * ns_per_ms, __builtin_return_address(0),
      [&] { return real_epoll_wait(descriptor, events, count, calm_ms); },
      [&] { return real_epoll_wait(descriptor, events, count, 0); });
}

int epoll_pwait(int descriptor, epoll_event* events, int count, int timeout_ms,
                const sigset_t* mask) {
  return wait_for(
      timeout_ms * ns_per_ms, __builtin_return_address(0),
      [&] { return real_epoll_pwait(descriptor, events, count, timeout_ms, mask); },
      [&] { return real_epoll_pwait(descriptor, events, count, 0, mask); });
}

}  // extern "C"
