#include "rank/runtime/host_thread.hpp"

#include "rank/runtime/connection.hpp"
#include "rank/runtime/cpu_clock.hpp"
#include "rank/runtime/spin_lock.hpp"
#include "rank/runtime/standing.hpp"

#include <phantora/simulation/host_process.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace phantora::rank {
namespace {

struct Facts {
  HostTimePolicy policy;
  Epoch epoch;
};

Facts read_facts() {
  Facts facts;
  facts.policy = channel::host_time_of_environment();
  if (const char* text = std::getenv(channel::epoch_variable)) {
    char* rest = nullptr;
    facts.epoch.realtime_ns = std::strtoll(text, &rest, 10);
    if (*rest == ':') facts.epoch.monotonic_ns = std::strtoll(rest + 1, nullptr, 10);
  }
  return facts;
}

// The issuing threads, so that sleepers can be found and the latest clock be read. Few.
struct Issuers {
  SpinLock mutex;
  std::vector<HostThread*> threads;
};
Issuers& issuers() {
  static auto* all = new Issuers;  // outlives every thread
  return *all;
}
std::atomic<std::int64_t> latest_ps{0};

Facts& facts() {
  static Facts all = read_facts();
  return all;
}

void leave_pollers(HostThread& thread) {
  Connection* connection = Connection::established();
  if (!thread.is_poller || connection == nullptr) return;
  const auto tid = static_cast<std::int32_t>(syscall(SYS_gettid));
  for (auto& poller : connection->shared().pollers) {
    std::int32_t mine = tid;
    if (poller.compare_exchange_strong(mine, 0)) return;
  }
}

void retire(HostThread& thread) {
  leave_pollers(thread);
  Issuers& all = issuers();
  const std::lock_guard lock{all.mutex};
  std::erase(all.threads, &thread);
  if (thread.slot != nullptr) {
    thread.slot->state.store(channel::ThreadState::unused, std::memory_order_release);
    Connection::ring_if_awaited(channel::no_time);
  }
}

/// Times left at objects. Where two objects share an entry the older one's time is lost: whoever
/// comes there goes on by its own clock, as if nothing had been left.
struct LeftTime {
  std::atomic<const void*> object{nullptr};
  std::atomic<std::int64_t> clock_ps{0};
};
LeftTime& left_time(const void* object) {
  static auto* all = new std::array<LeftTime, 1024>;
  // Semaphores are 32 bytes apart at least.
  return (*all)[(reinterpret_cast<std::uintptr_t>(object) >> 5U) % all->size()];
}

thread_local HostThread* self = nullptr;

struct Registration {
  HostThread* thread = nullptr;
  ~Registration() {
    // The main thread still runs the program's exit handlers after this.
    if (thread == nullptr || getpid() == static_cast<pid_t>(syscall(SYS_gettid))) return;
    leaves_time(reinterpret_cast<const void*>(pthread_self()));
    retire(*thread);
    self = nullptr;
    delete thread;
  }
};
thread_local Registration registration;

std::atomic<int> waiting_for_locks{0};

/// The instant from which on the effects of what the calling thread does count.
std::int64_t time_of(HostThread& thread) {
  return thread.issues ? thread.clock.now().time_since_epoch().count() : thread.carried_ps;
}

/// The entry of `key`, or the one to use for it.
channel::MessageTimes::Entry* message_time(std::uint64_t key, bool make) {
  Connection* connection = Connection::established();
  if (connection == nullptr || key == 0) return nullptr;
  auto& entries = connection->run().message_times.entries;
  constexpr std::uint64_t golden = 0x9e3779b97f4a7c15ULL;  // 2^64 / golden ratio: spreads keys
  const std::size_t first = (key * golden) >> 50U;         // 14 bits, as there are entries
  static_assert(std::tuple_size_v<std::remove_reference_t<decltype(entries)>> == 1U << 14U);
  for (std::size_t i = 0; i < channel::MessageTimes::probes; ++i) {
    auto& entry = entries[(first + i) % entries.size()];
    std::uint64_t found = entry.key.load(std::memory_order_acquire);
    if (found == key) return &entry;
    if (!make || found != 0) continue;
    if (entry.key.compare_exchange_strong(found, key) || found == key) return &entry;
  }
  if (!make) return nullptr;
  auto& replaced = entries[first];
  replaced.clock_ps.store(0, std::memory_order_relaxed);
  replaced.key.store(key, std::memory_order_release);
  return &replaced;
}

/// The bound that the engine uses for this rank now. With issuers().mutex held.
std::int64_t bound_ps(const Issuers& all) {
  HostProcess process;
  for (const HostThread* thread : all.threads) {
    if (thread->slot == nullptr) continue;
    const Time clock{Duration{thread->slot->clock_ps.load(std::memory_order_relaxed)}};
    if (thread->waits_for == nullptr) {
      process.runs(clock);
    } else {
      process.waits(clock);
    }
  }
  return process.bound().value_or(Time{}).time_since_epoch().count();
}

}  // namespace

bool in_virtual_time() noexcept { return standing() == Standing::in_time; }

const HostTimePolicy& host_time_policy() noexcept { return facts().policy; }
const Epoch& epoch() noexcept { return facts().epoch; }
void go_on_from(std::int64_t start_ps) noexcept {
  const auto before_start = [&](clockid_t clock) {
    timespec now{};
    // The system call: the hooks on the C library's function come back here.
    syscall(SYS_clock_gettime, clock, &now);
    return now.tv_sec * 1'000'000'000 + now.tv_nsec - start_ps / 1000;
  };
  facts().epoch = {before_start(CLOCK_REALTIME), before_start(CLOCK_MONOTONIC)};
}

HostThread& this_thread() noexcept {
  if (self == nullptr) {
    const HostTimePolicy& policy = host_time_policy();
    const bool measured = policy.kind == HostTime::measured;
    self = new HostThread{
        .clock = measured ? VirtualClock{thread_cpu_time, policy.scale.value_or(1), reading_cost()}
                          : VirtualClock{}};
    registration.thread = self;
    if (getpid() == static_cast<pid_t>(syscall(SYS_gettid))) {
      self->issues = true;
      charge_host(*self);
      const std::lock_guard lock{issuers().mutex};
      issuers().threads.push_back(self);
    }
  }
  return *self;
}

void become_issuer(HostThread& thread) noexcept {
  if (!thread.issues) {
    thread.issues = true;
    const std::lock_guard lock{issuers().mutex};
    issuers().threads.push_back(&thread);
  }
  if (thread.slot == nullptr) {
    // It was started, or handed its first work, by a thread of this rank: at best we saw by which.
    const std::int64_t begins_ps =
        thread.begins_ps.value_or(latest_ps.load(std::memory_order_relaxed));
    thread.clock.wait_until(Time{Duration{std::max(begins_ps, thread.carried_ps)}});
    Connection::claim_slot(thread);
    publish(thread);
  }
}

namespace {
/// The main thread has a part in time also where another thread made the connection.
void attach(HostThread& thread) {
  if (!thread.issues || thread.slot != nullptr || Connection::established() == nullptr) return;
  Connection::claim_slot(thread);
}
}  // namespace

void charge_host(HostThread& thread) noexcept {
  thread.clock.resume_host();
  if (thread.slot == nullptr) return;
  thread.slot->charged_scale.store(static_cast<float>(thread.clock.host_scale()),
                                   std::memory_order_relaxed);
}

void stop_charging(HostThread& thread) noexcept {
  thread.clock.pause_host();
  if (thread.slot != nullptr) thread.slot->charged_scale.store(0, std::memory_order_relaxed);
}

void publish(HostThread& thread) noexcept {
  const std::int64_t now = thread.clock.now().time_since_epoch().count();
  std::int64_t seen = latest_ps.load(std::memory_order_relaxed);
  while (seen < now && !latest_ps.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
  }
  attach(thread);
  if (thread.slot == nullptr) return;
  thread.slot->clock_ps.store(now, std::memory_order_release);
  Connection::ring_if_awaited(now);
}

Time virtual_now() noexcept {
  HostThread& thread = this_thread();
  Time now{};
  if (thread.issues) {
    now = thread.clock.now();
    if (thread.api_depth == 0) publish(thread);
  } else {
    now = Time{Duration{latest_ps.load(std::memory_order_relaxed)}};
  }
  return std::max(now, Time{Duration{thread.read_at_least_ps}});
}

namespace {
// A loop that reads the clock until it shows a certain time, or spins until another thread or rank
// has come, ends in every mode, as polling the GPU does: nothing but a loop does so this often
// without a GPU call, a message or a wait in between. (Importing TorchTitan reads the clock 51,000
// times, PyTorch alone 15,000 times: Python does so whenever it takes a lock.)
void looks_once_more(HostThread& thread) {
  constexpr int many = 100'000;
  if (thread.issues && host_time_policy().kind != HostTime::measured && ++thread.readings > many) {
    thread.clock.advance(std::chrono::microseconds{1});
  }
}
}  // namespace

Time read_clock(ProgramClock clock) noexcept {
  HostThread& thread = this_thread();
  const Time now = virtual_now();
  // Its first work will not be earlier than what it has seen.
  if (!thread.issues && thread.begins_ps) begins_at(now);
  looks_once_more(thread);
  std::int64_t& once = thread.read_once_ps[static_cast<std::size_t>(clock)];
  return std::max(now, Time{Duration{std::exchange(once, 0)}});
}

void shows_once(Time deadline) noexcept {
  this_thread().read_once_ps.fill(deadline.time_since_epoch().count());
}

bool takes_time_until(Time deadline) noexcept {
  // Polling is done in fractions of a second. Longer waits are safety nets, which end early where
  // the simulation is slow: PyTorch's DataLoader looks after its workers every 5 s
  // (MP_STATUS_CHECK_INTERVAL). The program sees once that they have ended, and the clock stays.
  constexpr Duration polling = std::chrono::seconds{1};
  return deadline - virtual_now() <= polling;
}

void wait_timed_out(Time deadline) noexcept {
  // Linux wakes sleepers late by up to this (PR_SET_TIMERSLACK's default), never early.
  constexpr Duration timer_slack = std::chrono::microseconds{50};
  HostThread& thread = this_thread();
  const bool polls = takes_time_until(deadline);
  deadline += timer_slack;
  if (polls && thread.issues) {
    sleeps_until(deadline);
  } else if (polls) {
    thread.read_at_least_ps = deadline.time_since_epoch().count();
  } else {
    shows_once(deadline);
  }
}

void spins() noexcept {
  HostThread& thread = this_thread();
  if (!thread.issues || thread.api_depth > 0) return;
  looks_once_more(thread);
  publish(thread);
}

void looks_for_messages() noexcept {
  HostThread& thread = this_thread();
  if (thread.issues) return;
  thread.carried_ps = 0;
  thread.begins_ps.reset();
}

void looked_in_vain() noexcept {
  constexpr Duration least = std::chrono::microseconds{1};
  HostThread& thread = this_thread();
  if (!thread.issues) {
    thread.read_at_least_ps = (virtual_now() + least).time_since_epoch().count();
  } else if (host_time_policy().kind != HostTime::measured) {
    thread.clock.advance(least);
  }
}

void wait_begins(const void* object, channel::Wait wait, std::optional<Time> deadline) noexcept {
  HostThread& thread = this_thread();
  attach(thread);
  if (!thread.issues || thread.slot == nullptr || thread.api_depth > 0) return;
  stop_charging(thread);
  publish(thread);
  const std::int64_t wakes_at = deadline && takes_time_until(*deadline)
                                    ? deadline->time_since_epoch().count()
                                    : channel::no_time;
  thread.slot->wakes_at_ps.store(wakes_at, std::memory_order_relaxed);
  {
    const std::lock_guard lock{issuers().mutex};
    thread.waits_for = object != nullptr ? object : &thread;
    thread.slot->wait.store(wait, std::memory_order_relaxed);
    thread.slot->state.store(channel::ThreadState::waiting, std::memory_order_release);
  }
  if (wait == channel::Wait::lock) waiting_for_locks.fetch_add(1);
  Connection::ring_if_awaited(channel::no_time);
}

void waits_again(const void* object) noexcept {
  HostThread& thread = this_thread();
  if (!thread.issues || thread.slot == nullptr || thread.api_depth > 0) return;
  const std::lock_guard lock{issuers().mutex};
  if (thread.waits_for != nullptr) return;
  thread.waits_for = object;
  thread.slot->state.store(channel::ThreadState::waiting, std::memory_order_release);
}

void wait_ends(std::int64_t timed_out_at_ps) noexcept {
  HostThread& thread = this_thread();
  thread.readings = 0;
  if (timed_out_at_ps != channel::no_time) shows_once(Time{Duration{timed_out_at_ps}});
  attach(thread);
  if (!thread.issues || thread.slot == nullptr || thread.api_depth > 0) return;
  const bool was_lock = thread.slot->wait.load(std::memory_order_relaxed) == channel::Wait::lock;
  if (was_lock) waiting_for_locks.fetch_sub(1);
  {
    const std::lock_guard lock{issuers().mutex};
    if (thread.waits_for != nullptr) {
      // Nobody that we saw woke it: it goes on no earlier than the engine was told.
      thread.clock.wait_until(Time{Duration{bound_ps(issuers())}});
      thread.waits_for = nullptr;
    } else {
      thread.clock.wait_until(
          Time{Duration{thread.slot->clock_ps.load(std::memory_order_relaxed)}});
    }
    thread.slot->clock_ps.store(thread.clock.now().time_since_epoch().count(),
                                std::memory_order_release);
    thread.slot->wait.store(channel::Wait::none, std::memory_order_relaxed);
    thread.slot->state.store(channel::ThreadState::running, std::memory_order_release);
  }
  charge_host(thread);
}

void begins_at(Time instant) noexcept {
  std::optional<std::int64_t>& begins = this_thread().begins_ps;
  begins = std::max(begins.value_or(0), instant.time_since_epoch().count());
}

void begins_as_woken(const void* object) noexcept {
  HostThread& thread = this_thread();
  if (thread.issues) return;
  const LeftTime& left = left_time(object);
  if (object == nullptr || left.object.load(std::memory_order_acquire) != object) {
    thread.begins_ps.reset();
  } else {
    begins_at(Time{Duration{left.clock_ps.load(std::memory_order_relaxed)}});
  }
}

void wakes(const void* object) noexcept {
  leaves_time(object);
  Issuers& all = issuers();
  const std::lock_guard lock{all.mutex};
  const bool sleeper = std::any_of(all.threads.begin(), all.threads.end(),
                                   [&](const HostThread* t) { return t->waits_for == object; });
  if (!sleeper) return;
  HostThread& waker = this_thread();
  const std::int64_t now = waker.issues ? time_of(waker) : std::max(bound_ps(all), time_of(waker));
  for (HostThread* thread : all.threads) {
    if (thread->waits_for != object) continue;
    thread->waits_for = nullptr;
    const std::int64_t own = thread->slot->clock_ps.load(std::memory_order_relaxed);
    thread->slot->clock_ps.store(std::max(own, now), std::memory_order_release);
    thread->slot->state.store(channel::ThreadState::running, std::memory_order_release);
  }
}

void leaves_time(const void* object) noexcept {
  HostThread& thread = this_thread();
  if (thread.issues ? thread.slot == nullptr || thread.api_depth > 0 : thread.carried_ps == 0) {
    return;
  }
  LeftTime& left = left_time(object);
  left.clock_ps.store(time_of(thread), std::memory_order_relaxed);
  left.object.store(object, std::memory_order_release);
}

void takes_time(const void* object) noexcept {
  HostThread& thread = this_thread();
  if (!thread.issues) return begins_as_woken(object);
  if (thread.slot == nullptr || thread.api_depth > 0) return;
  const LeftTime& left = left_time(object);
  if (left.object.load(std::memory_order_acquire) != object) return;
  thread.clock.wait_until(Time{Duration{left.clock_ps.load(std::memory_order_relaxed)}});
  publish(thread);
}

bool someone_waits_for_a_lock() noexcept {
  return waiting_for_locks.load(std::memory_order_relaxed) > 0;
}

void sends_time(std::uint64_t key) noexcept {
  HostThread& thread = this_thread();
  const std::int64_t now = time_of(thread);
  if (now == 0) return;
  auto* const entry = message_time(key, true);
  if (entry != nullptr) entry->clock_ps.store(now, std::memory_order_release);
}

void has_sent() noexcept {
  Connection* connection = Connection::established();
  if (connection != nullptr) connection->run().sends.fetch_add(1);
}

std::uint64_t key_of_process(std::int32_t process) noexcept {
  return std::uint64_t{3} << 56U | static_cast<std::uint32_t>(process);
}

namespace {
/// The program's last words.
[[gnu::destructor]] void process_ends() {
  if (in_virtual_time() && Connection::established() != nullptr) {
    sends_time(key_of_process(getpid()));
  }
}
}  // namespace

void receives_time(std::uint64_t key) noexcept {
  this_thread().readings = 0;
  const auto* const entry = message_time(key, false);
  if (entry == nullptr) return;
  const std::int64_t sent = entry->clock_ps.load(std::memory_order_acquire);
  HostThread& thread = this_thread();
  if (!thread.issues) {
    thread.carried_ps = sent;
  } else if (thread.api_depth == 0) {
    thread.clock.wait_until(Time{Duration{sent}});
    publish(thread);
  }
}

void is_a_poller() noexcept {
  HostThread& thread = this_thread();
  Connection* connection = Connection::established();
  if (thread.is_poller || thread.issues || connection == nullptr) return;
  const auto tid = static_cast<std::int32_t>(syscall(SYS_gettid));
  for (auto& poller : connection->shared().pollers) {
    std::int32_t free = 0;
    if (!poller.compare_exchange_strong(free, tid)) continue;
    thread.is_poller = true;
    return;
  }
}

void runs_at(Time instant) noexcept {
  this_thread().carried_ps = instant.time_since_epoch().count();
}

void sleeps_until(Time deadline) noexcept {
  HostThread& thread = this_thread();
  if (!thread.issues) return;
  stop_charging(thread);
  thread.clock.wait_until(deadline);
  publish(thread);
  charge_host(thread);
}

namespace {
void show_state(channel::ThreadState state) {
  HostThread& thread = this_thread();
  if (thread.issues && thread.slot != nullptr) {
    thread.slot->state.store(state, std::memory_order_release);
  }
}
}  // namespace

Sleeping::Sleeping() noexcept { show_state(channel::ThreadState::sleeping); }
Sleeping::~Sleeping() { show_state(channel::ThreadState::running); }

}  // namespace phantora::rank
