#pragma once

#include "channel/host_time.hpp"

#include <phantora/error.hpp>

#include <optional>
#include <string>
#include <vector>

namespace phantora::run {

struct LaunchOptions {
  std::string cluster;
  std::optional<std::string> gpu_memory{};
  std::string report{};
  std::string trace{};
  std::string record{};       ///< what the ranks do, for phantora replay
  std::string step_marker{};  ///< what ends a step; empty: found by the work's order
  bool label_output = false;  ///< say before each line which rank printed it
  /// Without a scale, measured time counts as on an H200's host (rank/runtime/host_speed.hpp).
  channel::HostTimePolicy host_time{};
  /// What the host reads where nothing was computed: "0", "1" or "normal".
  std::string unknown = "0";
  std::string sync = "conservative";
  std::string per{};  ///< "gpu", "host", "run", or empty: by the command
  int runnable = 0;   ///< 0: as many as there are cores
  int stall_timeout_s = 60;
  std::vector<std::string> command{};
};

/// COMMAND cannot be started. `status` is what a shell would return.
class CommandError : public Error {
 public:
  CommandError(const std::string& what, int shell_status) : Error{what}, status{shell_status} {}
  int status;
};

/// `phantora run`: starts the ranks, serves them, reports. Returns the exit status.
int launch(const LaunchOptions& options);

}  // namespace phantora::run
