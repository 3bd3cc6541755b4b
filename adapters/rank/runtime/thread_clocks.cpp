#include "rank/runtime/thread_clocks.hpp"

#include "rank/runtime/connection.hpp"
#include "rank/runtime/cpu_clock.hpp"
#include "rank/runtime/message_times.hpp"

#include <phantora/simulation/host_process.hpp>

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include <sys/syscall.h>
#include <unistd.h>

namespace phantora::rank {

using channel::ThreadState;

namespace {

std::int64_t ps_of(Time time) { return time.time_since_epoch().count(); }
Time time_of_ps(std::int64_t ps) { return Time{Duration{ps}}; }

/// The instant from which on the effects of what the thread does count. One without a part in time
/// passes on what it saw, or was given by who woke it.
std::int64_t time_of(HostThread& thread) {
  return thread.keeps_time() ? ps_of(thread.clock.now())
                             : std::max(thread.carried_ps, thread.woken_ps);
}

}  // namespace

void ThreadClocks::add(HostThread& thread) noexcept {
  thread.issues = true;
  const std::lock_guard lock{mutex_};
  issuers_.push_back(&thread);
}

void ThreadClocks::leave_pollers(const HostThread& thread) noexcept {
  Connection* const connection = this->connection();
  if (!thread.is_poller || connection == nullptr) return;
  const auto tid = static_cast<std::int32_t>(syscall(SYS_gettid));
  for (auto& poller : connection->shared().pollers) {
    std::int32_t mine = tid;
    if (poller.compare_exchange_strong(mine, 0)) return;
  }
}

void ThreadClocks::remove(HostThread& thread) noexcept {
  leave_pollers(thread);
  const std::lock_guard lock{mutex_};
  std::erase(issuers_, &thread);
  if (thread.slot != nullptr) {
    thread.slot->state.store(ThreadState::unused, std::memory_order_release);
    connection()->ring_if_awaited(channel::no_time);
  }
}

std::int64_t ThreadClocks::bound_ps() const noexcept {
  HostProcess process;
  for (const HostThread* thread : issuers_) {
    if (thread->slot == nullptr) continue;
    const Time clock = time_of_ps(thread->slot->clock_ps.load(std::memory_order_relaxed));
    if (thread->waits_for == nullptr) {
      process.runs(clock);
    } else {
      process.waits(clock);
    }
  }
  return ps_of(process.bound().value_or(Time{}));
}

void ThreadClocks::enter(HostThread& thread) noexcept {
  if (!thread.issues) add(thread);
  if (thread.slot != nullptr) return;
  // It was started, or handed its first work, by a thread of this rank: at best we saw by which.
  const std::int64_t begins_ps =
      thread.begins_ps.value_or(latest_ps_.load(std::memory_order_relaxed));
  thread.clock.wait_until(time_of_ps(std::max(begins_ps, thread.carried_ps)));
  connection()->claim_slot(thread);
  publish(thread);
}

/// The main thread has a part in time also where another thread made the connection.
void ThreadClocks::attach(HostThread& thread) noexcept {
  if (!thread.issues || thread.slot != nullptr || connection() == nullptr) return;
  connection()->claim_slot(thread);
}

void ThreadClocks::publish(HostThread& thread) noexcept {
  const std::int64_t now = ps_of(thread.clock.now());
  std::int64_t seen = latest_ps_.load(std::memory_order_relaxed);
  while (seen < now && !latest_ps_.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
  }
  attach(thread);
  if (thread.slot == nullptr) return;
  // The engine looks at the slot, and without host time few calls move the clock.
  std::atomic<std::int64_t>& shown = thread.slot->clock_ps;
  if (shown.load(std::memory_order_relaxed) != now) shown.store(now, std::memory_order_release);
  connection()->ring_if_awaited(now);
  if (now >= held_at_ps_.load(std::memory_order_relaxed)) others_moved_.raise();
}

Time ThreadClocks::now(HostThread& thread) noexcept {
  Time now{};
  if (thread.issues) {
    now = thread.clock.now();
    if (thread.api_depth == 0 && !thread.answered_before_ps) publish(thread);
  } else if (thread.runs_host_function) {
    now = thread.clock.now();
  } else {
    now = time_of_ps(latest_ps_.load(std::memory_order_relaxed));
  }
  return std::max(now, time_of_ps(thread.read_at_least_ps));
}

// A loop that reads the clock until it shows a certain time, or spins until another thread or rank
// has come, ends in every mode, as polling the GPU does: nothing but a loop does so this often
// without a GPU call, a message or a wait in between. (Importing TorchTitan reads the clock 51,000
// times, PyTorch alone 15,000 times: Python does so whenever it takes a lock.)
void ThreadClocks::looks_once_more(HostThread& thread) noexcept {
  constexpr int many = 100'000;
  if (thread.issues && ++thread.readings > many) {
    thread.clock.advance(std::chrono::microseconds{1});
  }
}

// While the rank's clock stands, a thread without a part in time sees its own time pass: it may
// make names of the clock, each of which is to be another (XLA's temporary files).
void ThreadClocks::computes_beside(HostThread& thread) noexcept {
  const std::chrono::nanoseconds cpu_time = thread_cpu_time();
  const std::chrono::nanoseconds since = cpu_time - std::exchange(thread.read_at_cpu, cpu_time);
  const Time seen = std::max(time_of_ps(thread.read_at_least_ps),
                             time_of_ps(latest_ps_.load(std::memory_order_relaxed)));
  const std::chrono::duration<double, std::pico> computed =
      since * policy_.scale.value_or(policy_.host.work);
  thread.read_at_least_ps =
      ps_of(seen) + static_cast<std::int64_t>(std::max(0.0, computed.count()));
}

Time ThreadClocks::read(HostThread& thread, ProgramClock clock) noexcept {
  if (!thread.keeps_time() && policy_.kind == HostTime::measured) computes_beside(thread);
  const Time now = this->now(thread);
  // Its first work will not be earlier than what it has seen.
  if (!thread.issues && thread.begins_ps) begins_at(thread, now);
  if (policy_.kind != HostTime::measured) looks_once_more(thread);
  std::int64_t& once = thread.read_once_ps[static_cast<std::size_t>(clock)];
  return std::max(now, time_of_ps(std::exchange(once, 0)));
}

void ThreadClocks::shows_once(HostThread& thread, Time deadline) noexcept {
  thread.read_once_ps.fill(ps_of(deadline));
}

bool ThreadClocks::takes_time_until(HostThread& thread, Time deadline) noexcept {
  // Polling is done in fractions of a second. Longer waits are safety nets, which end early where
  // the simulation is slow: PyTorch's DataLoader looks after its workers every 5 s
  // (MP_STATUS_CHECK_INTERVAL). The program sees once that they have ended, and the clock stays.
  constexpr Duration polling = std::chrono::seconds{1};
  return deadline - now(thread) <= polling;
}

void ThreadClocks::wait_timed_out(HostThread& thread, Time deadline) noexcept {
  // Linux wakes sleepers late by up to this (PR_SET_TIMERSLACK's default), never early.
  constexpr Duration timer_slack = std::chrono::microseconds{50};
  if (!thread.keeps_time()) return look_timed_out(thread, deadline);
  const bool polls = takes_time_until(thread, deadline);
  deadline += timer_slack;
  if (polls) {
    sleeps_until(thread, deadline);
  } else {
    shows_once(thread, deadline);
  }
}

void ThreadClocks::look_timed_out(HostThread& thread, Time deadline) noexcept {
  if (!run_stands()) {
    shows_once(thread, deadline);
  } else if (thread.keeps_time()) {
    sleeps_until(thread, deadline);
  } else {
    thread.read_at_least_ps = ps_of(deadline);
  }
}

// Who only looks now and then sees real time pass while nothing is simulated (gRPC, which JAX's
// processes find each other by, connects again after a second). While something is, its time is
// the run's: by real time a slow simulation would look to JAX as if processes had died.
bool ThreadClocks::run_stands() const noexcept {
  Connection* const open = connection();
  if (open == nullptr) return true;
  channel::RunShared& run = open->run();
  run.followed.store(true, std::memory_order_relaxed);
  return run.goes_since_ns.load(std::memory_order_relaxed) == 0;
}

// Who gives its core up so often waits for another thread or rank, as MPI's progress does: it needs
// no turn until it goes on, and what it burns of the processor is no work.
constexpr int spinning = 64;

// Who sleeps so long between two looks has looked for some 0.1 s. Until then it may be about to go
// on by its own clock; from here on what it waits for hangs on other ranks, or on a process that
// waits for them, and these may have to come further than its clock stands first.
constexpr std::chrono::microseconds long_rest{500};

void ThreadClocks::spins(HostThread& thread, std::chrono::nanoseconds rest) noexcept {
  if (!thread.issues || thread.api_depth > 0) return;
  if (rest >= long_rest && thread.slot != nullptr) return waits_for_memory(thread, rest);
  looks_once_more(thread);
  if (thread.readings >= spinning && thread.slot != nullptr) {
    ThreadState running = ThreadState::running;
    if (thread.slot->state.compare_exchange_strong(running, ThreadState::sleeping)) {
      stop_charging(thread);
      connection()->ring_if_awaited(channel::no_time);
    }
    thread.clock.resume_host();  // from here on, without what passed since the last time
  }
  publish(thread);
}

/// The program sees time go on as far as others have come, or as it sleeps where nothing is
/// simulated; the engine sees where it began to wait.
void ThreadClocks::waits_for_memory(HostThread& thread, std::chrono::nanoseconds rest) noexcept {
  const channel::RunShared& run = connection()->run();
  const std::int64_t answered = run.answered_ps.load(std::memory_order_relaxed);
  if (!thread.answered_before_ps) {
    stop_charging(thread);
    publish(thread);
    const std::lock_guard lock{mutex_};
    thread.answered_before_ps = answered;
    thread.waits_for = &thread;
    thread.slot->wakes_at_ps.store(channel::no_time, std::memory_order_relaxed);
    thread.slot->wait.store(channel::Wait::memory, std::memory_order_relaxed);
    thread.slot->state.store(ThreadState::waiting, std::memory_order_release);
    connection()->ring_if_awaited(channel::no_time);
  } else if (answered > *thread.answered_before_ps) {
    thread.clock.wait_until(time_of_ps(answered));
  } else if (run.goes_since_ns.load(std::memory_order_relaxed) == 0) {
    thread.clock.advance(rest);
  }
}

/// Nobody saw who changed it: some process, after its last call.
void ThreadClocks::memory_has_changed(HostThread& thread) noexcept {
  const channel::RunShared& run = connection()->run();
  {
    const std::lock_guard lock{mutex_};
    thread.waits_for = nullptr;
    thread.slot->wait.store(channel::Wait::none, std::memory_order_relaxed);
    thread.slot->state.store(ThreadState::running);
  }
  // The engine may have read before that the thread waits, and let others pass its clock: what it
  // answers them is known when it has ended this pass, and from then on it waits for this clock.
  const std::uint64_t pass = run.passes.load();
  while (pass % 2 == 1 && run.passes.load() == pass) syscall(SYS_sched_yield);
  const std::int64_t answered = run.answered_ps.load();
  if (answered > *thread.answered_before_ps) thread.clock.wait_until(time_of_ps(answered));
  thread.answered_before_ps.reset();
  thread.slot->clock_ps.store(ps_of(thread.clock.now()), std::memory_order_release);
  charge_host(thread);
}

void ThreadClocks::looks_no_more(HostThread& thread) noexcept {
  if (thread.answered_before_ps) memory_has_changed(thread);
  if (std::exchange(thread.readings, 0) < spinning || thread.slot == nullptr) return;
  ThreadState sleeping = ThreadState::sleeping;
  thread.slot->state.compare_exchange_strong(sleeping, ThreadState::running);
  charge_host(thread);
}

void ThreadClocks::looked_in_vain(HostThread& thread) noexcept {
  constexpr Duration least = std::chrono::microseconds{1};
  if (!thread.issues) {
    thread.read_at_least_ps = ps_of(now(thread) + least);
  } else if (policy_.kind != HostTime::measured) {
    thread.clock.advance(least);
  }
}

void ThreadClocks::wait_begins(HostThread& thread, const void* object, channel::Wait wait,
                               std::optional<Time> deadline) noexcept {
  if (thread.answered_before_ps) goes_on(thread);
  attach(thread);
  if (!takes_part(thread)) return;
  stop_charging(thread);
  publish(thread);
  const std::int64_t wakes_at =
      deadline && takes_time_until(thread, *deadline) ? ps_of(*deadline) : channel::no_time;
  thread.slot->wakes_at_ps.store(wakes_at, std::memory_order_relaxed);
  {
    const std::lock_guard lock{mutex_};
    thread.waits_for = object != nullptr ? object : &thread;
    thread.slot->wait.store(wait, std::memory_order_relaxed);
    thread.slot->state.store(ThreadState::waiting, std::memory_order_release);
  }
  if (wait == channel::Wait::lock) waiting_for_locks_.fetch_add(1);
  connection()->ring_if_awaited(channel::no_time);
  if (held_at_ps_.load() != channel::no_time) others_moved_.raise();
}

void ThreadClocks::waits_again(HostThread& thread, const void* object) noexcept {
  if (!takes_part(thread)) return;
  const std::lock_guard lock{mutex_};
  if (thread.waits_for != nullptr) return;
  thread.waits_for = object;
  thread.slot->state.store(ThreadState::waiting, std::memory_order_release);
}

void ThreadClocks::wait_ends(HostThread& thread, std::int64_t timed_out_at_ps) noexcept {
  goes_on(thread);
  if (timed_out_at_ps != channel::no_time) shows_once(thread, time_of_ps(timed_out_at_ps));
  attach(thread);
  if (!takes_part(thread)) return;
  const bool was_lock = thread.slot->wait.load(std::memory_order_relaxed) == channel::Wait::lock;
  if (was_lock) waiting_for_locks_.fetch_sub(1);
  {
    const std::lock_guard lock{mutex_};
    if (thread.waits_for != nullptr) {
      // Nobody that we saw woke it: it goes on no earlier than the engine was told.
      thread.clock.wait_until(time_of_ps(bound_ps()));
      thread.waits_for = nullptr;
    } else {
      thread.clock.wait_until(time_of_ps(thread.slot->clock_ps.load(std::memory_order_relaxed)));
    }
    thread.slot->clock_ps.store(ps_of(thread.clock.now()), std::memory_order_release);
    thread.slot->wait.store(channel::Wait::none, std::memory_order_relaxed);
    thread.slot->state.store(ThreadState::running, std::memory_order_release);
  }
  charge_host(thread);
}

void ThreadClocks::begins_at(HostThread& thread, Time instant) noexcept {
  std::optional<std::int64_t>& begins = thread.begins_ps;
  begins = std::max(begins.value_or(0), ps_of(instant));
}

void ThreadClocks::begins_as_woken(HostThread& thread, const void* object) noexcept {
  if (thread.issues) return;
  const auto left_ps = object != nullptr ? left_.at(object) : std::nullopt;
  if (!left_ps) {
    thread.begins_ps.reset();
  } else {
    begins_at(thread, time_of_ps(*left_ps));
    thread.woken_ps = std::max(thread.woken_ps, *left_ps);
  }
}

void ThreadClocks::wakes(HostThread& thread, const void* object) noexcept {
  leaves_time(thread, object);
  const std::lock_guard lock{mutex_};
  const bool sleeper = std::any_of(issuers_.begin(), issuers_.end(),
                                   [&](const HostThread* t) { return t->waits_for == object; });
  if (!sleeper) return;
  std::int64_t now = time_of(thread);
  if (!thread.issues) {
    // A thread that spins is woken by nobody: as far as is known it does what a host function left.
    now = std::max({now, bound_ps(), host_function_began_ps_.load(std::memory_order_relaxed)});
  }
  // What it found in memory is not seen, nor who wrote it: some process, after its last call.
  if (thread.polls_memory) {
    now = std::max(now, connection()->run().answered_ps.load(std::memory_order_relaxed));
  }
  for (HostThread* woken : issuers_) {
    if (woken->waits_for != object) continue;
    woken->waits_for = nullptr;
    const std::int64_t own = woken->slot->clock_ps.load(std::memory_order_relaxed);
    woken->slot->clock_ps.store(std::max(own, now), std::memory_order_release);
    woken->slot->state.store(ThreadState::running, std::memory_order_release);
  }
}

void ThreadClocks::leaves_time(HostThread& thread, const void* object) noexcept {
  if (thread.issues ? thread.slot == nullptr || thread.api_depth > 0 : time_of(thread) == 0) {
    return;
  }
  left_.leave(object, time_of(thread));
}

void ThreadClocks::takes_time(HostThread& thread, const void* object) noexcept {
  if (!thread.issues) return begins_as_woken(thread, object);
  if (thread.slot == nullptr || thread.api_depth > 0) return;
  const auto left_ps = left_.at(object);
  if (!left_ps) return;
  thread.clock.wait_until(time_of_ps(*left_ps));
  publish(thread);
}

void ThreadClocks::sends_time(HostThread& thread, std::uint64_t key) noexcept {
  goes_on(thread);
  if (Connection* const open = connection())
    leave_message_time(open->run(), key, {.clock_ps = time_of(thread)});
}

void ThreadClocks::has_sent(std::uint64_t key, std::size_t bytes) noexcept {
  Connection* const open = connection();
  if (open == nullptr) return;
  message_was_written(open->run(), key, bytes);
  open->run().sends.fetch_add(1);
}

struct ThreadClocks::Others {
  struct One {
    std::int64_t clock_ps = 0;
    std::chrono::nanoseconds cpu_time{};
    bool seen = false;
  };
  /// As they were when first looked at, by the index of their slots.
  std::array<One, channel::max_threads> at_first{};
  bool someone_is_behind = false;
  std::int64_t clocks_ps = 0;           ///< the sum
  std::chrono::nanoseconds computed{};  ///< by all, since they were first looked at
};

void ThreadClocks::look_at(Others& others, const HostThread& but,
                           std::int64_t instant_ps) noexcept {
  others.someone_is_behind = false;
  others.clocks_ps = 0;
  others.computed = {};
  const std::lock_guard lock{mutex_};
  for (const HostThread* other : issuers_) {
    if (other == &but || other->slot == nullptr) continue;
    const ThreadState state = other->slot->state.load();
    const channel::Wait wait = other->slot->wait.load();
    // Who waits for a lock, or sleeps for a time of its own, goes on without the reader.
    const bool soon = state == ThreadState::sleeping ||
                      (state == ThreadState::waiting &&
                       (wait == channel::Wait::lock || wait == channel::Wait::interpreter));
    if (state != ThreadState::running && !soon) continue;
    const std::int64_t clock_ps = other->slot->clock_ps.load();
    const std::chrono::nanoseconds cpu_time = cpu_time_of_thread(other->slot->tid);
    Others::One& first = others.at_first[other->index];
    if (!std::exchange(first.seen, true)) first = {clock_ps, cpu_time, true};
    // It shows its clock when it calls; in between it has come as far as it has computed.
    const std::chrono::nanoseconds computed = cpu_time - first.cpu_time;
    const auto computed_ps = static_cast<std::int64_t>(1e3 * other->slot->charged_scale.load() *
                                                       static_cast<double>(computed.count()));
    others.someone_is_behind |= std::max(clock_ps, first.clock_ps + computed_ps) < instant_ps;
    others.clocks_ps += clock_ps;
    others.computed += computed;
  }
}

void ThreadClocks::others_come(HostThread& thread, std::int64_t instant_ps) noexcept {
  constexpr timespec between_looks{0, 2'000'000};
  // Of a wait that no hook sees: neither clock nor CPU time moves for so many looks.
  constexpr int looks_in_vain = 50;
  // Where host time is not measured no clock shows that a thread spins until this one goes on.
  constexpr std::chrono::seconds taken_for_a_spin{1};
  Others others;
  look_at(others, thread, instant_ps);
  if (!others.someone_is_behind) return;
  wait_begins(thread, nullptr, channel::Wait::descriptor, {});
  for (int in_vain = 0; in_vain < looks_in_vain; ++in_vain) {
    const std::uint32_t seen = others_moved_.value();
    std::int64_t held_at = held_at_ps_.load();
    while (instant_ps < held_at && !held_at_ps_.compare_exchange_weak(held_at, instant_ps)) {
    }
    const auto before = std::pair{others.clocks_ps, others.computed};
    look_at(others, thread, instant_ps);
    if (!others.someone_is_behind || others.computed > taken_for_a_spin) break;
    if (before != std::pair{others.clocks_ps, others.computed}) in_vain = 0;
    others_moved_.sleep(seen, between_looks);
  }
  // Others that are held say again where they stand.
  held_at_ps_.store(channel::no_time);
  others_moved_.raise();
  wait_ends(thread, channel::no_time);
}

void ThreadClocks::receives_time(HostThread& thread, std::uint64_t key,
                                 std::size_t bytes) noexcept {
  goes_on(thread);
  Connection* const open = connection();
  if (open == nullptr) return;
  const MessageTime sent = message_was_read(open->run(), key, bytes);
  if (sent.clock_ps == 0) return;
  if (thread.runs_host_function) {
    thread.clock.wait_until(time_of_ps(sent.clock_ps));
  } else if (!thread.issues) {
    if (sent.by_helper) others_come(thread, sent.clock_ps);
    thread.carried_ps = std::max(thread.carried_ps, sent.clock_ps);
  } else if (thread.api_depth == 0) {
    if (sent.by_helper) others_come(thread, sent.clock_ps);
    thread.clock.wait_until(time_of_ps(sent.clock_ps));
    publish(thread);
  }
}

void ThreadClocks::is_a_poller(HostThread& thread) noexcept {
  Connection* const connection = this->connection();
  if (thread.is_poller || thread.issues || connection == nullptr) return;
  const auto tid = static_cast<std::int32_t>(syscall(SYS_gettid));
  for (auto& poller : connection->shared().pollers) {
    std::int32_t free = 0;
    if (!poller.compare_exchange_strong(free, tid)) continue;
    thread.is_poller = true;
    return;
  }
}

void ThreadClocks::sleeps_until(HostThread& thread, Time deadline) noexcept {
  if (!thread.keeps_time()) return;
  stop_charging(thread);
  thread.clock.wait_until(deadline);
  if (thread.issues) publish(thread);
  charge_host(thread);
}

void ThreadClocks::follow_speed(HostThread& thread) noexcept {
  thread.speed.refill_caches(thread.clock);
  if (policy_.scale || !thread.speed.look(thread.clock)) return;
  const double scale = thread.speed.scale() * policy_.host.work;
  thread.clock.set_host_scale(scale);
  if (Connection* const open = connection())
    open->run().host_scale.store(scale, std::memory_order_relaxed);
}

void ThreadClocks::host_function_begins(HostThread& thread, Time instant) noexcept {
  const bool measured = policy_.kind == HostTime::measured;
  if (measured) follow_speed(thread);
  thread.clock.wait_until(instant);
  host_function_began_ps_.store(ps_of(thread.clock.now()), std::memory_order_relaxed);
  thread.runs_host_function = true;
  charge_host(thread);
}

Time ThreadClocks::host_function_ends(HostThread& thread) noexcept {
  stop_charging(thread);
  thread.runs_host_function = false;
  thread.carried_ps = ps_of(thread.clock.now());
  return thread.clock.now();
}

}  // namespace phantora::rank
