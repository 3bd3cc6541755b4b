#include "rank/host_thread.hpp"

#include "rank/connection.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace phantora::rank {
namespace {

struct Facts {
  bool virtual_time = false;
  HostTimePolicy policy;
  Epoch epoch;
};

HostTimePolicy parse_policy(const char* text, const char* scale) {
  HostTimePolicy policy;
  const std::string kind = text != nullptr ? text : "measured";
  if (kind == "off") policy.kind = HostTime::off;
  if (kind.starts_with("fixed:")) {
    policy.kind = HostTime::fixed;
    policy.per_call = std::chrono::nanoseconds{std::strtoll(kind.c_str() + 6, nullptr, 10)};
  }
  if (scale != nullptr && std::string{scale} != "auto") policy.scale = std::strtod(scale, nullptr);
  return policy;
}

// A process is a rank if the launcher said so and it was not started by one that has connected:
// compilers, shells and data loaders that a rank starts stay in real time.
Facts read_facts() {
  Facts facts;
  const char* connected = std::getenv(channel::connected_variable);
  facts.virtual_time =
      std::getenv(channel::socket_variable) != nullptr && std::getenv("RANK") != nullptr &&
      (connected == nullptr || std::strtol(connected, nullptr, 10) == static_cast<long>(getpid()));
  facts.policy = parse_policy(std::getenv(channel::host_time_variable),
                              std::getenv(channel::host_scale_variable));
  if (const char* text = std::getenv(channel::epoch_variable)) {
    char* rest = nullptr;
    facts.epoch.realtime_ns = std::strtoll(text, &rest, 10);
    if (*rest == ':') facts.epoch.monotonic_ns = std::strtoll(rest + 1, nullptr, 10);
  }
  return facts;
}

std::atomic<bool> active{false};

// The issuing threads, so that sleepers can be found and the latest clock be read. Few.
struct Issuers {
  std::mutex mutex;
  std::vector<HostThread*> threads;
};
Issuers& issuers() {
  static auto* all = new Issuers;  // outlives every thread
  return *all;
}
std::atomic<std::int64_t> latest_ps{0};

const Facts& facts() {
  static const Facts all = [] {
    Facts read = read_facts();
    active.store(read.virtual_time, std::memory_order_relaxed);
    // Only the forking thread lives on in a child, and the child is no rank.
    if (read.virtual_time) pthread_atfork(nullptr, nullptr, [] { active.store(false); });
    return read;
  }();
  return all;
}

void retire(HostThread& thread) {
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

/// The bound that the engine uses for this rank now: what running threads allow; when all wait, the
/// latest of their clocks. With issuers().mutex held.
std::int64_t bound_ps(const Issuers& all) {
  std::int64_t running = channel::no_time;
  std::int64_t latest = 0;
  for (const HostThread* thread : all.threads) {
    if (thread->slot == nullptr) continue;
    const std::int64_t clock = thread->slot->clock_ps.load(std::memory_order_relaxed);
    if (thread->waits_for == nullptr) running = std::min(running, clock);
    latest = std::max(latest, clock);
  }
  return running != channel::no_time ? running : latest;
}

}  // namespace

bool in_virtual_time() noexcept {
  static const bool once = facts().virtual_time;
  return once && active.load(std::memory_order_relaxed);
}

const HostTimePolicy& host_time_policy() noexcept { return facts().policy; }
const Epoch& epoch() noexcept { return facts().epoch; }

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
      self->clock.resume_host();
      const std::lock_guard lock{issuers().mutex};
      issuers().threads.push_back(self);
    }
  }
  return *self;
}

void become_issuer(HostThread& thread) noexcept {
  if (!thread.issues) {
    thread.issues = true;
    // It was started, or handed its first work, by a thread of this rank.
    thread.clock.wait_until(Time{Duration{latest_ps.load(std::memory_order_relaxed)}});
    const std::lock_guard lock{issuers().mutex};
    issuers().threads.push_back(&thread);
  }
  if (thread.slot == nullptr) {
    Connection::claim_slot(thread);
    publish(thread);
  }
}

void publish(HostThread& thread) noexcept {
  const std::int64_t now = thread.clock.now().time_since_epoch().count();
  std::int64_t seen = latest_ps.load(std::memory_order_relaxed);
  while (seen < now && !latest_ps.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
  }
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

Time read_clock(ProgramClock clock) noexcept {
  HostThread& thread = this_thread();
  const Time now = virtual_now();
  // A loop that reads the clock until it shows a certain time ends in every mode, as polling the
  // GPU does: nothing but a loop reads so often between two GPU calls.
  constexpr int many = 10'000;
  if (thread.issues && host_time_policy().kind != HostTime::measured && ++thread.readings > many) {
    thread.clock.advance(std::chrono::microseconds{1});
  }
  std::int64_t& once = thread.read_once_ps[static_cast<std::size_t>(clock)];
  return std::max(now, Time{Duration{std::exchange(once, 0)}});
}

void shows_once(Time deadline) noexcept {
  this_thread().read_once_ps.fill(deadline.time_since_epoch().count());
}

void wait_timed_out(Time deadline) noexcept {
  // Polling is done in fractions of a second. Longer waits are safety nets, which end early where
  // the simulation is slow: PyTorch's DataLoader looks after its workers every 5 s
  // (MP_STATUS_CHECK_INTERVAL). The program sees once that they have ended, and the clock stays.
  constexpr Duration polling = std::chrono::seconds{1};
  // Linux wakes sleepers late by up to this (PR_SET_TIMERSLACK's default), never early.
  constexpr Duration timer_slack = std::chrono::microseconds{50};
  HostThread& thread = this_thread();
  const bool polls = deadline - virtual_now() <= polling;
  deadline += timer_slack;
  if (polls && thread.issues) {
    sleeps_until(deadline);
  } else if (polls) {
    thread.read_at_least_ps = deadline.time_since_epoch().count();
  } else {
    shows_once(deadline);
  }
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

void wait_begins(const void* object) noexcept {
  HostThread& thread = this_thread();
  if (!thread.issues || thread.slot == nullptr || thread.api_depth > 0) return;
  thread.clock.pause_host();
  publish(thread);
  {
    const std::lock_guard lock{issuers().mutex};
    thread.waits_for = object;
    thread.slot->state.store(channel::ThreadState::waiting, std::memory_order_release);
  }
  Connection::ring_if_awaited(channel::no_time);
}

void wait_ends(std::int64_t timed_out_at_ps) noexcept {
  HostThread& thread = this_thread();
  if (timed_out_at_ps != channel::no_time) shows_once(Time{Duration{timed_out_at_ps}});
  if (!thread.issues || thread.slot == nullptr || thread.api_depth > 0) return;
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
    thread.slot->state.store(channel::ThreadState::running, std::memory_order_release);
  }
  thread.clock.resume_host();
}

void wakes(const void* object) noexcept {
  Issuers& all = issuers();
  const std::lock_guard lock{all.mutex};
  const bool sleeper = std::any_of(all.threads.begin(), all.threads.end(),
                                   [&](const HostThread* t) { return t->waits_for == object; });
  if (!sleeper) return;
  HostThread& waker = this_thread();
  const std::int64_t now =
      waker.issues ? waker.clock.now().time_since_epoch().count() : bound_ps(all);
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
  if (!thread.issues || thread.slot == nullptr || thread.api_depth > 0) return;
  LeftTime& left = left_time(object);
  left.clock_ps.store(thread.clock.now().time_since_epoch().count(), std::memory_order_relaxed);
  left.object.store(object, std::memory_order_release);
}

void takes_time(const void* object) noexcept {
  HostThread& thread = this_thread();
  if (!thread.issues || thread.slot == nullptr || thread.api_depth > 0) return;
  const LeftTime& left = left_time(object);
  if (left.object.load(std::memory_order_acquire) != object) return;
  thread.clock.wait_until(Time{Duration{left.clock_ps.load(std::memory_order_relaxed)}});
  publish(thread);
}

void sleeps_until(Time deadline) noexcept {
  HostThread& thread = this_thread();
  if (!thread.issues) return;
  thread.clock.pause_host();
  thread.clock.wait_until(deadline);
  publish(thread);
  thread.clock.resume_host();
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
