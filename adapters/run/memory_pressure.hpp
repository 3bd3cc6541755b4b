#pragma once

#include <cstdint>

namespace phantora::run {

/// How many processes the kernel has killed to free memory: in the whole machine or in our own
/// control group, whichever tells more. Compare two readings.
std::uint64_t killed_for_memory();

}  // namespace phantora::run
