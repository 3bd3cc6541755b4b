#pragma once

#include "simulation/workload_form.hpp"

namespace phantora::detail {

/// Gives a job's kernels, collectives and memory the sizes that they would have with `factor` times
/// as many data-parallel replicas, still for as many ranks as it has.
/// @param narrower  the same job of fewer replicas, whole ones; of rank r it is rank r modulo its
///   own number that does the same.
/// @throws ArgumentError naming rank, stream and kernel if they do not do the same in the same
/// order.
void scale_shards(WorkloadDocument& job, const WorkloadDocument& narrower, double factor);

}  // namespace phantora::detail
