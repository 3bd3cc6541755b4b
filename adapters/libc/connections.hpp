#pragma once

#include <cstdint>
#include <optional>

namespace phantora::libc {

/// The two directions of what a descriptor is an end of, as keys of
/// rank/runtime/message_times.hpp.
struct Directions {
  std::uint64_t out = 0;  ///< of what is written; 0: carries no time
  std::uint64_t in = 0;   ///< of what is read; 0: carries no time, or who writes is not known yet
};

/// Of a connection, a pipe or an event counter (eventfd), through which threads and processes wait
/// for each other; nothing for files, whose data is always at hand.
std::optional<Directions> connection(int descriptor) noexcept;

}  // namespace phantora::libc
