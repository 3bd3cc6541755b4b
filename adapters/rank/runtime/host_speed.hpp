#pragma once

#include <phantora/simulation/host_cost.hpp>
#include <phantora/simulation/virtual_clock.hpp>

#include <chrono>
#include <optional>

/// What CPU time of the calling thread is worth on the host whose GPUs are simulated.
namespace phantora::rank {

/// Work of a fixed amount and of the kind that a framework does between two GPU calls: looks up
/// names, calls through pointers, counts references, allocates. Tens of microseconds.
/// @return a value that depends on all of it.
unsigned reference_work() noexcept;

/// How fast the calling thread's core is now beside the host of an H200, for the program's own
/// work: a piece of work is timed where the program itself runs.
class HostSpeed {
 public:
  /// Times the work if the thread has worked enough since the last time. To be called from GPU
  /// calls, while their time is not charged.
  /// @param clock  the thread's
  /// @return whether scale() may have changed.
  bool look(VirtualClock& clock) noexcept;
  [[nodiscard]] double scale() const noexcept { return scale_.scale(); }

  /// From here on less of the thread's work is charged if since the last call more time has passed
  /// here than there for other work (CacheRefill). To be called where look() is.
  void refill_caches(VirtualClock& clock) noexcept;

 private:
  /// What of both times has not been the thread's own work, since beginnings of their own.
  struct OtherTime {
    std::chrono::nanoseconds here;
    Duration there;
  };

  std::optional<OtherTime> at_call_{};
  std::optional<std::chrono::nanoseconds> measured_at_sample_{};
  HostScale scale_{};
};

}  // namespace phantora::rank
