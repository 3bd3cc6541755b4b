#pragma once

#include <ostream>
#include <string>

namespace phantora::run {

struct HostOptions {
  std::string output{};  ///< where the profile goes
  std::string name{};    ///< what reports call the host; empty: the machine's own name
  bool list = false;     ///< the presets instead
};

/// `phantora host`: measures this machine as a host.
/// @throws ConfigError, Error if the output cannot be written.
void describe_host(const HostOptions& options, std::ostream& out);

}  // namespace phantora::run
