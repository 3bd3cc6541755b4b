#pragma once

#include <phantora/cluster/cluster.hpp>

#include <filesystem>
#include <set>
#include <string>

namespace phantora::run {

/// The names of this machine's GPUs.
/// @param driver  where NVIDIA's driver says what there is, a folder with `information` for each
/// GPU.
std::set<std::string> names_of_gpus(
    const std::filesystem::path& driver = "/proc/driver/nvidia/gpus");

/// Whether this machine is a host of such GPUs as all of the cluster's: then jobs take as long here
/// as on its hosts, and no built-in host has to stand for them.
/// @param driver  as names_of_gpus() takes it.
bool has_gpus_of(const Cluster& cluster,
                 const std::filesystem::path& driver = "/proc/driver/nvidia/gpus");

/// What a user is told whose machine has GPUs that are not all of the cluster's, so that the
/// built-in `host` stands for the cluster's hosts; empty where nothing need be said.
/// @param driver  as names_of_gpus() takes it.
std::string note_on_other_gpus(const Cluster& cluster, const std::string& host,
                               const std::filesystem::path& driver = "/proc/driver/nvidia/gpus");

}  // namespace phantora::run
