#pragma once

#include <phantora/cluster/cluster.hpp>
#include <phantora/simulation/session.hpp>

#include <string>
#include <vector>

/// Kernel databases on the command line.
namespace phantora::run {

/// What kernels cost by these databases, the first first, and else by what comes with the library.
/// Says on stderr which GPUs of the cluster were measured in none of them.
/// @throws ConfigError for a file that cannot be read, or that was measured on no GPU of the
/// cluster.
GpuCosts costs_of(const std::vector<std::string>& databases, const Cluster& cluster);

}  // namespace phantora::run
