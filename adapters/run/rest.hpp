#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

/// Whether the threads of a run rest, so that nobody can do anything before somebody is let go on.
/// What looks at them find goes in, with when; a verdict comes out.
namespace phantora::run {

/// What a look at all threads of the run finds.
enum class Found : std::uint8_t {
  activity,
  naps,   ///< somebody ran since the last look, and sleeps now
  calm,   ///< nobody ran but those that wake by a timer of their own; some of them may run now
  sleep,  ///< the same, and everybody is asleep
};

class Rest {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  /// Between two looks that found everybody asleep nobody ran.
  static constexpr int looks_asleep = 2;
  /// On a busy machine a watchdog that woke may wait long for a core: what it would have started
  /// has shown by then.
  static constexpr std::chrono::milliseconds long_enough{200};
  /// A thread of which nothing is known but that it wakes now and then (a logger, a service that is
  /// no rank) could be about to do what a rank waits for. Who works is found awake, or waits for a
  /// disk: who sleeps at every look does nothing of that length.
  static constexpr std::chrono::seconds longer{1};

  /// A look that began at `when`.
  void looked(Found found, Instant when);
  /// Simulated time, or some clock, has moved.
  void moved();
  /// As the last look has it.
  [[nodiscard]] bool rests() const noexcept { return rests_; }

 private:
  int quiet_ = 0;  ///< looks in a row that found everybody asleep
  std::optional<Instant> calm_since_{};
  /// Since when no two looks in a row have found anybody awake.
  std::optional<Instant> naps_since_{};
  bool was_awake_ = false;  ///< somebody, at the last look
  bool rests_ = false;
};

}  // namespace phantora::run
