#pragma once

#include <phantora/units.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// What the host's work costs in virtual time.
namespace phantora {

/// Where the time of host work is taken from.
enum class HostTime : std::uint8_t { measured, fixed, off };

/// How long the host's own work takes, and the calls that it makes of CUDA and NCCL, where both
/// take 1 on another.
struct HostSlowness {
  double work = 1;   ///< of its own work
  double calls = 1;  ///< of its calls
  bool operator==(const HostSlowness&) const = default;
};

/// What `--host-time` says.
struct HostTimePolicy {
  HostTime kind = HostTime::measured;  ///< which
  Duration per_call{};                 ///< of `fixed`
  std::optional<double> scale{};  ///< of `measured`; nothing: by the machine's speed as it runs
  /// The simulated host beside that of the built-in data. `scale` says by itself what CPU time is.
  HostSlowness host{};
  bool operator==(const HostTimePolicy&) const = default;
};

/// The kinds as `--host-time` takes them: "measured", "off" or "fixed:NS", NS of up to 12 digits.
/// nullopt for anything else.
std::optional<HostTimePolicy> parse_host_time(std::string_view text);
/// What parse_host_time() would read; without scale and host.
std::string to_string(const HostTimePolicy& policy);

}  // namespace phantora
