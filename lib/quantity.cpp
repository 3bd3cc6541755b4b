#include <phantora/quantity.hpp>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <utility>

namespace phantora {
namespace {

struct Scale {
  std::string_view unit;
  double factor;
};

/// A non-negative number times the factor of its unit, finite, and nothing only if it says so.
template <std::size_t N>
std::optional<double> parse(std::string_view text, const std::array<Scale, N>& scales) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !(number >= 0)) return std::nullopt;
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const Scale& scale : scales)
    if (scale.unit == unit) {
      const double value = number * scale.factor;
      return std::isfinite(value) ? std::optional{value} : std::nullopt;
    }
  return std::nullopt;
}

/// Rounded to whole ones. Something never becomes nothing.
std::optional<std::int64_t> whole(std::optional<double> value) {
  if (!value || *value > 9e18 || (*value > 0 && *value < 0.5)) return std::nullopt;
  return std::llround(*value);
}

constexpr double ki = 1024, mi = ki * 1024, gi = mi * 1024, ti = gi * 1024;

}  // namespace

std::optional<Bandwidth> parse_bandwidth(std::string_view text) {
  static constexpr std::array<Scale, 16> scales{{{"bps", 0.125},
                                                 {"Kbps", 125},
                                                 {"Mbps", 125e3},
                                                 {"Gbps", 125e6},
                                                 {"Tbps", 125e9},
                                                 {"Mb/s", 125e3},
                                                 {"Gb/s", 125e6},
                                                 {"Tb/s", 125e9},
                                                 {"Bps", 1},
                                                 {"MBps", 1e6},
                                                 {"GBps", 1e9},
                                                 {"TBps", 1e12},
                                                 {"B/s", 1},
                                                 {"MB/s", 1e6},
                                                 {"GB/s", 1e9},
                                                 {"TB/s", 1e12}}};
  const auto value = parse(text, scales);
  return value ? std::optional{Bandwidth{*value}} : std::nullopt;
}

std::optional<Duration> parse_duration(std::string_view text) {
  static constexpr std::array<Scale, 5> scales{
      {{"ps", 1}, {"ns", 1e3}, {"us", 1e6}, {"ms", 1e9}, {"s", 1e12}}};
  const auto ps = whole(parse(text, scales));
  return ps ? std::optional{Duration{*ps}} : std::nullopt;
}

std::optional<Bytes> parse_bytes(std::string_view text) {
  static constexpr std::array<Scale, 16> scales{{{"", 1},
                                                 {"B", 1},
                                                 {"K", ki},
                                                 {"M", mi},
                                                 {"G", gi},
                                                 {"T", ti},
                                                 {"KiB", ki},
                                                 {"MiB", mi},
                                                 {"GiB", gi},
                                                 {"TiB", ti},
                                                 {"KB", 1e3},
                                                 {"kB", 1e3},
                                                 {"MB", 1e6},
                                                 {"GB", 1e9},
                                                 {"TB", 1e12},
                                                 {"PB", 1e15}}};
  const auto bytes = whole(parse(text, scales));
  return bytes ? std::optional{Bytes{*bytes}} : std::nullopt;
}

std::optional<FlopRate> parse_flop_rate(std::string_view text) {
  static constexpr std::array<Scale, 6> scales{{{"GFLOPS", 1e9},
                                                {"TFLOPS", 1e12},
                                                {"PFLOPS", 1e15},
                                                {"GFLOP/s", 1e9},
                                                {"TFLOP/s", 1e12},
                                                {"PFLOP/s", 1e15}}};
  const auto value = parse(text, scales);
  return value ? std::optional{FlopRate{*value}} : std::nullopt;
}

std::optional<double> parse_frequency(std::string_view text) {
  static constexpr std::array<Scale, 3> scales{{{"Hz", 1}, {"MHz", 1e6}, {"GHz", 1e9}}};
  return parse(text, scales);
}

std::optional<double> parse_power(std::string_view text) {
  static constexpr std::array<Scale, 2> scales{{{"W", 1}, {"kW", 1e3}}};
  return parse(text, scales);
}

}  // namespace phantora
