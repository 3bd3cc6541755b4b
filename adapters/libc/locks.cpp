// Mutexes and read-write locks: a thread that finds one taken waits, and goes on no earlier than
// who unlocks it (design section 4, rule 6). A lock that is free costs one real call, as without
// us.

#include "libc/deadline.hpp"
#include "libc/followed.hpp"
#include "libc/real.hpp"

#include <algorithm>
#include <cerrno>

#include <pthread.h>

using namespace phantora::libc;
namespace rank = phantora::rank;

namespace {

using MutexCall = int (*)(pthread_mutex_t*);
using TimedMutexCall = int (*)(pthread_mutex_t*, clockid_t, const timespec*);
using RwlockCall = int (*)(pthread_rwlock_t*);
using TimedRwlockCall = int (*)(pthread_rwlock_t*, clockid_t, const timespec*);

constinit Real<MutexCall> real_lock{"pthread_mutex_lock"};
constinit Real<MutexCall> real_trylock{"pthread_mutex_trylock"};
constinit Real<MutexCall> real_unlock{"pthread_mutex_unlock"};
constinit Real<int (*)(pthread_mutex_t*, const timespec*)> real_timedlock{
    "pthread_mutex_timedlock"};
constinit Real<TimedMutexCall> real_clocklock{"pthread_mutex_clocklock"};
constinit Real<RwlockCall> real_rdlock{"pthread_rwlock_rdlock"};
constinit Real<RwlockCall> real_tryrdlock{"pthread_rwlock_tryrdlock"};
constinit Real<TimedRwlockCall> real_clockrdlock{"pthread_rwlock_clockrdlock"};
constinit Real<RwlockCall> real_wrlock{"pthread_rwlock_wrlock"};
constinit Real<RwlockCall> real_trywrlock{"pthread_rwlock_trywrlock"};
constinit Real<TimedRwlockCall> real_clockwrlock{"pthread_rwlock_clockwrlock"};
constinit Real<RwlockCall> real_rwlock_unlock{"pthread_rwlock_unlock"};

/// The hooks' own locks are not accounted for: the calling thread is within the account.
thread_local bool accounting = false;
class Accounting {
 public:
  Accounting() noexcept { accounting = true; }
  ~Accounting() { accounting = false; }
  Accounting(const Accounting&) = delete;
  Accounting& operator=(const Accounting&) = delete;
};

/// Waits for a lock that was found taken.
///
/// An unlock tells all who wait that they may go on, and one of them gets the lock: the others
/// notice after some milliseconds of real time that they wait on.
template <class Lock>
int wait_for(Lock* lock, int (*lock_until)(Lock*, clockid_t, const timespec*),
             int (*simply)(Lock*)) {
  if (accounting || !rank::in_virtual_time() || lock_until == nullptr) return simply(lock);
  const Accounting account;
  const rank::HostThread& thread = rank::this_thread();
  if (!thread.issues || thread.api_depth > 0) return simply(lock);
  std::int64_t look_again_ns = 1'000'000;
  constexpr std::int64_t at_most_ns = 16'000'000;
  rank::wait_begins(lock, phantora::channel::Wait::lock);
  int result = ETIMEDOUT;
  for (; result == ETIMEDOUT; look_again_ns = std::min(2 * look_again_ns, at_most_ns)) {
    const timespec soon = to_timespec(to_ns(real_now(CLOCK_MONOTONIC)) + look_again_ns);
    result = lock_until(lock, CLOCK_MONOTONIC, &soon);
    if (result == ETIMEDOUT) rank::waits_again(lock);
  }
  rank::wait_ends(phantora::channel::no_time);
  // Kinds of mutexes that cannot be waited for until an instant.
  return result == EINVAL || result == ENOTSUP ? simply(lock) : result;
}

/// The calling thread is about to unlock `lock`.
void unlocks(const void* lock) {
  if (!rank::someone_waits_for_a_lock() || accounting || !rank::in_virtual_time()) return;
  const Accounting account;
  rank::wakes(lock);
}

}  // namespace

extern "C" {

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  const int result = real_trylock(mutex);
  return result == EBUSY ? wait_for(mutex, real_clocklock.get(), real_lock.get()) : result;
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) {
  unlocks(mutex);
  return real_unlock(mutex);
}

int pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* until) {
  if (rank::in_virtual_time()) {
    return real_timedlock(mutex, Deadline{CLOCK_REALTIME, *until}.real());
  }
  return wait_as_followed(CLOCK_REALTIME, *until,
                          [&](const timespec* real) { return real_timedlock(mutex, real); });
}

int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  if (rank::in_virtual_time()) {
    return real_clocklock(mutex, clock, Deadline{clock, *until}.real());
  }
  return wait_as_followed(clock, *until,
                          [&](const timespec* real) { return real_clocklock(mutex, clock, real); });
}

int pthread_rwlock_rdlock(pthread_rwlock_t* lock) {
  const int result = real_tryrdlock(lock);
  return result == EBUSY ? wait_for(lock, real_clockrdlock.get(), real_rdlock.get()) : result;
}

int pthread_rwlock_wrlock(pthread_rwlock_t* lock) {
  const int result = real_trywrlock(lock);
  return result == EBUSY ? wait_for(lock, real_clockwrlock.get(), real_wrlock.get()) : result;
}

int pthread_rwlock_unlock(pthread_rwlock_t* lock) {
  unlocks(lock);
  return real_rwlock_unlock(lock);
}

}  // extern "C"
