#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace phantora::run {

struct TopologyOptions {
  std::string cluster;
  std::string format = "table";      ///< table, dot, svg or json
  std::vector<std::string> route{};  ///< two names or ranks of GPUs: show the route between them
};

/// `phantora topology`: what the cluster looks like.
/// @throws ConfigError for an unknown cluster or GPU.
void describe_topology(const TopologyOptions& options, std::ostream& out);

}  // namespace phantora::run
