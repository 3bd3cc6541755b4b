#pragma once

#include <chrono>
#include <compare>
#include <concepts>
#include <cstdint>

/// Quantities as types: time in integer picoseconds, sizes in bytes, rates as doubles.
namespace phantora {

/// A span of virtual time in integer picoseconds; +/- 106 days.
using Duration = std::chrono::duration<std::int64_t, std::pico>;

/// The clock of the simulation. It has no now(): each simulated thread carries its own.
struct VirtualTimeline {  // what std::chrono asks of a clock
  /// @cond
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<VirtualTimeline, Duration>;
  static constexpr bool is_steady = true;
  /// @endcond
};

/// An instant of virtual time, counted from the start of the simulation.
using Time = VirtualTimeline::time_point;

/// Later than every event. Compare with it; never add to it.
inline constexpr Time never = Time::max();

/// A number of bytes.
class Bytes {
 public:
  constexpr Bytes() = default;
  /// So many bytes.
  constexpr explicit Bytes(std::int64_t count) : count_{count} {}
  /// As a number.
  [[nodiscard]] constexpr std::int64_t count() const noexcept { return count_; }
  constexpr auto operator<=>(const Bytes&) const = default;
  /// @{ Arithmetic of the count.
  constexpr Bytes& operator+=(Bytes other) noexcept {
    count_ += other.count_;
    return *this;
  }
  constexpr Bytes& operator-=(Bytes other) noexcept {
    count_ -= other.count_;
    return *this;
  }
  friend constexpr Bytes operator+(Bytes a, Bytes b) noexcept { return a += b; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) noexcept { return a -= b; }
  friend constexpr Bytes operator*(Bytes a, std::integral auto n) noexcept {
    return Bytes{a.count_ * static_cast<std::int64_t>(n)};
  }
  friend constexpr Bytes operator*(std::integral auto n, Bytes a) noexcept { return a * n; }
  /// @}
  /// @{ Rounded to the nearest byte. @throws ArgumentError if that is none, or out of range.
  friend Bytes operator*(Bytes a, double k);
  friend Bytes operator*(double k, Bytes a) { return a * k; }
  /// @}
  /// Rounded towards 0.
  friend constexpr Bytes operator/(Bytes a, std::int64_t n) noexcept { return Bytes{a.count_ / n}; }

 private:
  std::int64_t count_ = 0;
};

/// Capacity of a link or a memory, in bytes per second.
class Bandwidth {
 public:
  constexpr Bandwidth() = default;
  /// So many bytes per second.
  constexpr explicit Bandwidth(double bytes_per_second) : bytes_per_second_{bytes_per_second} {}
  /// As a number.
  [[nodiscard]] constexpr double bytes_per_second() const noexcept { return bytes_per_second_; }
  constexpr auto operator<=>(const Bandwidth&) const = default;
  /// @{ So many times as much.
  friend constexpr Bandwidth operator*(Bandwidth b, double k) noexcept {
    return Bandwidth{b.bytes_per_second_ * k};
  }
  friend constexpr Bandwidth operator*(double k, Bandwidth b) noexcept { return b * k; }
  friend constexpr Bandwidth operator/(Bandwidth b, double k) noexcept {
    return Bandwidth{b.bytes_per_second_ / k};
  }
  /// @}

 private:
  double bytes_per_second_ = 0.0;
};

/// Arithmetic throughput, in floating-point operations per second.
class FlopRate {
 public:
  constexpr FlopRate() = default;
  /// So many operations per second.
  constexpr explicit FlopRate(double per_second) : per_second_{per_second} {}
  /// As a number.
  [[nodiscard]] constexpr double per_second() const noexcept { return per_second_; }
  constexpr auto operator<=>(const FlopRate&) const = default;

 private:
  double per_second_ = 0.0;
};

/// The duration of `seconds`, rounded up to a whole picosecond.
/// @throws ArgumentError if it is not finite, negative or beyond the range of Duration.
Duration duration_from_seconds(double seconds);

/// Seconds as a double, for printing and for rates.
constexpr double to_seconds(Duration d) noexcept { return static_cast<double>(d.count()) * 1e-12; }

/// The time to move `size` at `rate`, rounded up to a whole picosecond.
inline Duration transfer_time(Bytes size, Bandwidth rate) {
  return duration_from_seconds(static_cast<double>(size.count()) / rate.bytes_per_second());
}

/// The rate that moves `size` in `time`. @throws ArgumentError if the time is not positive.
Bandwidth operator/(Bytes size, Duration time);

inline namespace literals {
/// @{ 64_KiB, 400_Gbps, 989_TFLOPS: K is 1000 in a rate and in KB, 1024 in KiB.
constexpr Bytes operator""_B(unsigned long long n) { return Bytes{static_cast<std::int64_t>(n)}; }
constexpr Bytes operator""_KiB(unsigned long long n) {
  return 1024_B * static_cast<std::int64_t>(n);
}
constexpr Bytes operator""_MiB(unsigned long long n) {
  return 1024_KiB * static_cast<std::int64_t>(n);
}
constexpr Bytes operator""_GiB(unsigned long long n) {
  return 1024_MiB * static_cast<std::int64_t>(n);
}
constexpr Bytes operator""_MB(unsigned long long n) {
  return 1'000'000_B * static_cast<std::int64_t>(n);
}
constexpr Bytes operator""_GB(unsigned long long n) {
  return 1000_MB * static_cast<std::int64_t>(n);
}
constexpr Bandwidth operator""_Gbps(unsigned long long n) {
  return Bandwidth{static_cast<double>(n) * 1e9 / 8.0};
}
constexpr Bandwidth operator""_GBps(unsigned long long n) {
  return Bandwidth{static_cast<double>(n) * 1e9};
}
constexpr Bandwidth operator""_GBps(long double n) {
  return Bandwidth{static_cast<double>(n) * 1e9};
}
constexpr FlopRate operator""_TFLOPS(unsigned long long n) {
  return FlopRate{static_cast<double>(n) * 1e12};
}
constexpr FlopRate operator""_TFLOPS(long double n) {
  return FlopRate{static_cast<double>(n) * 1e12};
}
/// @}
}  // namespace literals

}  // namespace phantora
