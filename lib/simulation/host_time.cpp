#include <phantora/simulation/host_time.hpp>

#include <charconv>
#include <chrono>

namespace phantora {
namespace {

constexpr std::string_view fixed = "fixed:";

}  // namespace

std::optional<HostTimePolicy> parse_host_time(std::string_view text) {
  constexpr std::size_t most_digits = 12;  // 1,000 s: beyond it, few calls would end the clock
  if (text == "measured") return HostTimePolicy{};
  if (text == "off") return HostTimePolicy{.kind = HostTime::off};
  if (!text.starts_with(fixed) || text.size() > fixed.size() + most_digits) return std::nullopt;
  text.remove_prefix(fixed.size());
  std::uint64_t ns = 0;
  const auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), ns);
  if (error != std::errc{} || stopped != text.data() + text.size()) return std::nullopt;
  return HostTimePolicy{.kind = HostTime::fixed,
                        .per_call = std::chrono::nanoseconds{static_cast<std::int64_t>(ns)}};
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

}  // namespace phantora
