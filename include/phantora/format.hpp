#pragma once

#include <phantora/cluster/topology.hpp>
#include <phantora/ids.hpp>
#include <phantora/kernels/kernel_cost_model.hpp>
#include <phantora/units.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include <fmt/format.h>

/// fmt's formatters of quantities, ids and what reports name (target phantora::format, which needs
/// fmt). Include it wherever a program prints them: fmt/chrono.h alone writes a Duration otherwise.
///
///     fmt::format("{}", 48'034us)              48.034 ms     s and ms to 3 decimals, us to 1
///     fmt::format("{:us}", 48'034us)           4.803e+04 us  in that unit, to 4 digits
///     fmt::format("{:.1us}", 48'034us)         48034.0 us    in that unit, to so many decimals
///     fmt::format("{}", Time{} + 1'500ms)      1.500000 s    an instant; units as above
///     fmt::format("{} {:.2GiB}", 3_KiB, 5_GB)  3.00 KiB 4.66 GiB
///     fmt::format("{} {:Gbps}", nic, nic)      50 GB/s 400 Gbps
///     fmt::format("{}", link)                  17            an Id is its number
///     fmt::format("{}", NodeKind::nic)         nic           a CostSource likewise
///
/// Units are ps, ns, us, ms, s; B, KiB, MiB, GiB, TiB, KB, MB, GB, TB; B/s, KB/s, MB/s, GB/s, TB/s,
/// bps, Kbps, Mbps, Gbps, Tbps.
namespace phantora::detail {

/// A unit, how many of it make a quantity's own (second, byte, byte per second), and the decimals
/// where the unit was chosen by size.
struct FormatUnit {
  std::string_view name;
  double per_own;
  int decimals;
};

/// [.DECIMALS][UNIT], with neither: `plain`.
template <std::size_t N>
class QuantityFormatter {
 public:
  constexpr explicit QuantityFormatter(const std::array<FormatUnit, N>& units) : units_{units} {}

  constexpr auto parse(fmt::format_parse_context& context) {
    auto at = context.begin();
    const auto end = context.end();
    if (at != end && *at == '.') {
      ++at;
      if (at == end || *at < '0' || *at > '9') throw fmt::format_error{"expected decimals after ."};
      decimals_ = 0;
      for (; at != end && *at >= '0' && *at <= '9' && *decimals_ < 100; ++at)
        decimals_ = *decimals_ * 10 + (*at - '0');
    }
    const auto begin = at;
    while (at != end && *at != '}') ++at;
    const std::string_view word{begin, static_cast<std::size_t>(at - begin)};
    for (const FormatUnit& unit : units_)
      if (unit.name == word) unit_ = unit;
    if (!unit_ && (!word.empty() || decimals_))
      throw fmt::format_error{"expected a unit of the quantity"};
    return at;
  }

 protected:
  /// In the unit asked for, or else in `plain`.
  template <class Context>
  auto write(double own, const FormatUnit& plain, Context& context) const {
    if (!unit_)
      return fmt::format_to(context.out(), "{:.{}f} {}", own * plain.per_own, plain.decimals,
                            plain.name);
    if (!decimals_)
      return fmt::format_to(context.out(), "{:.4g} {}", own * unit_->per_own, unit_->name);
    return fmt::format_to(context.out(), "{:.{}f} {}", own * unit_->per_own, *decimals_,
                          unit_->name);
  }
  [[nodiscard]] constexpr bool is_plain() const noexcept { return !unit_; }

 private:
  const std::array<FormatUnit, N>& units_;
  // No pointer into the array: GCC 12, with UndefinedBehaviorSanitizer, takes its comparison with
  // nullptr for no constant expression.
  std::optional<FormatUnit> unit_{};
  std::optional<int> decimals_{};
};

inline constexpr std::array<FormatUnit, 5> time_units{
    {{"s", 1, 3}, {"ms", 1e3, 3}, {"us", 1e6, 1}, {"ns", 1e9, 0}, {"ps", 1e12, 0}}};
inline constexpr FormatUnit instant_unit{"s", 1, 6};

inline constexpr double ki = 1024;
inline constexpr std::array<FormatUnit, 9> byte_units{{{"B", 1, 0},
                                                       {"KiB", 1 / ki, 2},
                                                       {"MiB", 1 / (ki * ki), 2},
                                                       {"GiB", 1 / (ki * ki * ki), 2},
                                                       {"TiB", 1 / (ki * ki * ki * ki), 2},
                                                       {"KB", 1e-3, 2},
                                                       {"MB", 1e-6, 2},
                                                       {"GB", 1e-9, 2},
                                                       {"TB", 1e-12, 2}}};
inline constexpr std::size_t binary_units = 5;

inline constexpr std::array<FormatUnit, 10> bandwidth_units{{{"GB/s", 1e-9, 0},
                                                             {"B/s", 1, 0},
                                                             {"KB/s", 1e-3, 0},
                                                             {"MB/s", 1e-6, 0},
                                                             {"TB/s", 1e-12, 0},
                                                             {"bps", 8, 0},
                                                             {"Kbps", 8e-3, 0},
                                                             {"Mbps", 8e-6, 0},
                                                             {"Gbps", 8e-9, 0},
                                                             {"Tbps", 8e-12, 0}}};

}  // namespace phantora::detail

/// @cond

template <>
struct fmt::formatter<phantora::Duration>
    : phantora::detail::QuantityFormatter<phantora::detail::time_units.size()> {
  constexpr formatter() : QuantityFormatter{phantora::detail::time_units} {}
  template <class Context>
  auto format(phantora::Duration d, Context& context) const {
    const double s = phantora::to_seconds(d), size = s < 0 ? -s : s;
    const auto& units = phantora::detail::time_units;
    return write(s, size >= 1 ? units[0] : size >= 1e-3 ? units[1] : units[2], context);
  }
};

template <>
struct fmt::formatter<phantora::Time>
    : phantora::detail::QuantityFormatter<phantora::detail::time_units.size()> {
  constexpr formatter() : QuantityFormatter{phantora::detail::time_units} {}
  template <class Context>
  auto format(phantora::Time t, Context& context) const {
    if (t == phantora::never) return fmt::format_to(context.out(), "never");
    return write(phantora::to_seconds(t.time_since_epoch()), phantora::detail::instant_unit,
                 context);
  }
};

template <>
struct fmt::formatter<phantora::Bytes>
    : phantora::detail::QuantityFormatter<phantora::detail::byte_units.size()> {
  constexpr formatter() : QuantityFormatter{phantora::detail::byte_units} {}
  template <class Context>
  auto format(phantora::Bytes b, Context& context) const {
    const auto& units = phantora::detail::byte_units;
    const double bytes = static_cast<double>(b.count()), size = bytes < 0 ? -bytes : bytes;
    std::size_t unit = 0;
    while (unit + 1 < phantora::detail::binary_units && size * units[unit + 1].per_own >= 1) ++unit;
    return write(bytes, units[unit], context);
  }
};

template <>
struct fmt::formatter<phantora::Bandwidth>
    : phantora::detail::QuantityFormatter<phantora::detail::bandwidth_units.size()> {
  constexpr formatter() : QuantityFormatter{phantora::detail::bandwidth_units} {}
  template <class Context>
  auto format(phantora::Bandwidth b, Context& context) const {
    if (is_plain()) return fmt::format_to(context.out(), "{:.4g} GB/s", b.bytes_per_second() / 1e9);
    return write(b.bytes_per_second(), phantora::detail::bandwidth_units[0], context);
  }
};

template <class Tag, class Rep>
struct fmt::formatter<phantora::Id<Tag, Rep>> : fmt::formatter<Rep> {
  template <class Context>
  auto format(phantora::Id<Tag, Rep> id, Context& context) const {
    return fmt::formatter<Rep>::format(id.value, context);
  }
};

template <>
struct fmt::formatter<phantora::NodeKind> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(phantora::NodeKind kind, Context& context) const {
    return fmt::formatter<std::string_view>::format(phantora::to_string(kind), context);
  }
};

template <>
struct fmt::formatter<phantora::CostSource> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(phantora::CostSource source, Context& context) const {
    return fmt::formatter<std::string_view>::format(phantora::to_string(source), context);
  }
};
/// @endcond
