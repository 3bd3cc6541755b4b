#pragma once

#include "channel/settings.hpp"
#include "channel/wire.hpp"
#include "rank/runtime/api_call.hpp"
#include "rank/runtime/host_speed.hpp"

#include <phantora/simulation/virtual_clock.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

/// Virtual time of the threads of this process (design section 4, rules 1, 2 and 6).
namespace phantora::rank {

/// What the calling thread is to the simulation.
struct HostThread {
  VirtualClock clock;
  HostSpeed speed{};
  /// Issues GPU work: it is a logical process, and its clock moves. The main thread is one from the
  /// start; others become one with their first call that issues work.
  bool issues = false;
  bool runs_host_function = false;  ///< its clock moves meanwhile, though nobody else sees it
  int api_depth = 0;                ///< nested ApiCalls
  /// The outermost of them, while a profiler asks.
  struct Call {
    CalledFunction function{};
    std::uint32_t number = 0;  ///< 0: it has none yet
    Time start{};
  } call{};
  [[nodiscard]] bool keeps_time() const noexcept { return issues || runs_host_function; }
  channel::ThreadSlot* slot = nullptr;  ///< once connected and issuing
  std::uint32_t index = channel::no_thread;
  const void* waits_for = nullptr;  ///< what it sleeps on, while waiting
  /// Of a thread without a part in time: the instant of what it saw last (a message, a completion
  /// that it asked about, the host function that it runs). Whom it wakes goes on no earlier.
  std::int64_t carried_ps = 0;
  /// Of a thread that has issued no work yet: the clock of who started it or woke it last, if
  /// known.
  std::optional<std::int64_t> begins_ps{};
  /// Of a thread without a part in time: the latest clock of those that woke it. What it sends it
  /// may have been given then, as by Python's queues between processes.
  std::int64_t woken_ps = 0;
  bool is_poller = false;  ///< listed in RankShared::pollers
  /// A wait timed out: the next reading of each ProgramClock shows its deadline.
  std::array<std::int64_t, 2> read_once_ps{};
  std::int64_t read_at_least_ps = 0;       ///< where a thread without a part in time has waited to
  std::chrono::nanoseconds read_at_cpu{};  ///< its CPU time when it last read a clock
  int readings = 0;  ///< of the clock, or times the core was given up, since the last GPU call,
                     ///< wait or message
  bool polls_memory = false;  ///< which others write, maybe those of other ranks
  /// It has a part in time and waits for such memory: what the engine had answered at the latest
  /// when it began to.
  std::optional<std::int64_t> answered_before_ps{};
  std::uint32_t calls = 0;  ///< intercepted ones that it has made
};

/// Whether this process lives in virtual time (rank/runtime/standing.hpp).
bool in_virtual_time() noexcept;

/// The calling thread's record; made at first use. Only where in_virtual_time().
HostThread& this_thread() noexcept;

/// Virtual time for the calling thread: its own clock if it issues work, else the rank's latest.
Time virtual_now() noexcept;

/// The clocks that a program reads. Those who wait with a deadline look at one or both of them
/// afterwards: C++'s condition_variable, built for an old glibc, at both.
enum class ProgramClock : std::uint8_t { realtime, monotonic };
/// Virtual time as the program reads it from a clock.
Time read_clock(ProgramClock clock) noexcept;
/// The calling thread has waited until `deadline` of virtual time: its next look at each clock
/// shows that, also where its time has not come so far.
void shows_once(Time deadline) noexcept;

/// What the launcher chose.
const HostTimePolicy& host_time_policy() noexcept;

using channel::Epoch;
const Epoch& epoch() noexcept;

// --- Hand-over of time between threads, driven by the libc hooks ---

/// The calling thread starts to wait for `object` (its address, or nullptr if nobody wakes it by
/// name), which is of the kind `wait`, until `deadline` of virtual time at the latest.
void wait_begins(const void* object, channel::Wait wait,
                 std::optional<Time> deadline = {}) noexcept;
/// It was woken as one of several who wait for a lock, and another was quicker: it waits on.
void waits_again(const void* object) noexcept;
/// It woke. @param timed_out_at  the deadline if it did by timeout, else no_time.
void wait_ends(std::int64_t timed_out_at_ps) noexcept;
/// Whether time passes in a wait of the program's own until `deadline` that times out.
bool takes_time_until(Time deadline) noexcept;
/// A wait of the program's own until `deadline` of virtual time has timed out: nothing came, and
/// its time has passed.
void wait_timed_out(Time deadline) noexcept;
/// The same of a wait after which the thread looks whether to wait on: its time passes where
/// nothing is simulated; else the program sees once that it has passed.
void look_timed_out(Time deadline) noexcept;
/// A look without waiting found nothing. Costs a microsecond at least, so that loops until a
/// deadline end (multiprocessing's wait() goes on until the clock has passed its start).
void looked_in_vain() noexcept;
/// The calling thread has just been started, at `instant` of who did so.
void begins_at(Time instant) noexcept;
/// The calling thread was woken on `object`: if it has issued no work yet, that begins no earlier
/// than who woke it, as far as the time was left there; else when that is, nobody saw.
void begins_as_woken(const void* object) noexcept;
/// The calling thread is about to wake sleepers on `object`: they go on no earlier than it. The
/// time is left there too, as by leaves_time().
void wakes(const void* object) noexcept;
/// The calling thread leaves its time at `object` (a semaphore, a thread that ends), for whoever
/// comes there without having to sleep.
void leaves_time(const void* object) noexcept;
/// The calling thread found `object` ready: it goes on no earlier than who made it so.
void takes_time(const void* object) noexcept;
/// Whether some thread of this process waits for a lock: only then need an unlock say so. Costs
/// next to nothing.
bool someone_waits_for_a_lock() noexcept;
/// The calling thread is about to send bytes on the connection or pipe `key`: its time goes with
/// them.
void sends_time(std::uint64_t key) noexcept;
/// The calling thread has sent so many bytes.
void has_sent(std::uint64_t key, std::size_t bytes) noexcept;
/// The same of the end of a process, for whoever waits for that.
std::uint64_t key_of_process(std::int32_t process) noexcept;
/// The calling thread received so many bytes: it goes on no earlier than who sent them.
void receives_time(std::uint64_t key, std::size_t bytes) noexcept;
/// The calling thread is one of a library's own that wakes now and then, looks, and sleeps again.
void is_a_poller() noexcept;
/// The calling thread, of an event loop, looks what has come: what came before no longer counts.
void looks_for_messages() noexcept;
/// The calling thread, which has a part in time, gives its core up: a loop that does so very often
/// takes time, as one that reads the clock, but needs no turn and is not charged for it.
/// @param rest  for how long it is about to sleep. Whoever comes to sleep for long waits for memory
///   that others write: until it goes on, as late as they are, it holds nobody up.
void spins(std::chrono::nanoseconds rest) noexcept;
/// The calling thread does something else.
void goes_on() noexcept;
/// The calling thread, without a part in time, looks again and again at memory that others write:
/// it is a poller.
void polls_memory() noexcept;
/// The calling thread runs a host function, whose time came at `instant`, until the second is
/// called, which tells when it ended. Such functions come one after another, as on the driver's own
/// thread.
void host_function_begins(Time instant) noexcept;
Time host_function_ends() noexcept;
/// Whether it does so now: the function is not to call CUDA.
bool in_host_function() noexcept;
/// The calling thread is about to sleep until `deadline` of virtual time: its clock goes there now,
/// so that nobody waits for it meanwhile.
void sleeps_until(Time deadline) noexcept;

/// While one exists, the calling thread sleeps: it needs no turn to run.
class Sleeping {
 public:
  Sleeping() noexcept;
  ~Sleeping();
  Sleeping(const Sleeping&) = delete;
  Sleeping& operator=(const Sleeping&) = delete;
};

}  // namespace phantora::rank
