#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace phantora::run {

struct TopologyOptions {
  std::string cluster;
  std::string format = "table";      ///< table, dot, svg or json
  std::vector<std::string> route{};  ///< two names or ranks of GPUs: show the route between them
  std::vector<std::string> cut{};    ///< two hosts: show the narrowest cut between them
  std::string at = "0s";             ///< the instant at which bandwidths, paths and cuts are told
};

/// `phantora topology`: what the cluster looks like.
/// @throws ConfigError for an unknown cluster, GPU or host, or what is no instant.
void describe_topology(const TopologyOptions& options, std::ostream& out);

}  // namespace phantora::run
