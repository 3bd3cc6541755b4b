#pragma once

#include "network/earliest_end.hpp"
#include "network/max_min.hpp"

#include <phantora/units.hpp>

#include <algorithm>
#include <cstdint>

/// How much a flow has left and a group moves, in integers.
namespace phantora::network {

using Slot = MaxMin::Slot;
using Ps = std::int64_t;

inline constexpr Ps none = EarliestEnd::none;

[[nodiscard]] constexpr Time to_time(Ps ps) noexcept { return Time{Duration{ps}}; }
[[nodiscard]] constexpr Ps to_ps(Time t) noexcept { return t.time_since_epoch().count(); }

/// What a flow is still to move per share: an integer, in units of 2^-27 byte per second times a
/// picosecond. So a sum of parts does not depend on the instants that part it.
using Work = Int128;

/// What a group has moved per share since some instant; a mark is its value when a flow ends. Only
/// differences of two mean anything, so that a service may wrap around.
__extension__ typedef unsigned __int128 Service;

// A level above 64 MiB/s is a whole number of units per picosecond, since it has 53 bits; one of a
// byte per second is rounded by 4e-9 of it.
inline constexpr int unit_bits = 27;

[[nodiscard]] inline Work work_of(double bytes, double shares) noexcept {
  constexpr Work unit = Work{1'000'000'000'000} << unit_bits;
  const auto whole = static_cast<std::int64_t>(shares);
  if (static_cast<double>(whole) == shares) return static_cast<Work>(bytes) * unit / whole;
  return static_cast<Work>(bytes / shares * static_cast<double>(unit));
}

/// Units per picosecond at a level in bytes per second and share.
[[nodiscard]] inline Work pace_of(double level) noexcept {
  const double pace = level * (std::int64_t{1} << unit_bits) + 0.5;
  if (pace < 0x1p62) return static_cast<std::int64_t>(pace);
  return static_cast<Work>(std::min(pace, 0x1p90));
}
/// The pace of the flows that a link with this key stops; 0 if the link has stopped none so far.
[[nodiscard]] inline Work pace_of(FillingKey key) noexcept {
  return key.filling() ? Work{0} : pace_of(key.level);
}

/// A flow has ended when no more than this is left of it: what it moves in a 64th of a picosecond.
/// Levels are rounded to 53 bits, so after up to two minutes an exact end is off by less.
[[nodiscard]] inline Work slack(Work pace) noexcept { return pace >> 6; }

/// First whole picosecond after `at` by which `left` has been moved at `pace`; `none` if never.
[[nodiscard]] inline Ps end_after(Ps at, Work left, Work pace) noexcept {
  if (pace == 0) return none;
  const Work rest = left - slack(pace);
  if (rest <= pace) return at + 1;
  const Work ps = (rest + pace - 1) / pace;
  return ps < none - at ? at + static_cast<Ps>(ps) : none;
}

/// What a group of this pace moves in `time`.
[[nodiscard]] inline Service served(Work pace, Ps time) noexcept {
  return static_cast<Service>(pace) * static_cast<Service>(time);
}

/// What a flow with this mark still has to move when the service of its group is `now`.
[[nodiscard]] inline Work left_until(Service mark, Service now) noexcept {
  return static_cast<Work>(mark - now);
}

}  // namespace phantora::network
