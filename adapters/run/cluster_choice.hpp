#pragma once

#include <phantora/cluster/cluster.hpp>
#include <phantora/collectives/communicator.hpp>

#include <optional>
#include <string>
#include <vector>

/// What the command line and the environment say of the cluster.
namespace phantora::run {

/// A GPU's memory as the command line has it. @throws ConfigError if it cannot be read.
Bytes parse_gpu_memory(const std::string& text);

/// @param gpu_memory  of each GPU, whatever its kind; nothing: its own.
/// @throws ConfigError if either cannot be read.
Cluster cluster_of(const std::string& spec, const std::optional<std::string>& gpu_memory);

/// Of each GPU; nothing where all are alike.
std::vector<std::string> names_of_unlike_gpus(const Cluster& cluster);

/// NCCL's own variables steer the simulated NCCL.
NcclVariables nccl_environment();

}  // namespace phantora::run
