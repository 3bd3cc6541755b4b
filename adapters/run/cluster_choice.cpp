#include "run/cluster_choice.hpp"

#include <phantora/error.hpp>
#include <phantora/kernels/gpu_model.hpp>
#include <phantora/quantity.hpp>

#include <algorithm>

#include <unistd.h>

namespace phantora::run {

Bytes parse_gpu_memory(const std::string& text) {
  const auto size = parse_bytes(text);
  if (!size || *size == Bytes{}) {
    throw ConfigError{"--gpu-memory " + text + ": expected a size such as 80GB or 24GiB"};
  }
  return *size;
}

Cluster cluster_of(const std::string& spec, const std::optional<std::string>& gpu_memory) {
  Cluster cluster = parse_cluster(spec);
  if (gpu_memory) {
    for (Host& host : cluster.hosts) host.gpu_memory = parse_gpu_memory(*gpu_memory);
  }
  return cluster;
}

std::vector<std::string> names_of_unlike_gpus(const Cluster& cluster) {
  std::vector<std::string> names;
  for (const Host& host : cluster.hosts)
    names.insert(names.end(), host.gpus.size(), gpu_model(host).name);
  const bool alike = std::all_of(names.begin(), names.end(),
                                 [&](const std::string& name) { return name == names.front(); });
  return alike ? std::vector<std::string>{} : names;
}

NcclVariables nccl_environment() {
  NcclVariables variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (text.starts_with("NCCL_")) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return variables;
}

}  // namespace phantora::run
