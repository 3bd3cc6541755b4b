#include "run/own_gpus.hpp"

#include <phantora/kernels/gpu_model.hpp>

#include <algorithm>
#include <fstream>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace phantora::run {

// "Model: <tab> NVIDIA H200" in a GPU's information.
std::set<std::string> names_of_gpus(const std::filesystem::path& driver) {
  std::set<std::string> names;
  std::error_code nothing_there;
  for (const auto& gpu : std::filesystem::directory_iterator{driver, nothing_there}) {
    std::ifstream information{gpu.path() / "information"};
    for (std::string line; std::getline(information, line);) {
      if (!line.starts_with("Model:")) continue;
      const std::size_t name = line.find_first_not_of(" \t", std::string{"Model:"}.size());
      if (name != line.npos) names.insert(line.substr(name));
    }
  }
  return names;
}

bool has_gpus_of(const Cluster& cluster, const std::filesystem::path& driver) {
  const std::set<std::string> here = names_of_gpus(driver);
  return std::ranges::all_of(cluster.hosts,
                             [&](const Host& host) { return here.contains(gpu_model(host).name); });
}

std::string note_on_other_gpus(const Cluster& cluster, const std::string& host,
                               const std::filesystem::path& driver) {
  const std::set<std::string> here = names_of_gpus(driver);
  if (here.empty() || has_gpus_of(cluster, driver)) return {};
  return fmt::format(
      "phantora: this machine has {}, the cluster other GPUs: its hosts are taken to be as fast as "
      "{}, the host of the built-in data (--host this: as this machine)\n",
      fmt::join(here, " and "), host);
}

}  // namespace phantora::run
