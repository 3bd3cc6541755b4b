#pragma once

#include <phantora/units.hpp>

#include <optional>
#include <string_view>

/// Quantities as people write them: a number, then a unit; spaces between are allowed. Nothing for
/// other text, and for what is negative, too large, or too small to be told from nothing.
namespace phantora {

/// "400Gbps", "400 Gb/s" (bits, decimal), "450GB/s", "450 GBps", "57.6 GB/s" (bytes, decimal).
std::optional<Bandwidth> parse_bandwidth(std::string_view text);
/// "500ns", "1.5us", "2 ms", "1s".
std::optional<Duration> parse_duration(std::string_view text);
/// "141GB" (decimal), "80GiB", "65536", "64K" (binary, as are M, G, T alone).
std::optional<Bytes> parse_bytes(std::string_view text);
/// "989.4TFLOPS", "4.5 PFLOPS", "67 TFLOP/s".
std::optional<FlopRate> parse_flop_rate(std::string_view text);
/// In hertz: "1980MHz", "1.98 GHz".
std::optional<double> parse_frequency(std::string_view text);
/// In watts: "700W", "1.2 kW".
std::optional<double> parse_power(std::string_view text);

}  // namespace phantora
