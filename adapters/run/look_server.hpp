#pragma once

#include "run/engine.hpp"
#include "run/unique_fd.hpp"

#include <phantora/cluster/cluster.hpp>
#include <phantora/simulation/session.hpp>

#include <string>
#include <vector>

namespace phantora::run {

/// Tells whoever connects what a run is doing: JSON, and the end of the connection. Looking changes
/// nothing in the run.
class LookServer {
 public:
  /// @param command  of the run.
  /// @throws Error if the socket cannot be made.
  LookServer(std::string socket_name, const Cluster& cluster, std::string cluster_name,
             std::vector<std::string> command, const Session& session, const Engine& engine);

  /// Ready when somebody has connected.
  [[nodiscard]] int descriptor() const noexcept { return listener_.get(); }
  /// Answers those who have connected.
  void serve();

 private:
  [[nodiscard]] std::string describe();

  const Cluster& cluster_;
  std::string cluster_name_;
  std::vector<std::string> command_;
  const Session& session_;
  const Engine& engine_;
  UniqueFd listener_{};
  /// As of the last look that came at another instant: utilisation is that of the time since.
  Time looked_at_{};
  std::vector<Duration> busy_then_{};
};

}  // namespace phantora::run
