// Waiting for other threads by condition variables, semaphores, futexes and joining (locks.cpp has
// locks): time is handed over from who wakes to who sleeps (design section 4, rules 1 and 6). Waits
// stay real, their absolute deadlines translated.

#include "libc/caller.hpp"
#include "libc/deadline.hpp"
#include "libc/followed.hpp"
#include "libc/real.hpp"
#include "rank/runtime/helper.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <optional>

#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace phantora::libc;
namespace rank = phantora::rank;

namespace {

constinit Real<int (*)(pthread_cond_t*, pthread_mutex_t*)> real_cond_wait{"pthread_cond_wait",
                                                                          "GLIBC_2.3.2"};
constinit Real<int (*)(pthread_cond_t*, pthread_mutex_t*, const timespec*)> real_cond_timedwait{
    "pthread_cond_timedwait", "GLIBC_2.3.2"};
constinit Real<int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*)>
    real_cond_clockwait{"pthread_cond_clockwait"};
constinit Real<int (*)(pthread_cond_t*)> real_cond_signal{"pthread_cond_signal", "GLIBC_2.3.2"};
constinit Real<int (*)(pthread_cond_t*)> real_cond_broadcast{"pthread_cond_broadcast",
                                                             "GLIBC_2.3.2"};
constinit Real<int (*)(sem_t*)> real_sem_wait{"sem_wait"};
constinit Real<int (*)(sem_t*)> real_sem_trywait{"sem_trywait"};
constinit Real<int (*)(sem_t*, const timespec*)> real_sem_timedwait{"sem_timedwait"};
constinit Real<int (*)(sem_t*, clockid_t, const timespec*)> real_sem_clockwait{"sem_clockwait"};
constinit Real<int (*)(sem_t*)> real_sem_post{"sem_post"};
constinit Real<int (*)(pthread_t, void**)> real_join{"pthread_join"};
constinit Real<int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)> real_create{
    "pthread_create"};
constinit Real<long (*)(long, ...)> real_syscall{"syscall"};

constexpr std::int64_t no_timeout = phantora::channel::no_time;

/// The clock of pthread_cond_timedwait: glibc keeps it in bit 1 of the flags of a condition
/// variable (nptl/pthreadP.h, COND_CLOCK_MONOTONIC_MASK = 2, in __wrefs).
clockid_t clock_of(const pthread_cond_t* condition) {
  return (condition->__data.__wrefs & 2U) != 0 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

using Kind = phantora::channel::Wait;

/// Runs a wait on `object` as the calling thread's sleep. If it times out, it ends as at
/// `shown_ps`, and `timed` is called.
template <class Wait, class Timed>
int sleep_as(const void* object, Kind kind, std::optional<phantora::Time> until, Wait wait,
             std::int64_t shown_ps, Timed timed) {
  rank::wait_begins(object, kind, until);
  const int result = wait();
  const int saved = errno;
  const bool in_vain = timed_out(result);
  rank::wait_ends(in_vain ? shown_ps : no_timeout);
  if (result == 0) rank::begins_as_woken(object);
  if (in_vain) timed();
  errno = saved;
  return result;
}

/// If it ends by timeout, the program sees once that the deadline has passed.
template <class Wait>
int sleep_on(const void* object, Kind kind, const Deadline* deadline, Wait wait) {
  return sleep_as(object, kind, {}, wait, deadline != nullptr ? deadline->virtual_ps() : no_timeout,
                  [] {});
}

/// The same for the waits that programs write, as Python's threading.Event.wait(seconds): their
/// time passes.
template <class Wait>
int own_sleep(const void* object, Kind kind, const Deadline& deadline, Wait wait) {
  const phantora::Time until{phantora::Duration{deadline.virtual_ps()}};
  return sleep_as(object, kind, until, wait, no_timeout, [&] { rank::wait_timed_out(until); });
}

/// The same for waits after which a thread looks whether to wait on.
template <class Wait>
int sleep_and_look(const void* object, Kind kind, const Deadline& deadline, Wait wait) {
  const phantora::Time until{phantora::Duration{deadline.virtual_ps()}};
  return sleep_as(object, kind, {}, wait, no_timeout, [&] { rank::look_timed_out(until); });
}

/// A wait on a condition variable unlocks its mutex.
void gives_up(pthread_mutex_t* mutex) {
  if (rank::someone_waits_for_a_lock()) rank::wakes(mutex);
}

/// Takes a semaphore that is free.
bool take(sem_t* semaphore) {
  if (real_sem_trywait(semaphore) != 0) return false;
  rank::takes_time(semaphore);
  return true;
}

/// Python, whose threads wait for its interpreter lock in turns of 5 ms, the end of which says
/// nothing of time.
bool is_interpreter(std::string_view library) {
  return library.starts_with("python") || library.starts_with("libpython");
}

constexpr std::int64_t look_again_ns = 20'000'000;

/// A timed wait on a condition variable.
///
/// A thread without a part in time (a watchdog, say) that sleeps for long looks at the virtual
/// clock every 20 ms. Where a library polls, its sleep ends by then: as often as it likes in real
/// time it may look what has come to be, and where the simulation is faster than real time it would
/// else find it late (NCCL's watchdog drops finished collectives, and the memory that they hold,
/// every 100 ms). Not in the other modes of host time, where runs are to be alike.
template <class Wait>
int timed_sleep(pthread_cond_t* condition, clockid_t clock, const timespec& until,
                const void* caller, Wait wait) {
  const Deadline deadline{clock, until};
  if (rank::this_thread().issues) {
    const auto sleep = [&] { return wait(deadline.real()); };
    const std::string_view library = library_of(caller);
    if (is_interpreter(library)) {
      return sleep_on(condition, Kind::interpreter, nullptr, sleep);
    }
    return is_infrastructure(library) ? sleep_on(condition, Kind::condition, &deadline, sleep)
                                      : own_sleep(condition, Kind::condition, deadline, sleep);
  }
  rank::is_a_poller();
  constexpr std::int64_t polling_ns = 1'000'000'000;
  const std::int64_t now = to_ns(real_now(clock));
  const timespec soon = to_timespec(now + look_again_ns);
  const std::int64_t left = to_ns(*deadline.real()) - now;
  if (left <= look_again_ns) {
    return sleep_on(condition, Kind::condition, &deadline, [&] { return wait(deadline.real()); });
  }
  const bool measured = rank::host_time_policy().kind == phantora::HostTime::measured;
  if (measured && left <= polling_ns && is_infrastructure(library_of(caller))) {
    return sleep_on(condition, Kind::condition, &deadline, [&] { return wait(&soon); });
  }
  const int result = sleep_on(condition, Kind::condition, nullptr, [&] { return wait(&soon); });
  return result == ETIMEDOUT ? 0 : result;
}

/// A wait for a word of memory until an instant of `clock`. `wait` is given that of the real clock.
///
/// A thread without a part in time looks at the virtual clock now and then, as one that waits on a
/// condition variable does, but seldom: JAX's processes have dozens of them.
template <class Wait>
int futex_sleep(const void* word, clockid_t clock, const timespec& until, Wait wait) {
  if (!rank::in_virtual_time()) return wait_as_followed(clock, until, wait);
  const Deadline deadline{clock, until};
  if (rank::this_thread().issues) {
    return own_sleep(word, Kind::futex, deadline, [&] { return wait(deadline.real()); });
  }
  rank::is_a_poller();
  return own_sleep(word, Kind::futex, deadline, [&] {
    for (;;) {
      const std::int64_t now = to_ns(real_now(clock));
      const std::int64_t end = to_ns(*deadline.real());
      const std::int64_t slice = std::max(look_again_ns, (end - now) / 8);
      const timespec soon = to_timespec(std::min(end, now + slice));
      const int result = wait(&soon);
      if (!timed_out(result) || now >= end || virtual_ns() * 1000 >= deadline.virtual_ps()) {
        return result;
      }
    }
  });
}

/// The same for a length of time. `wait` is given what is left of that.
template <class Wait>
int futex_sleep(const void* word, std::int64_t ns, Wait wait) {
  constexpr clockid_t clock = CLOCK_MONOTONIC;
  const auto wait_until = [&](const timespec* real) {
    const std::int64_t left = to_ns(*real) - to_ns(real_now(clock));
    const timespec length = to_timespec(std::max<std::int64_t>(0, left));
    return wait(&length);
  };
  ns = std::min(ns, longest_ns);
  if (!rank::in_virtual_time()) {
    rank::FollowedClock* const followed = rank::followed_clock();
    const std::int64_t now =
        followed != nullptr ? followed_ns(*followed, clock) : to_ns(real_now(clock));
    return wait_as_followed(clock, to_timespec(now + ns), wait_until);
  }
  const timespec until = to_timespec(rank::epoch().monotonic_ns + virtual_ns() + ns);
  if (!rank::this_thread().issues) return futex_sleep(word, clock, until, wait_until);
  // While JAX waits for the GPU it looks for signals every 200 ms of real time: that is no time of
  // a thread that has a part in it.
  const Deadline deadline{clock, until};
  return sleep_and_look(word, Kind::futex, deadline, [&] { return wait_until(deadline.real()); });
}

/// A timed wait on a condition variable, outside of virtual time. Who waits for longer than pollers
/// do is woken now and then, as it can be for no reason, and looks at the clock.
template <class Wait>
int followed_sleep(clockid_t clock, const timespec& until, const void* caller, Wait wait) {
  rank::FollowedClock* const followed = rank::followed_clock();
  if (followed == nullptr || epoch_of(clock) < 0) return wait(&until);
  const FollowedInstant instant{*followed, clock, to_ns(until)};
  const std::int64_t left = instant.left_ns();
  const bool polls = left <= longest_poll_ns;
  const timespec soon = real_after(clock, polls ? left : longest_slice_ns);
  const std::int64_t then = followed_ns(*followed, CLOCK_MONOTONIC) + left;
  followed->wait();
  const int result = wait(&soon);
  if (result != ETIMEDOUT || instant.left_ns() == 0) return result;
  if (!polls) return 0;
  if (!is_interpreter(library_of(caller))) shown_once_ns.fill(then);
  return result;
}

// In processes that help a rank. Python's interpreter lock says nothing of time there either.

void helper_leaves_time(const void* object) {
  if (rank::Helper* const helper = rank::helper()) helper->leaves_time(object);
}
void helper_leaves_time(const void* object, const void* caller) {
  rank::Helper* const helper = rank::helper();
  if (helper != nullptr && !is_interpreter(library_of(caller))) helper->leaves_time(object);
}

/// @param result  of a wait for `object`.
int helper_waited(const void* object, int result) {
  const int saved = errno;
  if (rank::Helper* const helper = result == 0 ? rank::helper() : nullptr)
    helper->takes_time(object);
  errno = saved;
  return result;
}
int helper_waited(const void* object, const void* caller, int result) {
  const bool counts = rank::helper() != nullptr && !is_interpreter(library_of(caller));
  return counts ? helper_waited(object, result) : result;
}

/// What a new thread runs, and from when on.
struct Start {
  void* (*routine)(void*);
  void* argument;
  phantora::Time at;
};

void* start(void* given) {
  const Start start = *static_cast<const Start*>(given);
  delete static_cast<const Start*>(given);
  if (rank::in_virtual_time()) {
    rank::begins_at(start.at);
  } else if (rank::Helper* const helper = rank::helper()) {
    helper->begins_at(start.at);
  }
  return start.routine(start.argument);
}

}  // namespace

extern "C" {

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*routine)(void*),
                   void* argument) {
  const bool issues = rank::in_virtual_time() && rank::this_thread().issues;
  rank::Helper* const helper = rank::helper();
  if (!issues && helper == nullptr) return real_create(thread, attributes, routine, argument);
  auto* const given = new Start{routine, argument, issues ? rank::virtual_now() : helper->now()};
  const int result = real_create(thread, attributes, start, given);
  if (result != 0) delete given;
  return result;
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  if (!rank::in_virtual_time())
    return helper_waited(condition, __builtin_return_address(0), real_cond_wait(condition, mutex));
  gives_up(mutex);
  return sleep_on(condition, Kind::condition, nullptr,
                  [&] { return real_cond_wait(condition, mutex); });
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           const timespec* until) {
  const auto wait = [&](const timespec* real) {
    return real_cond_timedwait(condition, mutex, real);
  };
  const clockid_t clock = clock_of(condition);
  const void* const caller = __builtin_return_address(0);
  if (!rank::in_virtual_time())
    return helper_waited(condition, caller, followed_sleep(clock, *until, caller, wait));
  gives_up(mutex);
  return timed_sleep(condition, clock, *until, caller, wait);
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  const auto wait = [&](const timespec* real) {
    return real_cond_clockwait(condition, mutex, clock, real);
  };
  const void* const caller = __builtin_return_address(0);
  if (!rank::in_virtual_time())
    return helper_waited(condition, caller, followed_sleep(clock, *until, caller, wait));
  gives_up(mutex);
  return timed_sleep(condition, clock, *until, caller, wait);
}

int pthread_cond_signal(pthread_cond_t* condition) {
  if (rank::in_virtual_time()) {
    rank::wakes(condition);
  } else {
    helper_leaves_time(condition, __builtin_return_address(0));
  }
  return real_cond_signal(condition);
}

int pthread_cond_broadcast(pthread_cond_t* condition) {
  if (rank::in_virtual_time()) {
    rank::wakes(condition);
  } else {
    helper_leaves_time(condition, __builtin_return_address(0));
  }
  return real_cond_broadcast(condition);
}

int sem_wait(sem_t* semaphore) {
  if (!rank::in_virtual_time()) return helper_waited(semaphore, real_sem_wait(semaphore));
  if (take(semaphore)) return 0;
  return sleep_on(semaphore, Kind::semaphore, nullptr, [&] { return real_sem_wait(semaphore); });
}

int sem_trywait(sem_t* semaphore) {
  if (!rank::in_virtual_time()) return helper_waited(semaphore, real_sem_trywait(semaphore));
  return take(semaphore) ? 0 : -1;
}

int sem_timedwait(sem_t* semaphore, const timespec* until) {
  if (!rank::in_virtual_time()) {
    return helper_waited(semaphore,
                         wait_as_followed(CLOCK_REALTIME, *until, [&](const timespec* real) {
                           return real_sem_timedwait(semaphore, real);
                         }));
  }
  if (take(semaphore)) return 0;
  const Deadline deadline{CLOCK_REALTIME, *until};
  return own_sleep(semaphore, Kind::semaphore, deadline,
                   [&] { return real_sem_timedwait(semaphore, deadline.real()); });
}

int sem_clockwait(sem_t* semaphore, clockid_t clock, const timespec* until) {
  if (!rank::in_virtual_time()) {
    return helper_waited(semaphore, wait_as_followed(clock, *until, [&](const timespec* real) {
                           return real_sem_clockwait(semaphore, clock, real);
                         }));
  }
  if (take(semaphore)) return 0;
  const Deadline deadline{clock, *until};
  return own_sleep(semaphore, Kind::semaphore, deadline,
                   [&] { return real_sem_clockwait(semaphore, clock, deadline.real()); });
}

int sem_post(sem_t* semaphore) {
  if (rank::in_virtual_time()) {
    rank::wakes(semaphore);
  } else {
    helper_leaves_time(semaphore);
  }
  return real_sem_post(semaphore);
}

int pthread_join(pthread_t thread, void** result_of) {
  if (!rank::in_virtual_time()) return real_join(thread, result_of);
  // The end of a thread wakes nobody by name; it leaves its time.
  const int result =
      sleep_on(nullptr, Kind::thread, nullptr, [&] { return real_join(thread, result_of); });
  if (result == 0) rank::takes_time(reinterpret_cast<const void*>(thread));
  return result;
}

/// Programs wait for a word of memory by this call: libstdc++ on futures and atomics, with absolute
/// deadlines, and Abseil (JAX, gRPC), with a length too.
long syscall(long number, ...) {
  std::va_list list;
  va_start(list, number);
  const long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long),
             d = va_arg(list, long), e = va_arg(list, long), f = va_arg(list, long);
  va_end(list);
  if (number != SYS_futex) return real_syscall(number, a, b, c, d, e, f);
  const auto* word = reinterpret_cast<const void*>(a);
  const auto* timeout = reinterpret_cast<const timespec*>(d);
  const auto operation = static_cast<int>(b);
  const int command = operation & FUTEX_CMD_MASK;
  if (command == FUTEX_WAKE || command == FUTEX_WAKE_BITSET) {
    if (rank::in_virtual_time()) rank::wakes(word);
  } else if (command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET) {
    const auto wait = [&](const timespec* until) {
      return static_cast<int>(real_syscall(number, a, b, c, reinterpret_cast<long>(until), e, f));
    };
    if (timeout == nullptr) {
      if (!rank::in_virtual_time()) return wait(nullptr);
      return sleep_on(word, Kind::futex, nullptr, [&] { return wait(nullptr); });
    }
    if (command == FUTEX_WAIT) return futex_sleep(word, to_ns(*timeout), wait);
    const clockid_t clock =
        (operation & FUTEX_CLOCK_REALTIME) != 0 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    return futex_sleep(word, clock, *timeout, wait);
  }
  return real_syscall(number, a, b, c, d, e, f);
}

}  // extern "C"
