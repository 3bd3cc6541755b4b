#pragma once

#include <chrono>

/// CPU time of the calling thread, and what it is worth on the host whose GPUs are simulated.
namespace phantora::rank {

std::chrono::nanoseconds thread_cpu_time() noexcept;

/// CPU time between two readings of thread_cpu_time() with nothing between them.
std::chrono::nanoseconds reading_cost() noexcept;

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
  [[nodiscard]] double scale() const noexcept { return reference / mean_; }

  /// CPU time of reference_work() on an H200's host, called as look() does in training steps. Mean
  /// of ten ranks on two machines, which differed by 0.79 to 1.21 of it:
  /// test/data/api_in_situ.jsonl, by bench/accuracy/api_in_situ.cpp.
  static constexpr std::chrono::duration<double, std::nano> reference{37'500};

 private:
  int calls_ = 0;
  std::chrono::nanoseconds looked_at_{};
  std::chrono::duration<double, std::nano> mean_ = reference;  ///< of some samples, the last most
};

}  // namespace phantora::rank
