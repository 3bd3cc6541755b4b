#include "run/kernel_files.hpp"

#include <phantora/error.hpp>
#include <phantora/kernels/builtin_cost_model.hpp>
#include <phantora/kernels/kernel_database.hpp>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace phantora::run {

GpuCosts costs_of(const std::vector<std::string>& databases, const Cluster& cluster) {
  if (databases.empty()) return builtin_cost_model;
  std::map<std::string, GpuModel> models;  // by name
  for (const Host& host : cluster.hosts) {
    const GpuModel model = gpu_model(host);
    models.emplace(model.name, model);
  }
  std::set<std::string> cluster_names;
  for (const auto& [name, model] : models) cluster_names.insert(name);
  std::set<std::string> unmeasured = cluster_names;
  // Read once, before anything is started.
  std::map<std::string, std::vector<KernelCostModel>> links;
  for (const std::string& path : databases) {
    const KernelDatabase database{path};
    const std::vector<std::string> measured = database.gpus();
    bool fits = false;
    for (const auto& [name, model] : models) {
      if (std::find(measured.begin(), measured.end(), name) == measured.end()) continue;
      links[name].push_back(database.model(model));
      unmeasured.erase(name);
      fits = true;
    }
    if (!fits)
      throw ConfigError{
          fmt::format("--kernels {}: was measured on {}, the cluster's GPUs are {}", path,
                      measured.empty() ? "no GPU" : fmt::format("{}", fmt::join(measured, " and ")),
                      fmt::join(cluster_names, " and "))};
  }
  if (!unmeasured.empty())
    std::cerr << fmt::format(
        "phantora: --kernels: nothing was measured on {}; its kernels cost what the library says\n",
        fmt::join(unmeasured, " and "));
  return [links = std::move(links)](const GpuModel& gpu) {
    std::vector<KernelCostModel> chain;
    if (const auto found = links.find(gpu.name); found != links.end()) chain = found->second;
    chain.push_back(builtin_cost_model(gpu));
    return first_of(std::move(chain));
  };
}

}  // namespace phantora::run
