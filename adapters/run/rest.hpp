#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include <sys/types.h>

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

/// A thread that runs, or would if it had a core.
struct AwakeThread {
  pid_t id = 0;
  std::chrono::nanoseconds cpu{};  ///< on a core, so far
};

class Rest {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  /// Between two looks that found everybody asleep nobody ran.
  static constexpr int looks_asleep = 2;
  /// Who wakes now and then has a reason now and then: what a watchdog would have started has shown
  /// by then.
  static constexpr std::chrono::milliseconds long_enough{200};
  /// A thread of which nothing is known but that it wakes now and then (a logger, a service that is
  /// no rank) could be about to do what a rank waits for. Who works is found awake, or waits for a
  /// disk: who sleeps at almost every look does nothing of that length. Looks are 50 ms apart at
  /// most, and more on a busy machine.
  static constexpr int looks_napping = 20, awake_at_most = looks_napping / 10;
  /// Which a thread that is awake has run for since then, or else it may only have waited for a
  /// core: a rank to which a message came looks so too. To look and sleep again takes some
  /// microseconds.
  static constexpr std::chrono::microseconds has_had_a_core{250};

  /// A look that began at `when`, and who was awake.
  void looked(Found found, Instant when, const std::vector<AwakeThread>& awake);
  /// Simulated time, or some clock, has moved.
  void moved();
  /// As the last look has it.
  [[nodiscard]] bool rests() const noexcept { return rests_; }

 private:
  /// What all threads that were found awake had run for when they first were.
  using FirstSeen = std::map<pid_t, std::chrono::nanoseconds>;
  /// @return whether all who are awake have had a core since they first were.
  static bool all_have_run(FirstSeen& first, const std::vector<AwakeThread>& awake);

  int quiet_ = 0;  ///< looks in a row that found everybody asleep
  struct Calm {
    Instant since{};
    FirstSeen first{};
  };
  std::optional<Calm> calm_{};
  struct Naps {
    int looks = 0, awake = 0;
    FirstSeen first{};
  } naps_{};
  bool rests_ = false;
};

}  // namespace phantora::run
