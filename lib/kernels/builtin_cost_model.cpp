#include "kernels/code_roofline.hpp"

#include <phantora/error.hpp>
#include <phantora/kernels/builtin_cost_model.hpp>
#include <phantora/kernels/fitted_model.hpp>
#include <phantora/kernels/measured_table.hpp>
#include <phantora/kernels/operand_cache.hpp>
#include <phantora/kernels/roofline.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

// The texts of data/h200.tsv and data/h100.tsv (data/tables.S).
extern "C" const char phantora_h200_begin[], phantora_h200_end[];
extern "C" const char phantora_h100_begin[], phantora_h100_end[];

namespace phantora {
namespace {

struct Table {
  std::string_view gpu;
  const char *begin, *end;
};

/// The first is the most complete, and stands in where others lack a kernel, or were not measured.
constexpr std::array tables{Table{"h200", phantora_h200_begin, phantora_h200_end},
                            Table{"h100", phantora_h100_begin, phantora_h100_end}};

std::vector<Measurement> read_table(const Table& table) {
  const std::string file = std::string{table.gpu} + ".tsv";
  if (const char* other = std::getenv("PHANTORA_DATA"))
    return read_measurements(std::filesystem::path{other} / file);
  std::istringstream text{std::string{table.begin, table.end}};
  return read_measurements(text, file);
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
  std::vector<KernelCostModel> links;
  if (std::ranges::find(tables, gpu.key, &Table::gpu) != tables.end()) {
    std::vector<Measurement> rows = builtin_measurements(gpu.key);
    FittedModel fitted{gpu_model(gpu.key), rows, gpu};
    // A launch of which only the grid is known may have had any size: no exact hit can be told.
    std::erase_if(rows, [](const Measurement& row) {
      return row.query.features.empty() && row.query.bytes <= 0.0;
    });
    links.emplace_back(MeasuredTable{std::move(rows), gpu});
    links.emplace_back(WithinPeaks{std::move(fitted), gpu});
  }
  const std::string first{tables.front().gpu};
  if (gpu.key != first)
    links.emplace_back(
        WithinPeaks{FittedModel{gpu_model(first), builtin_measurements(first), gpu}, gpu});
  links.emplace_back(Roofline{gpu});
  return with_cold_operands(first_of(std::move(links)), gpu);
}

}  // namespace

const std::vector<Measurement>& builtin_measurements(std::string_view gpu) {
  const auto table = std::ranges::find(tables, gpu, &Table::gpu);
  PHANTORA_EXPECTS(table != tables.end(), "a GPU that was measured");
  // Each is read when it is asked for: most runs need one.
  static std::array<std::once_flag, tables.size()> read;
  static std::array<std::vector<Measurement>, tables.size()> rows;
  const auto index = static_cast<std::size_t>(table - tables.begin());
  std::call_once(read.at(index), [&] { rows.at(index) = read_table(*table); });
  return rows.at(index);
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
