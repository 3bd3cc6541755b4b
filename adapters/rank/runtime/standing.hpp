#pragma once

#include <cstdint>
#include <optional>

/// Whether this process has a part in the simulation.
namespace phantora::rank {

enum class Standing : std::uint8_t {
  outside,   ///< not started by `phantora run`, or forked from a process of the simulation
  may_join,  ///< it lives in real time until it first uses a GPU: launchers, shells, compilers,
             ///< data loaders never do
  in_time    ///< a process of the simulation: its clocks show virtual time
};

/// Whoever knows its rank is in time from its start; not a child that merely inherited the rank of
/// a process which is connected already.
Standing standing() noexcept;
/// Whether a process above this one uses a GPU: a compiler or data loader of a rank.
bool descends_from_rank() noexcept;
/// Which rank this process is among all, by what its launcher says (channel/rank_variables.hpp).
std::optional<int> rank_number() noexcept;

}  // namespace phantora::rank
