#pragma once

#include "simulation/workload_form.hpp"

namespace phantora::detail {

/// Leaves of each rank's list the longest beginning that can run to its end: not a collective or a
/// message that the others did not come to call, nor what its rank did after that; likewise what
/// waits for an event that is left out.
void keep_complete_part(WorkloadDocument& job);

}  // namespace phantora::detail
