#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace phantora::run {

struct MeasureOptions {
  std::string kernels{};                    ///< the database
  std::string timer{};                      ///< cupti or events; empty: CUPTI where there is one
  std::optional<std::string> gpu_memory{};  ///< what the program is told that the GPU has
  std::string cluster{};  ///< COMMAND is one of its ranks, the others are simulated; empty: alone
  int rank = 0;           ///< which
  int stall_timeout_s = 600;
  std::vector<std::string> command{};
};

void add_options(CLI::App& command, MeasureOptions& options);

/// `phantora measure`: runs COMMAND on the real GPU with the entry points of adapters/measure
/// before those of CUDA. Returns its exit status.
/// @throws ConfigError if the database cannot be written or the cluster has no such rank,
///   CommandError if COMMAND cannot be run.
int measure(const MeasureOptions& options);

}  // namespace phantora::run
