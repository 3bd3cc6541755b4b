#include "fuzz.hpp"

#include <phantora/quantity.hpp>

#include <cmath>
#include <optional>

namespace {

using phantora::fuzz::expect;

/// "0.000", "0e9", "0x": only a number that is nothing may become nothing.
bool has_a_digit_but_0(std::string_view text) {
  return text.substr(0, text.find_first_of("eE")).find_first_of("123456789") != text.npos;
}

}  // namespace

// "400Gbps", "1.5us", "80GiB".
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace phantora;
  const std::string_view text = fuzz::text_of(data, size);
  if (const auto rate = parse_bandwidth(text)) {
    const double value = rate->bytes_per_second();
    expect(std::isfinite(value) && value >= 0, "bandwidths are finite");
    expect(value > 0 || !has_a_digit_but_0(text), "no bandwidth is lost");
  }
  if (const auto time = parse_duration(text)) {
    expect(time->count() >= 0, "durations are not negative");
    expect(parse_duration(std::to_string(time->count()) + "ps").value_or(Duration{-1}) - *time <
               std::chrono::microseconds{1},
           "a duration's picoseconds are the duration");
  }
  if (const auto bytes = parse_bytes(text)) expect(bytes->count() >= 0, "sizes are not negative");
  return 0;
}
