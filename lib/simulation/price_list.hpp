#pragma once

#include "simulation/device.hpp"

#include <phantora/cluster/cluster.hpp>
#include <phantora/kernels/gpu_model.hpp>
#include <phantora/kernels/kernel_cost_model.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <vector>

/// What kernels cost on the GPUs of a cluster. Private to Session.
namespace phantora::detail {

/// A GPU model of the cluster, and what kernels cost on it.
struct PricedModel {
  GpuModel gpu;
  KernelCostModel costs;
};
/// Of each model that the cluster's hosts have.
std::vector<PricedModel> models_of(const Cluster& cluster,
                                   const std::function<KernelCostModel(const GpuModel&)>& costs);
/// Of the only model that they may have, if they say which they have.
std::vector<PricedModel> only_model(const Cluster& cluster, const GpuModel& gpu,
                                    KernelCostModel costs);

/// Prices each kernel once on GPUs that are alike: on those of its first GPU when it is added, on
/// others when it first comes there.
class PriceList {
 public:
  PriceList(const Cluster& cluster, std::vector<PricedModel> models);

  /// @return the query's number, from 0. @throws CostError if no cost model of that GPU answers.
  std::uint32_t add(const KernelQuery& query, GpuIndex gpu);
  /// The number of the kernel that the query is on that GPU. @throws CostError, likewise.
  std::uint64_t kernel_on(GpuIndex gpu, std::uint32_t query);
  [[nodiscard]] const PricedKernel& kernel(std::uint64_t number) const {
    return kernels_.at(number);
  }
  [[nodiscard]] const GpuModel& model(GpuIndex gpu) const {
    return models_[model_of_gpu_[gpu]].gpu;
  }

 private:
  std::uint64_t price(const KernelQuery& query, std::size_t model, std::uint32_t number);

  std::vector<PricedModel> models_;
  std::vector<std::size_t> model_of_gpu_{};
  std::deque<PricedKernel> kernels_{};
  std::vector<KernelQuery> queries_{};  ///< where several models may have to price them
  /// Launches of a kernel that differ in what the cache holds of their operands are alike: the
  /// number of the first of them, by the rest of the query, and for each query.
  std::map<KernelQuery, std::uint32_t> likes_{};
  std::vector<std::uint32_t> identities_{};
  static constexpr std::uint64_t unpriced = ~std::uint64_t{0};
  /// For each query, by model: where kernels_ has it, or unpriced.
  std::vector<std::uint64_t> kernel_of_query_{};
};

}  // namespace phantora::detail
