#pragma once

#include "network/work.hpp"

#include <cstdint>

namespace phantora::network {

enum class Kind : std::uint8_t { start, cancel, cap, capacity };

/// Something told by the caller. At one instant starts come before cancels and those before changes
/// of caps and capacities; changes of one thing at one instant apply in the order they were told.
struct Input {
  Ps at;
  std::uint64_t order;    ///< among starts, or among the others
  std::uint64_t id;       ///< flow or link
  double value = 0.0;     ///< what a cap or a capacity becomes
  double previous = 0.0;  ///< what the cap or capacity was, once this is applied
  Kind kind;
  bool operator<(const Input& other) const noexcept {  // as a heap: the earliest on top
    if (at != other.at) return other.at < at;
    if (kind != other.kind) return other.kind < kind;
    return other.order < order;
  }
};

}  // namespace phantora::network
