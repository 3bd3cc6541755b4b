#include "simulation/price_list.hpp"

#include <phantora/error.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace phantora::detail {

std::vector<PricedModel> models_of(const Cluster& cluster,
                                   const std::function<KernelCostModel(const GpuModel&)>& costs) {
  if (cluster.hosts.empty())
    throw ConfigError{"cluster " + cluster.name +
                      " has no hosts that say what its GPUs are: give the session a GpuModel"};
  std::vector<PricedModel> models;
  for (const Host& host : cluster.hosts) {
    if (std::none_of(models.begin(), models.end(),
                     [&](const PricedModel& known) { return known.gpu.key == host.gpu_model; })) {
      const GpuModel gpu = gpu_kind(host);
      models.push_back({gpu, costs(gpu)});
    }
  }
  return models;
}

std::vector<PricedModel> only_model(const Cluster& cluster, const GpuModel& gpu,
                                    KernelCostModel costs) {
  for (const Host& host : cluster.hosts) {
    if (host.gpu_model != gpu.key)
      throw ConfigError{"the GPUs of " + host.name + " in cluster " + cluster.name + " are " +
                        host.gpu_model + ", and the session is given a model of " + gpu.key +
                        " alone; a mixed cluster takes costs by GPU model"};
  }
  return {{gpu, std::move(costs)}};
}

PriceList::PriceList(const Cluster& cluster, std::vector<PricedModel> models)
    : models_{std::move(models)} {
  for (const NodeId gpu : cluster.gpus) {
    const auto found = models_.size() == 1
                           ? models_.begin()
                           : std::find_if(models_.begin(), models_.end(), [&](const auto& model) {
                               return model.gpu.key == cluster.host_of(gpu).gpu_model;
                             });
    model_of_gpu_.push_back(static_cast<std::size_t>(found - models_.begin()));
  }
}

std::uint32_t PriceList::add(const KernelQuery& query, GpuIndex gpu) {
  const auto number = static_cast<std::uint32_t>(kernel_of_query_.size() / models_.size());
  const std::size_t model = model_of_gpu_[gpu];
  KernelQuery like = query;
  like.operands = {};
  identities_.push_back(likes_.try_emplace(std::move(like), number).first->second);
  const std::uint64_t kernel = price(query, model, number);
  kernel_of_query_.resize(kernel_of_query_.size() + models_.size(), unpriced);
  kernel_of_query_[number * models_.size() + model] = kernel;
  if (models_.size() > 1) queries_.push_back(query);
  return number;
}

std::uint64_t PriceList::kernel_on(GpuIndex gpu, std::uint32_t query) {
  PHANTORA_EXPECTS(query < kernel_of_query_.size() / models_.size(),
                   "no query " + std::to_string(query));
  const std::size_t model = model_of_gpu_[gpu];
  std::uint64_t& kernel = kernel_of_query_[query * models_.size() + model];
  if (kernel == unpriced) kernel = price(queries_[query], model, query);
  return kernel;
}

namespace {

PricedKernel::Way way_of(const KernelQuery& query) {
  if (query.grid) return PricedKernel::Way::none;
  if (query.name.starts_with("memcpy_h2d")) return PricedKernel::Way::to_device;
  if (query.name.starts_with("memcpy_d2h")) return PricedKernel::Way::to_host;
  return PricedKernel::Way::none;
}

}  // namespace

std::uint64_t PriceList::price(const KernelQuery& query, std::size_t model, std::uint32_t number) {
  const auto& [gpu, costs] = models_[model];
  const auto estimate = costs.estimate(query);
  if (!estimate)
    throw CostError{"no cost model answers for kernel " + query.name + " on " + gpu.name};
  const double demand = estimate->demand.value_or(1.0);
  const double memory_share = estimate->memory_share.value_or(0.0);
  if (!(demand > 0.0 && demand <= 1.0) || !(memory_share >= 0.0 && memory_share <= 1.0))
    throw CostError{"the cost model's estimate of kernel " + query.name +
                    ": expected a demand in (0, 1] and a memory_share in [0, 1], got " +
                    std::to_string(demand) + " and " + std::to_string(memory_share)};
  const double power_share = estimate->power_share.value_or(0.0);
  if (!(power_share >= 0.0) || !std::isfinite(power_share))
    throw CostError{"the cost model's estimate of kernel " + query.name +
                    ": expected a power_share of 0 or more, got " + std::to_string(power_share)};
  kernels_.push_back({.name = query.name,
                      .duration = std::max(estimate->duration, Duration{1}),
                      .stddev = estimate->stddev,
                      .source = estimate->source,
                      .limit = estimate->limit.value_or(KernelLimit::memory),
                      .demand = demand,
                      .memory_share = memory_share,
                      .power_share = power_share,
                      .way = way_of(query),
                      .identity = identities_[number]});
  return kernels_.size() - 1;
}

}  // namespace phantora::detail
