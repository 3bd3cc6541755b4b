#pragma once

#include <phantora/simulation/observer.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>

/// Whose turn it is to run: so many processes at once, least clock first. What processes do goes
/// in, who goes on comes out.
namespace phantora::run {

/// What a process that has been greeted does with the turn that it may have.
struct TurnUse {
  bool has_threads = true;   ///< with a part in time: before the first of them, it runs
  bool thread_runs = false;  ///< one of these does
  bool idle = false;         ///< it was seen to sleep
  /// Since it last told us anything, or was let go on.
  std::chrono::nanoseconds silent_for{};
};
/// Whether others have to wait for it.
bool uses_turn(const TurnUse& use);

/// A process that uses a turn, or wants one.
struct Contender {
  ProcessIndex process = 0;
  bool uses_turn = false;
  struct Next {
    std::int64_t clock_ps = 0;
    std::uint32_t thread = 0;
  };
  std::optional<Next> next{};  ///< that of its threads which may go on first
};
/// Who goes on; nobody if none may, or `runnable` processes use their turns. Where clocks are
/// equal, the first.
std::optional<Contender> next_turn(std::span<const Contender> all, int runnable);

}  // namespace phantora::run
