#pragma once

#include "channel/sequence.hpp"
#include "channel/wire.hpp"
#include "rank/runtime/host_thread.hpp"
#include "rank/runtime/left_times.hpp"
#include "rank/runtime/spin_lock.hpp"

#include <phantora/simulation/host_time.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace phantora::rank {

class Connection;

/// The clocks of this process's threads, and how threads hand them over when one waits for another
/// (design section 4, rules 1, 2 and 6). Each function is called on the thread whose record it is
/// given; host_thread.hpp says what they mean, where they are called for the calling thread.
class ThreadClocks {
 public:
  explicit ThreadClocks(const HostTimePolicy& policy) : policy_{policy} {
    issuers_.reserve(channel::max_threads);  // adding one does not allocate: see make_self
  }
  ThreadClocks(const ThreadClocks&) = delete;
  ThreadClocks& operator=(const ThreadClocks&) = delete;

  [[nodiscard]] const HostTimePolicy& policy() const noexcept { return policy_; }
  /// From here on the engine and other processes see the clocks.
  void connected(Connection& connection) noexcept {
    connection_.store(&connection, std::memory_order_release);
  }
  [[nodiscard]] Connection* connection() const noexcept {
    return connection_.load(std::memory_order_acquire);
  }

  /// The thread has a part in time, also before there is a connection.
  void add(HostThread& thread) noexcept;
  /// The same, and a slot; once connected.
  void become_issuer(HostThread& thread) noexcept {
    if (thread.slot == nullptr || !thread.issues) enter(thread);
  }
  /// The thread ends.
  void remove(HostThread& thread) noexcept;

  /// Shows the thread's clock to the engine and to the other threads.
  void publish(HostThread& thread) noexcept;
  /// From here on the thread's CPU time is charged.
  static void charge_host(HostThread& thread) noexcept {
    thread.clock.resume_host();
    show_scale(thread, static_cast<float>(thread.clock.host_scale()));
  }
  /// Charges the CPU time up to here, and no more.
  static void stop_charging(HostThread& thread) noexcept {
    thread.clock.pause_host();
    show_scale(thread, 0);
  }

  /// What CPU time is worth hangs on how fast this machine is now, and on what has come between the
  /// thread's own work. To be called while none is charged, where it is measured.
  void follow_speed(HostThread& thread) noexcept;

  Time now(HostThread& thread) noexcept;
  Time read(HostThread& thread, ProgramClock clock) noexcept;
  static void shows_once(HostThread& thread, Time deadline) noexcept;

  void wait_begins(HostThread& thread, const void* object, channel::Wait wait,
                   std::optional<Time> deadline) noexcept;
  void waits_again(HostThread& thread, const void* object) noexcept;
  void wait_ends(HostThread& thread, std::int64_t timed_out_at_ps) noexcept;
  [[nodiscard]] bool takes_time_until(HostThread& thread, Time deadline) noexcept;
  void wait_timed_out(HostThread& thread, Time deadline) noexcept;
  void look_timed_out(HostThread& thread, Time deadline) noexcept;
  void looked_in_vain(HostThread& thread) noexcept;
  void spins(HostThread& thread, std::chrono::nanoseconds rest) noexcept;
  /// It does something else than to read the clock and to give its core up.
  void goes_on(HostThread& thread) noexcept {
    if (thread.readings != 0 || thread.answered_before_ps) looks_no_more(thread);
  }
  void sleeps_until(HostThread& thread, Time deadline) noexcept;

  void host_function_begins(HostThread& thread, Time instant) noexcept;
  static Time host_function_ends(HostThread& thread) noexcept;

  static void begins_at(HostThread& thread, Time instant) noexcept;
  void begins_as_woken(HostThread& thread, const void* object) noexcept;
  void wakes(HostThread& thread, const void* object) noexcept;
  void leaves_time(HostThread& thread, const void* object) noexcept;
  void takes_time(HostThread& thread, const void* object) noexcept;
  [[nodiscard]] bool someone_waits_for_a_lock() const noexcept {
    return waiting_for_locks_.load(std::memory_order_relaxed) > 0;
  }

  void sends_time(HostThread& thread, std::uint64_t key) noexcept;
  void has_sent(std::uint64_t key, std::size_t bytes) noexcept;
  void receives_time(HostThread& thread, std::uint64_t key, std::size_t bytes) noexcept;
  void is_a_poller(HostThread& thread) noexcept;

 private:
  /// It has a slot, and hands over time by itself: not within an intercepted call, which does.
  [[nodiscard]] static bool takes_part(const HostThread& thread) noexcept {
    return thread.issues && thread.slot != nullptr && thread.api_depth == 0;
  }
  /// The engine looks at a thread's slot, so that this is written where it changes only.
  static void show_scale(HostThread& thread, float scale) noexcept {
    if (thread.slot == nullptr) return;
    std::atomic<float>& shown = thread.slot->charged_scale;
    if (shown.load(std::memory_order_relaxed) != scale)
      shown.store(scale, std::memory_order_relaxed);
  }
  void enter(HostThread& thread) noexcept;
  void looks_no_more(HostThread& thread) noexcept;
  void attach(HostThread& thread) noexcept;
  [[nodiscard]] bool run_stands() const noexcept;
  void looks_once_more(HostThread& thread) noexcept;
  void computes_beside(HostThread& thread) noexcept;
  void waits_for_memory(HostThread& thread, std::chrono::nanoseconds rest) noexcept;
  void memory_has_changed(HostThread& thread) noexcept;
  void leave_pollers(const HostThread& thread) noexcept;
  /// The thread has read what a helper wrote at `instant_ps`: it goes on when the process's other
  /// threads have come as far, or wait, maybe for it.
  ///
  /// A helper computes while its rank's clock stands, and may be ahead of the rank. Whoever read
  /// its batches at once would take locks with that clock, and hand it to threads of before:
  ///
  ///     rank, at 10 ms:   lock     unlock                    (10.1 ms)
  ///     its reader:       reads a batch of 50 ms    lock     (50 ms: the rank's next lock() waits)
  void others_come(HostThread& thread, std::int64_t instant_ps) noexcept;
  /// The other threads that run or are about to, as others_come() sees them.
  struct Others;
  void look_at(Others& others, const HostThread& but, std::int64_t instant_ps) noexcept;
  /// The bound that the engine uses for this rank now. With mutex_ held.
  [[nodiscard]] std::int64_t bound_ps() const noexcept;

  HostTimePolicy policy_;
  std::atomic<Connection*> connection_{nullptr};
  SpinLock mutex_{};
  /// So that sleepers can be found. Few.
  std::vector<HostThread*> issuers_{};
  std::atomic<std::int64_t> latest_ps_{0};               ///< of all their clocks
  std::atomic<std::int64_t> host_function_began_ps_{0};  ///< the last one
  LeftTimes<1024> left_{};
  /// Where the first of those stands that others_come() holds, and what wakes them.
  std::atomic<std::int64_t> held_at_ps_{channel::no_time};
  channel::Sequence others_moved_{};
  std::atomic<int> waiting_for_locks_{0};
};

}  // namespace phantora::rank
