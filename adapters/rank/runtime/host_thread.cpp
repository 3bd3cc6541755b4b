#include "rank/runtime/host_thread.hpp"

#include "rank/runtime/cpu_clock.hpp"
#include "rank/runtime/message_times.hpp"
#include "rank/runtime/rank.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <new>

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace phantora::rank {
namespace {

ThreadClocks& clocks() noexcept { return this_rank().clocks; }

bool is_main_thread() { return getpid() == static_cast<pid_t>(syscall(SYS_gettid)); }

thread_local HostThread* self = nullptr;
// A thread's first intercepted call may come from within the program's own allocator, which reads
// the clock or takes a lock (jemalloc does): the record is made without allocating.
alignas(HostThread) thread_local constinit std::array<std::byte, sizeof(HostThread)> storage{};

/// Of the pthread key whose value is the thread's record: not called for the main thread, which
/// still runs the program's exit handlers.
void thread_ends(void* record) noexcept {
  auto* const thread = static_cast<HostThread*>(record);
  leaves_time(reinterpret_cast<const void*>(pthread_self()));
  clocks().remove(*thread);
  self = nullptr;
  std::destroy_at(thread);
}

// Made when the library is loaded, so that the key is among the first 32, whose values glibc keeps
// in the thread's own block and does not allocate.
pthread_key_t key_of_thread = [] {
  pthread_key_t key{};
  pthread_key_create(&key, thread_ends);
  return key;
}();

/// The kernel's sched_attr: its header and glibc's <sched.h> cannot be included together.
struct Scheduling {
  std::uint32_t size, policy;
  std::uint64_t flags;
  std::int32_t nice;
  std::uint32_t priority;
  std::uint64_t slice_ns, deadline_ns, period_ns;
};

/// Asks the kernel to leave the thread, and those that it will start, on a core for long at a time
/// (the longest slice that Linux gives, from 6.12 on; earlier ones take no notice). Who comes back
/// to a core finds the caches full of others' data, and its work takes longer for milliseconds,
/// which no host of GPUs knows. (A step of GPT-2 on 2 cores beside 30 busy processes: 46 ms, of 28
/// to 67, with slices as they are by default, 33 ms, of 30 to 39, with these; quiet: 25 ms.
/// bench/accuracy/README.md)
void ask_for_long_slices() noexcept {
  Scheduling mine{};
  if (syscall(SYS_sched_getattr, 0, &mine, sizeof mine, 0) != 0) return;
  if (mine.policy != SCHED_OTHER && mine.policy != SCHED_BATCH) return;
  mine.slice_ns = 100'000'000;
  syscall(SYS_sched_setattr, 0, &mine, 0);
}

HostThread& make_self() {
  const HostTimePolicy& policy = host_time_policy();
  const bool measured = policy.kind == HostTime::measured;
  if (measured && is_main_thread()) ask_for_long_slices();
  self = new (storage.data()) HostThread{.clock = VirtualClock{}};
  // Another thread may be measuring what a reading costs. Who waits for it, in a call that comes to
  // our hooks, needs a record already.
  if (measured)
    self->clock =
        VirtualClock{thread_cpu_time, policy.scale.value_or(policy.host.work), reading_cost()};
  if (is_main_thread()) {
    ThreadClocks::charge_host(*self);
    clocks().add(*self);
  } else {
    pthread_setspecific(key_of_thread, self);
  }
  return *self;
}

/// The program's last words.
[[gnu::destructor]] void process_ends() {
  if (in_virtual_time() && clocks().connection() != nullptr) {
    sends_time(key_of_process(getpid()));
  } else if (Helper* const own = helper()) {
    own->sends_time(key_of_process(getpid()));
  }
}

void show_state(channel::ThreadState state) {
  HostThread& thread = this_thread();
  if (thread.issues && thread.slot != nullptr) {
    thread.slot->state.store(state, std::memory_order_release);
  }
}

}  // namespace

bool in_virtual_time() noexcept { return rank_in_time() != nullptr; }

HostThread& this_thread() noexcept { return self != nullptr ? *self : make_self(); }

const HostTimePolicy& host_time_policy() noexcept { return clocks().policy(); }
const Epoch& epoch() noexcept { return this_rank().epoch; }

Time virtual_now() noexcept { return clocks().now(this_thread()); }
Time read_clock(ProgramClock clock) noexcept { return clocks().read(this_thread(), clock); }
void shows_once(Time deadline) noexcept { ThreadClocks::shows_once(this_thread(), deadline); }

void wait_begins(const void* object, channel::Wait wait, std::optional<Time> deadline) noexcept {
  clocks().wait_begins(this_thread(), object, wait, deadline);
}
void waits_again(const void* object) noexcept { clocks().waits_again(this_thread(), object); }
void wait_ends(std::int64_t timed_out_at_ps) noexcept {
  clocks().wait_ends(this_thread(), timed_out_at_ps);
}
bool takes_time_until(Time deadline) noexcept {
  return clocks().takes_time_until(this_thread(), deadline);
}
void wait_timed_out(Time deadline) noexcept { clocks().wait_timed_out(this_thread(), deadline); }
void look_timed_out(Time deadline) noexcept { clocks().look_timed_out(this_thread(), deadline); }
void looked_in_vain() noexcept { clocks().looked_in_vain(this_thread()); }
void spins(std::chrono::nanoseconds rest) noexcept { clocks().spins(this_thread(), rest); }
void goes_on() noexcept { clocks().goes_on(this_thread()); }
void polls_memory() noexcept {
  this_thread().polls_memory = true;
  is_a_poller();
}
void sleeps_until(Time deadline) noexcept { clocks().sleeps_until(this_thread(), deadline); }

void looks_for_messages() noexcept {
  HostThread& thread = this_thread();
  if (thread.issues) return;
  thread.carried_ps = 0;
  thread.woken_ps = 0;
  thread.begins_ps.reset();
}
void host_function_begins(Time instant) noexcept {
  clocks().host_function_begins(this_thread(), instant);
}
Time host_function_ends() noexcept { return ThreadClocks::host_function_ends(this_thread()); }
bool in_host_function() noexcept {
  return rank_in_time() != nullptr && this_thread().runs_host_function;
}

void begins_at(Time instant) noexcept { ThreadClocks::begins_at(this_thread(), instant); }
void begins_as_woken(const void* object) noexcept {
  clocks().begins_as_woken(this_thread(), object);
}
void wakes(const void* object) noexcept { clocks().wakes(this_thread(), object); }
void leaves_time(const void* object) noexcept { clocks().leaves_time(this_thread(), object); }
void takes_time(const void* object) noexcept { clocks().takes_time(this_thread(), object); }
bool someone_waits_for_a_lock() noexcept {
  const Rank* const rank = detail::the_rank.load(std::memory_order_acquire);
  return rank != nullptr && rank->clocks.someone_waits_for_a_lock();
}

void sends_time(std::uint64_t key) noexcept { clocks().sends_time(this_thread(), key); }
void has_sent(std::uint64_t key, std::size_t bytes) noexcept { clocks().has_sent(key, bytes); }
void receives_time(std::uint64_t key, std::size_t bytes) noexcept {
  clocks().receives_time(this_thread(), key, bytes);
}
std::uint64_t key_of_process(std::int32_t process) noexcept {
  return key_of(KeyKind::process, static_cast<std::uint32_t>(process));
}
void is_a_poller() noexcept { clocks().is_a_poller(this_thread()); }

Sleeping::Sleeping() noexcept { show_state(channel::ThreadState::sleeping); }
Sleeping::~Sleeping() { show_state(channel::ThreadState::running); }

}  // namespace phantora::rank
