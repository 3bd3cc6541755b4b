#pragma once

#include <phantora/simulation/host_cost.hpp>

#include <chrono>

/// What CPU time of the calling thread is worth on the host whose GPUs are simulated.
namespace phantora::rank {

/// Work of a fixed amount and of the kind that a framework does between two GPU calls: looks up
/// names, calls through pointers, counts references, allocates. Tens of microseconds.
/// @return a value that depends on all of it.
unsigned reference_work() noexcept;

/// How fast the calling thread's core is now beside the host of an H200: the work is timed where
/// the program itself runs.
class HostSpeed {
 public:
  /// Times the work if the thread has used enough CPU time since the last time. To be called from
  /// GPU calls, while their time is not charged.
  /// @return whether scale() may have changed.
  bool look() noexcept;
  [[nodiscard]] double scale() const noexcept { return scale_.scale(); }

 private:
  int calls_ = 0;
  std::chrono::nanoseconds looked_at_{};
  HostScale scale_{};
};

}  // namespace phantora::rank
