#pragma once

#include "run/rank_link.hpp"

#include <phantora/units.hpp>

#include <algorithm>
#include <cstdint>

/// Times as the channel carries them.
namespace phantora::run {

inline Time time_of(std::int64_t ps) { return Time{Duration{ps}}; }
inline std::int64_t ps_of(Time time) { return time.time_since_epoch().count(); }

/// Where the clock stands of that thread of a process that has come furthest, ended or not.
inline Time latest_clock(const channel::RankShared& shared) {
  Time latest{};
  for (const channel::ThreadSlot& slot : slots_of(shared)) {
    latest = std::max(latest, time_of(slot.clock_ps.load()));
  }
  return latest;
}

}  // namespace phantora::run
