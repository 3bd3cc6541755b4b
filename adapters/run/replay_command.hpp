#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace phantora::run {

/// What is replayed on what.
struct Variant {
  std::string cluster{};
  std::optional<std::string> gpu_memory{};
  double host_scale = 1;            ///< of the recorded host time
  std::string host{};               ///< on which it is replayed; empty: that of the record
  std::vector<std::string> nccl{};  ///< NAME=VALUE
  std::string widen{};              ///< as in 8x; empty: as many replicas as were recorded
  unsigned replica = 1;             ///< ranks of each
  std::string narrower{};           ///< a record of fewer; empty: sizes of shards stay
};

struct ReplayOptions {
  std::string record{};
  Variant variant{};
  std::string variants{};              ///< a file with options of a variant on each line
  int jobs = 0;                        ///< variants at a time; 0: as many as there are cores
  std::vector<std::string> kernels{};  ///< databases
  std::string report{}, trace{};
  std::string step_marker{};
};

void add_options(CLI::App& command, ReplayOptions& options);

/// `phantora replay`: runs what was recorded on a cluster. Returns the exit status.
/// @throws ConfigError, CostError for what cannot be run there.
int replay(ReplayOptions options);

}  // namespace phantora::run
