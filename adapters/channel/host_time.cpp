#include "channel/host_time.hpp"

#include "channel/number.hpp"

#include <chrono>

namespace phantora::channel {
namespace {

constexpr std::string_view fixed = "fixed:";

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

}  // namespace phantora::channel
