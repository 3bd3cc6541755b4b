#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

/// CPU time of the calling thread, read in a few nanoseconds.
///
/// The kernel's clock of a thread's CPU time is a system call: 250 to 900 ns, as long as many of
/// the calls whose end it would mark. But while a thread keeps its core, its CPU time passes as the
/// processor's time stamp counter does, and the kernel tells a thread for nothing that it has lost
/// its core: it then clears the thread's "restartable sequence" (rseq(2); Linux 4.18, glibc 2.35).
namespace phantora::rank {

/// CPU time by the counter, from the last look at the kernel's clock on; looked at again when the
/// thread has lost its core since, and after a while. Belongs to one thread. `Machine` provides
///   static std::uint64_t ticks()               the counter
///   static std::chrono::nanoseconds cpu_time() the kernel's clock
///   static void watch()                        forget that the thread lost its core
///   static bool lost_core()                    since watch()
///   static double ns_per_tick()                infinite: the counter is not to be used
///   static std::chrono::nanoseconds cost()     of cpu_time()
template <class Machine>
class CpuClock {
 public:
  /// The counter is trusted this long: what a hypervisor or an interrupt takes from a thread that
  /// keeps its core is not charged for longer. A look is 0.2 % of it.
  static constexpr std::chrono::microseconds longest{500};

  /// CPU time of this thread without what looking has taken. Never decreases.
  std::chrono::nanoseconds now() noexcept {
    // In this order: who loses the core in between finds out.
    const std::uint64_t since = Machine::ticks() - ticks_at_look_;
    if (since >= trusted_ticks_ || Machine::lost_core()) return look();
    const std::chrono::nanoseconds reading =
        at_look_ + std::chrono::nanoseconds{
                       static_cast<std::int64_t>(static_cast<double>(since) * ns_per_tick_)};
    return latest_ = std::max(latest_, reading);
  }

 private:
  std::chrono::nanoseconds look() noexcept {
    ns_per_tick_ = Machine::ns_per_tick();
    Machine::watch();
    const std::uint64_t before = Machine::ticks();
    const std::chrono::nanoseconds cpu_time = Machine::cpu_time();
    // Within the system call, the kernel read its clock in the middle.
    ticks_at_look_ = before + (Machine::ticks() - before) / 2;
    trusted_ticks_ = static_cast<std::uint64_t>(
        static_cast<double>(std::chrono::nanoseconds{longest}.count()) / ns_per_tick_);
    if (cpu_time < cpu_time_at_look_) {  // that of a child, which starts at zero
      looking_ = {};
      latest_ = {};
    }
    cpu_time_at_look_ = cpu_time;
    looking_ += Machine::cost();
    at_look_ = cpu_time - looking_;
    return latest_ = std::max(latest_, at_look_ + Machine::cost() / 2);
  }

  std::uint64_t ticks_at_look_ = 0, trusted_ticks_ = 0;  // no look yet
  double ns_per_tick_ = 0;
  std::chrono::nanoseconds at_look_{}, cpu_time_at_look_{};
  std::chrono::nanoseconds looking_{};  ///< what all looks have taken
  std::chrono::nanoseconds latest_{};   ///< that was read
};

/// CPU time of the calling thread, without what reading the kernel's clock has taken.
std::chrono::nanoseconds thread_cpu_time() noexcept;

/// CPU time between two readings of thread_cpu_time() with nothing between them.
std::chrono::nanoseconds reading_cost() noexcept;

/// The same of another thread of this process, by the kernel's clock; 0 if it has ended.
std::chrono::nanoseconds cpu_time_of_thread(int tid) noexcept;

/// The time that passes on this machine since an instant before, by the counter where threads are
/// told that they lose their core, else by a system call that no hook sees.
std::chrono::nanoseconds real_time() noexcept;

/// The kernel's clock of the calling thread's CPU time: a system call.
std::chrono::nanoseconds kernels_cpu_time() noexcept;
/// CPU time between two readings of it with nothing between them.
std::chrono::nanoseconds kernels_reading_cost() noexcept;

/// CPU time of `work`, of tens of microseconds or more, on the calling thread. By the kernel's
/// clock: thread_cpu_time() stands still for up to half a millisecond after it took for the
/// thread's what a hypervisor took from it.
template <class Work>
std::chrono::nanoseconds cpu_time_of(Work&& work) noexcept {
  const std::chrono::nanoseconds begin = kernels_cpu_time();
  work();
  return kernels_cpu_time() - begin - kernels_reading_cost();
}

}  // namespace phantora::rank
