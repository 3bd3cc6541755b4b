#include "kernels/code_roofline.hpp"
#include "kernels/work/reading.hpp"

#include <phantora/error.hpp>
#include <phantora/kernels/builtin_cost_model.hpp>
#include <phantora/kernels/fitted_model.hpp>
#include <phantora/kernels/kernel_check.hpp>
#include <phantora/kernels/kernels.hpp>
#include <phantora/kernels/measured_table.hpp>
#include <phantora/kernels/operand_cache.hpp>
#include <phantora/kernels/roofline.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

// The texts of data/h200.tsv, data/h100.tsv and data/h200_lacking.tsv (data/tables.S).
extern "C" const char phantora_h200_begin[], phantora_h200_end[];
extern "C" const char phantora_h100_begin[], phantora_h100_end[];
extern "C" const char phantora_h200_lacking_begin[], phantora_h200_lacking_end[];

namespace phantora {
namespace {

struct Table {
  std::string_view name;
  const char *begin, *end;
};

/// The first is the most complete, and stands in where others lack a kernel, or were not measured.
constexpr std::array tables{Table{"h200", phantora_h200_begin, phantora_h200_end},
                            Table{"h100", phantora_h100_begin, phantora_h100_end}};
/// Launches that an H100 ran and the first GPU did not, with the H100's times.
constexpr Table lacking{"h200_lacking", phantora_h200_lacking_begin, phantora_h200_lacking_end};
constexpr std::string_view lacking_ran_on = "h100";

std::vector<Measurement> read_table(const Table& table) {
  const std::string file = std::string{table.name} + ".tsv";
  if (const char* other = std::getenv("PHANTORA_DATA"))
    return read_measurements(std::filesystem::path{other} / file);
  std::istringstream text{std::string{table.begin, table.end}};
  return read_measurements(text, file);
}

/// What PyTorch 2.11 does when it is asked for attention: check_prefer_cudnn_attention() of its
/// sdp_utils.cpp takes cuDNN's on GPUs of compute capability 9 and 10. FlashAttention 2 comes next.
/// What that does not take (more than 256 elements of a head, other types, masks) is priced as
/// cuDNN's everywhere.
struct PyTorchAttention {
  KernelCostModel upstream;
  GpuModel gpu;

  [[nodiscard]] std::optional<CostEstimate> estimate(const KernelQuery& query) const {
    constexpr std::string_view pytorch = "pytorch_";
    if (query.grid || !query.name.starts_with("pytorch_sdpa_")) return upstream.estimate(query);
    check(query, gpu);
    const bool prefers_cudnn = gpu.capability_major == 9 || gpu.capability_major == 10;
    if (!prefers_cudnn) {
      if (const auto shape = for_flash(query)) {
        return query.name.ends_with("fwd") ? sum({flash_attention_forward(*shape)})
                                           : sum(flash_attention_backward(*shape));
      }
    }
    KernelQuery library = query;
    library.name.erase(0, pytorch.size());
    return upstream.estimate(library);
  }

 private:
  /// The shape, if FlashAttention 2 takes it.
  static std::optional<AttentionShape> for_flash(const KernelQuery& query) {
    const auto size = [&](const char* key, double otherwise) {
      return static_cast<std::int64_t>(detail::feature(query, key, otherwise));
    };
    const auto type = detail::attribute(query, "type", "bf16");
    AttentionShape shape{.batch = size("b", 1),
                         .heads = size("h", 1),
                         .queries = size("s_q", 1),
                         .depth = size("d", 64),
                         .causal = detail::attribute(query, "causal", "0") == "1",
                         .type = type == "fp16" ? ElementType::fp16 : ElementType::bf16};
    shape.key_heads = size("h_kv", static_cast<double>(shape.heads));
    shape.keys = size("s_kv", static_cast<double>(shape.queries));
    const bool half = type == "fp16" || type == "bf16";
    const bool sized = std::min({shape.batch, shape.heads, shape.key_heads, shape.queries,
                                 shape.keys, shape.depth}) > 0;
    const bool masked = detail::attribute(query, "mask", "0") == "1";
    const bool takes = half && sized && shape.depth <= 256 && !masked &&
                       size("d_v", static_cast<double>(shape.depth)) == shape.depth;
    return takes ? std::optional{shape} : std::nullopt;
  }

  /// Kernels one after the other, and the gaps between them. The longest says by what it is priced
  /// and what holds it up.
  [[nodiscard]] std::optional<CostEstimate> sum(const std::vector<KernelQuery>& kernels) const {
    CostEstimate all;
    Duration longest{};
    double variance = 0.0, memory = 0.0, power = 0.0;
    for (const KernelQuery& kernel : kernels) {
      const auto one = upstream.estimate(kernel);
      if (!one) return std::nullopt;
      const double seconds = to_seconds(one->duration);
      all.duration += one->duration + (all.duration > Duration{} ? launch_gap : Duration{});
      variance += to_seconds(one->stddev) * to_seconds(one->stddev);
      memory += seconds * one->memory_share.value_or(0.0);
      power += seconds * one->power_share.value_or(0.0);
      if (one->duration <= longest) continue;
      longest = one->duration;
      all.source = one->source;
      all.limit = one->limit;
      all.demand = one->demand;
    }
    all.stddev = duration_from_seconds(std::sqrt(variance));
    all.memory_share = memory / to_seconds(all.duration);
    all.power_share = power / to_seconds(all.duration);
    return all;
  }
};

/// Launches whose way hangs on data, as it is with what of them is known.
struct WithData {
  KernelCostModel upstream;

  [[nodiscard]] std::optional<CostEstimate> estimate(const KernelQuery& query) const {
    if (query.by_data.empty()) return upstream.estimate(query);
    KernelQuery told = query;
    for (const auto& [name, value] : std::exchange(told.by_data, {})) {
      if (name == "bytes") {
        told.bytes = value;
      } else if (value > 0.0) {
        told.features[name] = value;
      } else {
        told.features.erase(name);
      }
    }
    return upstream.estimate(told);
  }
};

/// What is learnt of the first GPU's kernels, which stands in for others too.
FittedModel fitted_to_first(const GpuModel& target) {
  const std::string first{tables.front().name};
  // The GPU that ran them has them in a table of its own.
  FittedModel::Elsewhere elsewhere;
  if (target.key != lacking_ran_on)
    elsewhere = {gpu_model(std::string{lacking_ran_on}), read_table(lacking)};
  return {gpu_model(first), builtin_measurements(first), target, elsewhere};
}

KernelCostModel make_model(const GpuModel& gpu) {
  const std::string_view first = tables.front().name;
  std::vector<KernelCostModel> links;
  if (std::ranges::find(tables, gpu.key, &Table::name) != tables.end()) {
    std::vector<Measurement> rows = builtin_measurements(gpu.key);
    FittedModel fitted =
        gpu.key == first ? fitted_to_first(gpu) : FittedModel{gpu_model(gpu.key), rows, gpu};
    // A launch of which only the grid is known may have had any size: no exact hit can be told.
    // What the code tells leaves out where the operands were.
    std::erase_if(rows, [](const Measurement& row) {
      return detail::tells_code(row.query) ||
             (row.query.features.empty() && row.query.bytes <= 0.0);
    });
    links.emplace_back(MeasuredTable{std::move(rows), gpu});
    links.emplace_back(std::move(fitted));
  }
  if (gpu.key != first) links.emplace_back(fitted_to_first(gpu));
  links.emplace_back(Roofline{gpu});
  return WithData{with_cold_operands(PyTorchAttention{first_of(std::move(links)), gpu}, gpu)};
}

}  // namespace

const std::vector<Measurement>& builtin_measurements(std::string_view gpu) {
  const auto table = std::ranges::find(tables, gpu, &Table::name);
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
