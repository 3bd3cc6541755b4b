#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace phantora::run {

struct ReplayOptions {
  std::string record;
  std::string cluster;
  std::optional<std::string> gpu_memory{};
  double host_scale = 1;            ///< of the recorded host time
  std::vector<std::string> nccl{};  ///< NAME=VALUE
  std::string report{}, trace{};
  std::string step_marker{};
};

/// Those that say what to run it on, and what to write.
void add_options(CLI::App& command, ReplayOptions& options);

/// `phantora replay`: runs what was recorded on a cluster. Returns the exit status.
/// @throws ConfigError, CostError for what cannot be run there.
int replay(const ReplayOptions& options);

}  // namespace phantora::run
