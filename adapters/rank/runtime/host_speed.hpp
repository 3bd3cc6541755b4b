#pragma once

#include <chrono>

/// What CPU time of the calling thread is worth on the host whose GPUs are simulated.
namespace phantora::rank {

/// Work of a fixed amount and of the kind that a framework does between two GPU calls: looks up
/// names, calls through pointers, counts references, allocates. Tens of microseconds.
/// @return a value that depends on all of it.
unsigned reference_work() noexcept;

/// How fast the calling thread's core is now beside the host of an H200. Cores differ in speed, and
/// one core does with its neighbours' load: by a factor of two within a second on a shared machine.
/// So the work is timed again and again, where the program itself runs.
class HostSpeed {
 public:
  /// Times the work if the thread has used enough CPU time since the last time. To be called from
  /// GPU calls, while their time is not charged.
  /// @return whether scale() may have changed.
  bool look() noexcept;
  /// Time on that host per CPU time here.
  [[nodiscard]] double scale() const noexcept { return scale_there * (work_there / mean_); }

  /// What the host_cost rows of test/data/h200_overlap_and_host_cost.jsonl say of the machine where
  /// this is built (2 cores of an AMD EPYC, quiet, 2026-11-21): an H200's host takes 1.38 times as
  /// long, by the sum of all rows, calls in loops priced as such (test/data/api_cost.jsonl).
  static constexpr double scale_there = 1.38;
  /// CPU time of reference_work() in training steps on that machine then, of the second of two runs
  /// (13.6 to 17.0 us in four programs): that of one alone depends on what the program left in the
  /// caches, which differs from program to program by a third.
  static constexpr std::chrono::duration<double, std::nano> work_there{15'000};

 private:
  int calls_ = 0;
  std::chrono::nanoseconds looked_at_{};
  std::chrono::duration<double, std::nano> mean_ = work_there;  ///< of some samples, the last most
};

}  // namespace phantora::rank
