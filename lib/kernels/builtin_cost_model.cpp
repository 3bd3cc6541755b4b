#include "kernels/code_roofline.hpp"

#include <phantora/kernels/builtin_cost_model.hpp>
#include <phantora/kernels/fitted_model.hpp>
#include <phantora/kernels/measured_table.hpp>
#include <phantora/kernels/roofline.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

// The text of data/h200.tsv (data/h200.S).
extern "C" const char phantora_h200_begin[], phantora_h200_end[];

namespace phantora {
namespace {

constexpr const char* measured_gpu = "h200";
constexpr const char* measured_file = "h200.tsv";

std::vector<Measurement> read_builtin_measurements() {
  if (const char* other = std::getenv("PHANTORA_DATA"))
    return read_measurements(std::filesystem::path{other} / measured_file);
  std::istringstream text{std::string{phantora_h200_begin, phantora_h200_end}};
  return read_measurements(text, measured_file);
}

/// No launch whose code is told takes less than the GPU's peaks allow.
struct WithinPeaks {
  KernelCostModel upstream;
  GpuModel gpu;
  [[nodiscard]] std::optional<CostEstimate> estimate(const KernelQuery& query) const {
    auto found = upstream.estimate(query);
    if (found && detail::tells_code(query)) {
      found->duration =
          std::max(found->duration, duration_from_seconds(detail::least_code_seconds(query, gpu)));
    }
    return found;
  }
};

KernelCostModel make_model(const GpuModel& gpu) {
  std::vector<Measurement> rows = builtin_measurements();
  const WithinPeaks fitted{FittedModel{gpu_model(measured_gpu), rows, gpu}, gpu};
  Roofline roofline{gpu};
  if (gpu.key != measured_gpu) return first_of(fitted, std::move(roofline));
  // A launch of which only the grid is known may have had any size: no exact hit can be told.
  std::erase_if(rows, [](const Measurement& row) {
    return row.query.features.empty() && row.query.bytes <= 0.0;
  });
  return first_of(MeasuredTable{std::move(rows), gpu}, fitted, std::move(roofline));
}

}  // namespace

const std::vector<Measurement>& builtin_measurements() {
  static const std::vector<Measurement> rows = read_builtin_measurements();
  return rows;
}

KernelCostModel builtin_cost_model(const GpuModel& gpu) {
  // Models of GPUs of the caller's own are not kept: there may be any number.
  const std::vector<std::string> keys = gpu_model_keys();
  if (std::find(keys.begin(), keys.end(), gpu.key) == keys.end() || gpu != gpu_model(gpu.key))
    return make_model(gpu);
  static std::mutex mutex;
  static std::map<std::string, KernelCostModel> models;
  const std::lock_guard lock{mutex};
  const auto known = models.find(gpu.key);
  return known != models.end() ? known->second
                               : models.emplace(gpu.key, make_model(gpu)).first->second;
}

}  // namespace phantora
