#pragma once

#include "simulation/workload_form.hpp"

#include <cstddef>

/// How the memory of shards follows the number of data-parallel replicas. Private to widen().
namespace phantora::detail {

/// A size at three numbers of replicas, of which two are known.
struct Trend {
  double few = 0, many = 0, wanted = 0;
  /// What is a shard falls, with the inverse of the number; what is gathered of each grows, with
  /// it.
  [[nodiscard]] double at_wanted(double of_few, double of_many) const {
    const double share = of_many < of_few ? (1 / many - 1 / wanted) / (1 / few - 1 / many)
                                          : (wanted - many) / (many - few);
    return of_many + (of_many - of_few) * share;
  }
};

/// The most that a rank holds.
double peak_of(const WorkloadDocument& job, std::size_t rank);

/// The most that it will hold of the wanted number, in bytes.
/// @param peer  the rank of the job of few that does what this one does.
double wanted_peak(const WorkloadDocument& job, std::size_t rank, const WorkloadDocument& few,
                   std::size_t peer, const Trend& trend);

}  // namespace phantora::detail
