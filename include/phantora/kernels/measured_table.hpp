#pragma once

#include <phantora/kernels/gpu_model.hpp>
#include <phantora/kernels/kernel_data.hpp>

#include <memory>
#include <optional>
#include <vector>

namespace phantora {

/// Answers the very queries that were measured, with the spread that their rows tell.
///
/// A query matches a row with the same name, grid, block, features and attributes; and the same
/// bytes, unless the row does not know them. Shared memory is not compared: profilers count static
/// memory too, launches do not.
///
/// Immutable; copies share one table.
class MeasuredTable {
 public:
  /// Of several rows with one key, the last counts.
  /// @param measured_on  if told, the estimates say what a kernel takes of that GPU.
  /// @param source  of the estimates.
  explicit MeasuredTable(std::vector<Measurement> rows,
                         std::optional<GpuModel> measured_on = std::nullopt,
                         CostSource source = CostSource::measured);

  /// The mean of the query's measurements; nothing if there are none.
  [[nodiscard]] std::optional<CostEstimate> estimate(const KernelQuery& query) const;

 private:
  struct Body;
  std::shared_ptr<const Body> body_;
};

}  // namespace phantora
