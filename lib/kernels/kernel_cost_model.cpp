#include <phantora/kernels/kernel_cost_model.hpp>

#include <algorithm>

namespace phantora {

std::string_view to_string(CostSource source) noexcept {
  switch (source) {
    case CostSource::measured:
      return "measured";
    case CostSource::fitted:
      return "fitted";
    case CostSource::roofline:
      return "roofline";
    case CostSource::code:
      return "code";
    case CostSource::grid:
      return "grid";
    case CostSource::database:
      return "database";
    case CostSource::unknown:
      break;
  }
  return "unknown";
}

std::string_view to_string(Arithmetic arithmetic) noexcept {
  switch (arithmetic) {
    case Arithmetic::fp8:
      return "fp8";
    case Arithmetic::half:
      return "half";
    case Arithmetic::tf32:
      return "tf32";
    case Arithmetic::fp32:
      return "fp32";
    case Arithmetic::fp64:
      return "fp64";
    case Arithmetic::int8:
      return "int8";
    case Arithmetic::none:
      break;
  }
  return "none";
}

namespace {

struct FirstOf {
  std::vector<KernelCostModel> links;
  [[nodiscard]] std::optional<CostEstimate> estimate(const KernelQuery& query) const {
    for (const KernelCostModel& link : links) {
      if (auto found = link.estimate(query)) return found;
    }
    return std::nullopt;
  }
};

struct Scaled {
  KernelCostModel upstream;
  double factor;
  [[nodiscard]] std::optional<CostEstimate> estimate(const KernelQuery& query) const {
    auto found = upstream.estimate(query);
    if (found) {
      found->duration = duration_from_seconds(to_seconds(found->duration) * factor);
      found->stddev = duration_from_seconds(to_seconds(found->stddev) * factor);
      if (found->memory_share) found->memory_share = std::min(1.0, *found->memory_share / factor);
      if (found->power_share) *found->power_share /= factor;
    }
    return found;
  }
};

}  // namespace

KernelCostModel first_of(std::vector<KernelCostModel> links) { return FirstOf{std::move(links)}; }

KernelCostModel scale(KernelCostModel model, double factor) {
  return Scaled{std::move(model), factor};
}

}  // namespace phantora
