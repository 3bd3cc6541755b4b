#pragma once

#include <phantora/simulation/workload.hpp>

#include <cstdint>
#include <limits>
#include <vector>

/// What a workload says of its hosts' threads, found once. Private to Simulation.
namespace phantora::detail {

/// Operations of a rank, from one place in its list to another.
struct Stretch {
  std::uint32_t begin = 0, end = 0;
};

struct RankThreads {
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  /// What each thread issues, in the order in which the list first names them.
  std::vector<std::vector<Stretch>> stretches{};
  /// By operation: the event that it records or marks.
  std::vector<std::uint32_t> events{};
  std::uint32_t event_count = 0;
  /// By operation, where there are several threads: the one before it on its stream, if another
  /// thread issues that.
  std::vector<std::uint32_t> after{};
};

std::vector<RankThreads> threads_of(const Workload& workload);

}  // namespace phantora::detail
