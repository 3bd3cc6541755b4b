#pragma once

#include "channel/wire.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

/// What clocks show in a process of a run that uses no GPU: a program's front end, a server of
/// parameters, a launcher.
namespace phantora::rank {

/// A clock that goes by simulated time while the run goes on, and by real time while it stands:
/// before the first rank comes, after the last one, and while all of them wait for this process or
/// another without a GPU.
///
/// Such a process reads what the ranks' work took on their GPUs and not how long its simulation
/// takes, and no time-out of more than a second ends early because that is slow
/// (libc/followed.hpp). It has no part in time itself: its clock holds nobody back, and what it
/// computes takes none of it.
class FollowedClock {
 public:
  /// @param path  of the memory of a run. @return nullptr if it cannot be opened.
  static std::unique_ptr<FollowedClock> open(const std::string& path) noexcept;
  /// @param run  lives longer than the clock.
  explicit FollowedClock(channel::RunShared& run) noexcept : run_{&run} {}

  /// What CLOCK_MONOTONIC is to show while the real one shows `real_ns`: never less than it has.
  std::int64_t monotonic_ns(std::int64_t real_ns) noexcept;
  /// Somebody waits by this clock: the engine looks at once whether the run stands.
  void wait() noexcept { run_->followed.store(true, std::memory_order_relaxed); }

 private:
  channel::RunShared* run_;
  std::atomic<std::int64_t> shown_ns_{0};
};

/// That of this process; nullptr if it has a part in time, or is no process of a run.
FollowedClock* followed_clock() noexcept;

}  // namespace phantora::rank
