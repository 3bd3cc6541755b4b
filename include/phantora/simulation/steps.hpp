#pragma once

#include <phantora/units.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace phantora {

/// What a piece of work says about steps.
enum class StepRole : std::uint8_t {
  work,       ///< it belongs to some step
  ends_step,  ///< an update of the model's parameters, or what the user named
  aside,      ///< it may stand between the parts of what ends a step: a copy, simple arithmetic
};

/// One piece of work of a stream, in the order in which they ran.
struct WorkItem {
  std::uint64_t identity = 0;  ///< equal for equal work
  Time start{};                ///< when it began
  Time end{};                  ///< when it ended
  StepRole role{};             ///< what it says about steps
};

/// A program's own cadence: training steps, or requests of a server.
struct Steps {
  /// Where one step ends and the next begins.
  std::vector<Time> bounds{};
  /// Which steps the time of a step is taken from: not the first ones, where they do other work
  /// than those that follow, nor those with something beside the step in them (a checkpoint).
  std::vector<bool> typical{};
  std::size_t items = 0;  ///< work items of a typical step

  /// Another repetition that explains as much of the work.
  struct Rival {
    std::size_t count = 0;  ///< steps
    Duration length{};      ///< median
  };
  std::optional<Rival> rival{};  ///< where the steps are not sure

  /// Steps whose length is known.
  [[nodiscard]] std::size_t count() const noexcept {
    return bounds.empty() ? 0 : bounds.size() - 1;
  }
  /// Median length of the typical steps; zero if there is no step.
  [[nodiscard]] Duration median() const;
};

/// What a GPU does in a typical step: means over those, which add up to their mean length.
struct StepParts {
  Duration computing{};  ///< kernels or copies ran
  Duration exposed{};    ///< none did, and a communication ran
  Duration idle{};       ///< nothing ran
  bool operator==(const StepParts&) const = default;
};

/// What StepRole::ends_step is worth.
enum class StepEnds : std::uint8_t {
  guessed,  ///< from what work looks like: the steps are the rounds in which it recurs
  given,    ///< by the user: nothing else ends a step
};

/// Finds the steps of a stream's work.
///
/// Where work ends steps, each burst of it does (an optimizer has many kernels), or each round of
/// bursts where those differ among themselves (two models in turn, an optimizer within the backward
/// pass). Else the order of the work tells: every kind of work whose occurrences lie equally far
/// apart proposes its distance, and the longest of those that cover most of the busy time is the
/// step. What repeats within a step is not one. O(n log n) for n items.
Steps find_steps(std::span<const WorkItem> work, StepEnds ends = StepEnds::guessed);

/// The steps between instants that the program itself gave, in order.
Steps cut_steps(std::span<const WorkItem> work, std::span<const Time> bounds);

}  // namespace phantora
