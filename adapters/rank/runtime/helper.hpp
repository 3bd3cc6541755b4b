#pragma once

#include "rank/runtime/left_times.hpp"

#include <phantora/simulation/host_time.hpp>
#include <phantora/simulation/virtual_clock.hpp>

#include <cstddef>
#include <cstdint>

namespace phantora::channel {
struct RunShared;
}

/// Processes that a rank started and that use no GPU: its data loaders, compilers.
namespace phantora::rank {

/// The times of such a process's threads, by their CPU time and what they sleep. They are known to
/// nobody but whom its messages reach, on connections and pipes: who reads a batch goes on no
/// earlier than it was loaded, and who is asked for one begins no earlier than it was asked.
///
/// The program reads real clocks there, and nobody is held back: what it waits for comes as early
/// as it comes.
class Helper {
 public:
  /// @param run  lives longer. @param now  of who forked the process; Time{} if nobody knows.
  Helper(channel::RunShared& run, const HostTimePolicy& policy, Time now) noexcept
      : run_{run}, policy_{policy}, beginning_{now} {}

  /// Of the calling thread.
  [[nodiscard]] Time now() noexcept;
  /// The calling thread was just started by one whose clock shows `instant`.
  void begins_at(Time instant) noexcept;
  /// Its time is left at `object`, for whoever finds that ready.
  void leaves_time(const void* object) noexcept;
  /// It found `object` ready: it goes on no earlier than who made it so.
  void takes_time(const void* object) noexcept;
  void sends_time(std::uint64_t key) noexcept;
  void has_sent(std::uint64_t key, std::size_t bytes) noexcept;
  void receives_time(std::uint64_t key, std::size_t bytes) noexcept;
  void slept(Duration length) noexcept;

 private:
  [[nodiscard]] double scale() const noexcept;
  VirtualClock& clock() noexcept;

  channel::RunShared& run_;
  HostTimePolicy policy_;
  Time beginning_;
  LeftTimes<256> left_{};
};

/// This process's; nullptr if it is none.
Helper* helper() noexcept;

}  // namespace phantora::rank
