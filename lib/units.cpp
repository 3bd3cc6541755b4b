#include <phantora/error.hpp>
#include <phantora/units.hpp>

#include <cmath>
#include <string>

namespace phantora {

Duration duration_from_seconds(double seconds) {
  const double ps = std::ceil(seconds * 1e12);
  // 9.2e18 ps is just inside the range of int64, and representable as a double.
  if (!(ps >= 0.0 && ps < 9.2e18))
    throw ArgumentError{"a duration of " + std::to_string(seconds) + " s is out of range"};
  return Duration{static_cast<std::int64_t>(ps)};
}

}  // namespace phantora
