#include "channel/host_time.hpp"

#include <array>
#include <charconv>
#include <chrono>
#include <cstdlib>

namespace phantora::channel {
namespace {

constexpr const char* kind_variable = "PHANTORA_HOST_TIME";
constexpr const char* scale_variable = "PHANTORA_HOST_SCALE";
constexpr std::string_view fixed = "fixed:";

/// All of `text`, or nothing.
template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && stopped == end ? std::optional{value} : std::nullopt;
}

}  // namespace

std::optional<HostTimePolicy> parse_host_time(std::string_view text) {
  constexpr std::size_t most_digits = 12;  // 1,000 s: beyond it, few calls would end the clock
  if (text == "measured") return HostTimePolicy{};
  if (text == "off") return HostTimePolicy{.kind = HostTime::off};
  if (!text.starts_with(fixed) || text.size() > fixed.size() + most_digits) return std::nullopt;
  const auto ns = number<std::uint64_t>(text.substr(fixed.size()));
  if (!ns) return std::nullopt;
  return HostTimePolicy{.kind = HostTime::fixed,
                        .per_call = std::chrono::nanoseconds{static_cast<std::int64_t>(*ns)}};
}

std::string to_string(const HostTimePolicy& policy) {
  switch (policy.kind) {
    case HostTime::measured:
      return "measured";
    case HostTime::off:
      return "off";
    case HostTime::fixed:
      break;
  }
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(policy.per_call);
  return std::string{fixed} + std::to_string(ns.count());
}

std::map<std::string, std::string> environment_of(const HostTimePolicy& policy) {
  std::string scale = "auto";
  if (policy.scale) {
    std::array<char, 32> digits{};  // the shortest that reads back as the same double
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), *policy.scale);
    scale.assign(digits.data(), end.ptr);
  }
  return {{kind_variable, to_string(policy)}, {scale_variable, scale}};
}

HostTimePolicy host_time_of_environment() {
  const char* const kind = std::getenv(kind_variable);
  const char* const scale = std::getenv(scale_variable);
  HostTimePolicy policy = parse_host_time(kind != nullptr ? kind : "").value_or(HostTimePolicy{});
  policy.scale = number<double>(scale != nullptr ? scale : "");
  return policy;
}

}  // namespace phantora::channel
