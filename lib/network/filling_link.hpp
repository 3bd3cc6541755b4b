#pragma once

#include "network/filling_key.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace phantora {

__extension__ typedef __int128 Int128;

/// What MaxMin keeps of a link, in integers, so that sums do not depend on their order.
namespace filling {

// A link's initial capacity becomes at most 2^48 units, so that it may grow 16 times, and a sum of
// 2^10 such loads (cut at max_load) still fits.
inline constexpr int capacity_bits = 48;
/// A load is cut: it can only be so great before the link that it overloads is evaluated, which is
/// next.
inline constexpr double max_load = 0x1p52;
// Weights have 48 fractional bits.
inline constexpr double weight_scale = 0x1p48;
// Levels this far apart (relative) are certainly in their true order.
inline constexpr double certain = 1e-9;

/// What an assignment touches of a link, in one cache line.
struct alignas(64) Link {
  std::int64_t residual = 0;  ///< capacity less the loads of flows that others stop
  double scale = 1;           ///< fixed-point units per byte per second: a power of two
  Int128 weight = 0;          ///< of the flows that this link stops, and of those still filling
  double floor = 0;           ///< a lower bound of the link's level while flows only stop
  std::int64_t stamp = std::numeric_limits<std::int64_t>::min();  ///< see MaxMin::solve()
  std::int32_t margin = 0;  ///< what rounding may add to `residual`
  float others = 0;         ///< an upper bound of the levels of the flows that others stop
  std::uint32_t own = 0;    ///< how many flows it stops, or still fill: they come first
  bool touched : 1 = false;
  bool eased : 1 = false;
  bool capped = false;            ///< flows with a cap may be on it
  std::uint16_t scale_index = 0;  ///< where `scale` is among the different scales of links
};
static_assert(sizeof(Link) == 64);

/// Whether other links stop all flows, and this one has more to spare than rounding could explain.
[[nodiscard]] inline bool surely_open(const Link& link) noexcept {
  return link.weight == 0 && link.residual > link.margin;
}

[[nodiscard]] inline std::int64_t fixed_load(double scale, double rate, double amount) noexcept {
  const double load = rate * amount * scale;
  return static_cast<std::int64_t>(load < max_load ? load : max_load);
}

[[nodiscard]] inline Int128 fixed_weight(double amount, double shares) noexcept {
  const double weight = amount * shares * weight_scale;
  return weight < 0x1p62 ? Int128{static_cast<std::int64_t>(weight)} : static_cast<Int128>(weight);
}

[[nodiscard]] inline double to_double(Int128 value) noexcept {
  const auto small = static_cast<std::int64_t>(value);
  return small == value ? static_cast<double>(small) : static_cast<double>(value);
}

/// The level at which flows of this weight leave nothing of a residual.
[[nodiscard]] inline double level(const Link& link, std::int64_t residual, Int128 weight) noexcept {
  return static_cast<double>(std::max<std::int64_t>(0, residual)) * weight_scale /
         (to_double(weight) * link.scale);
}

}  // namespace filling
}  // namespace phantora
