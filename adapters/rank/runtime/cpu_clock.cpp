#include "rank/runtime/cpu_clock.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include <sys/rseq.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

namespace phantora::rank {
namespace {

using std::chrono::nanoseconds;

// The system call: the hooks on the C library's function come back here.
nanoseconds system_time(clockid_t clock) noexcept {
  timespec now{};
  syscall(SYS_clock_gettime, clock, &now);
  return std::chrono::seconds{now.tv_sec} + nanoseconds{now.tv_nsec};
}

/// A restartable sequence that no thread ever executes. The kernel clears a thread's mention of it
/// when the thread comes back to a core, or goes on after a signal, outside of the sequence.
struct Unexecuted {
  std::uint32_t signature = RSEQ_SIG;  // which the kernel wants before `abort`
  std::uint32_t abort = 0, begin = 0;
};
constinit const Unexecuted unexecuted{};
rseq_cs sequence{};

std::uint64_t& own_sequence() noexcept {
  auto* const own = static_cast<char*>(__builtin_thread_pointer()) + __rseq_offset;
  return *reinterpret_cast<std::uint64_t*>(own + offsetof(struct rseq, rseq_cs));
}

double measure_ns_per_tick() noexcept;

struct ThisMachine {
  static std::uint64_t ticks() noexcept { return __rdtsc(); }
  static nanoseconds cpu_time() noexcept { return kernels_cpu_time(); }
  static void watch() noexcept {
    __atomic_store_n(&own_sequence(), reinterpret_cast<std::uintptr_t>(&sequence),
                     __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
  }
  static bool lost_core() noexcept {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return __atomic_load_n(&own_sequence(), __ATOMIC_RELAXED) !=
           reinterpret_cast<std::uintptr_t>(&sequence);
  }
  /// Infinite where nothing tells that a thread has lost its core.
  static double ns_per_tick() noexcept {
    static const double measured = measure_ns_per_tick();
    return measured;
  }
  static nanoseconds cost() noexcept { return kernels_reading_cost(); }
};

/// Time between two readings of a clock that come one after the other: the median, since the thread
/// may lose its core between two.
template <class Clock>
nanoseconds time_between_readings(Clock clock) noexcept {
  std::array<nanoseconds, 101> between{};
  for (nanoseconds& each : between) {
    const nanoseconds first = clock();
    each = clock() - first;
  }
  auto* const middle = between.begin() + between.size() / 2;
  std::nth_element(between.begin(), middle, between.end());
  return *middle;
}

/// The kernel clears a mention of `sequence`, as it should.
bool loss_of_core_is_told() noexcept {
  if (__rseq_size == 0) return false;  // neither the kernel nor, by choice, the C library
  ThisMachine::watch();
  const timespec shortest{.tv_sec = 0, .tv_nsec = 1};
  syscall(SYS_nanosleep, &shortest, nullptr);
  return ThisMachine::lost_core();
}

/// The same instant by the counter and by the kernel: of some tries the one that took the shortest.
struct Instant {
  std::uint64_t ticks = 0;
  nanoseconds time{};
};
Instant instant() noexcept {
  Instant best;
  std::uint64_t shortest = std::numeric_limits<std::uint64_t>::max();
  for (int i = 0; i < 8; ++i) {
    const std::uint64_t before = ThisMachine::ticks();
    const nanoseconds time = system_time(CLOCK_MONOTONIC_RAW);
    const std::uint64_t took = ThisMachine::ticks() - before;
    if (took >= shortest) continue;
    shortest = took;
    best = {before + took / 2, time};
  }
  return best;
}

double measure_ns_per_tick() noexcept {
  sequence.start_ip = reinterpret_cast<std::uintptr_t>(&unexecuted.begin);
  sequence.post_commit_offset = 1;
  sequence.abort_ip = reinterpret_cast<std::uintptr_t>(&unexecuted.abort);
  if (!loss_of_core_is_told()) return std::numeric_limits<double>::infinity();
  // An instant is uncertain by the half of a system call: 0.1 % of this at most.
  constexpr std::chrono::microseconds long_enough{500};
  const Instant begin = instant();
  Instant end;
  do {
    end = instant();
  } while (end.time - begin.time < long_enough);
  return static_cast<double>((end.time - begin.time).count()) /
         static_cast<double>(end.ticks - begin.ticks);
}

}  // namespace

nanoseconds real_time() noexcept {
  const double ns_per_tick = ThisMachine::ns_per_tick();
  if (!std::isfinite(ns_per_tick)) return system_time(CLOCK_MONOTONIC_RAW);
  return nanoseconds{
      static_cast<std::int64_t>(static_cast<double>(ThisMachine::ticks()) * ns_per_tick)};
}

nanoseconds kernels_cpu_time() noexcept { return system_time(CLOCK_THREAD_CPUTIME_ID); }

nanoseconds cpu_time_of_thread(int tid) noexcept {
  // As pthread_getcpuclockid() makes the clock (Linux: posix-timers.h, CPUCLOCK_SCHED of a thread).
  constexpr unsigned of_thread = 4, scheduled = 2;
  return system_time(
      static_cast<clockid_t>(~static_cast<unsigned>(tid) << 3U | of_thread | scheduled));
}

nanoseconds kernels_reading_cost() noexcept {
  static const nanoseconds measured = time_between_readings(kernels_cpu_time);
  return measured;
}

nanoseconds thread_cpu_time() noexcept {
  thread_local constinit CpuClock<ThisMachine> clock;
  return clock.now();
}

nanoseconds reading_cost() noexcept {
  static const nanoseconds measured = time_between_readings(thread_cpu_time);
  return measured;
}

}  // namespace phantora::rank
