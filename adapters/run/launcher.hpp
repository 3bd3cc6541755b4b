#pragma once

#include "channel/settings.hpp"

#include <phantora/cluster/cluster.hpp>
#include <phantora/error.hpp>
#include <phantora/kernels/builtin_cost_model.hpp>
#include <phantora/simulation/host_profile.hpp>
#include <phantora/simulation/session.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace phantora::run {

/// How often COMMAND is started.
enum class Per : std::uint8_t {
  gpu,   ///< for each GPU: it is a rank
  host,  ///< for each host: it drives its host's GPUs, or starts the ranks there
  run    ///< once: it drives all GPUs of the first host, or starts the ranks of all hosts
};

/// A rank that runs on a GPU of this machine while the others are simulated (../measure/proxy).
struct RealRank {
  int rank = 0;
  /// What differs from this process's: NAME=VALUE, or NAME, which is unset.
  std::vector<std::string> environment{};
};

/// The options of `phantora run`, read and checked.
struct LaunchOptions {
  std::string cluster{};  ///< as it was given, for the report
  std::optional<std::string> gpu_memory{};
  std::string report{};
  std::string trace{};
  std::string record{};  ///< what the ranks do, for phantora replay
  GpuCosts costs = builtin_cost_model;
  std::string step_marker{};  ///< what ends a step; empty: found by the work's order
  bool label_output = false;  ///< say before each line which rank printed it
  /// Without a scale, measured time counts as on the host (rank/runtime/host_speed.hpp).
  HostTimePolicy host_time{};
  HostProfile host = host_presets().front();  ///< on which the job is simulated
  channel::Unknown unknown = channel::Unknown::zero;
  channel::Choice routing = channel::Choice::balanced;
  double selected = 1;       ///< share of elements that pass masks which are not computed
  std::optional<Per> per{};  ///< nothing: by the command
  int runnable = 0;          ///< 0: as many as there are cores
  int stall_timeout_s = 60;
  std::vector<std::string> command{};
  std::optional<RealRank> real_rank{};  ///< of phantora measure: then nothing is reported
};

/// COMMAND cannot be started. `status` is what a shell would return.
class CommandError : public Error {
 public:
  CommandError(const std::string& what, int shell_status) : Error{what}, status{shell_status} {}
  int status;
};

/// `phantora run`: starts the ranks, serves them, reports. Returns the exit status.
int launch(const Cluster& cluster, const LaunchOptions& options);

}  // namespace phantora::run
