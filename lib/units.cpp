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

Bytes operator*(Bytes a, double k) {
  const double bytes = std::round(static_cast<double>(a.count_) * k);
  if (!(std::abs(bytes) < 9.2e18))
    throw ArgumentError{std::to_string(a.count_) + " B times " + std::to_string(k) +
                        " is out of range"};
  return Bytes{static_cast<std::int64_t>(bytes)};
}

Bandwidth operator/(Bytes size, Duration time) {
  PHANTORA_EXPECTS(time > Duration{}, "a bandwidth takes a positive time");
  return Bandwidth{static_cast<double>(size.count()) / to_seconds(time)};
}

}  // namespace phantora
