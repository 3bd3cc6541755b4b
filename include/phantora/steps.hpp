#pragma once

#include <phantora/units.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace phantora {

/// One piece of work of a rank, as find_steps() sees it.
struct WorkItem {
  std::uint64_t identity = 0;  ///< equal for equal work
  Time start{};
};

/// A program's repetition: training steps, or requests of a server.
struct Steps {
  std::size_t items = 0;       ///< work items per step
  std::vector<Time> starts{};  ///< of each repetition's first item
  /// Steps whose length is known: all but the last, which nothing follows.
  [[nodiscard]] std::size_t count() const noexcept {
    return starts.empty() ? 0 : starts.size() - 1;
  }
  /// Median time from one step's start to the next; zero if there is no step.
  [[nodiscard]] Duration median() const;
};

/// Finds the longest stretch of work that repeats itself without a gap, and cuts it into its steps.
///
/// The program says nothing about steps: the order of its kernels does. The period is the shortest
/// with which the stretch that covers the most work repeats at least twice.
/// O(n log n) for n items.
Steps find_steps(std::span<const WorkItem> work);

}  // namespace phantora
