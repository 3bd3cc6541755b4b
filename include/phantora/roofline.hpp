#pragma once

#include <phantora/gpu_model.hpp>
#include <phantora/kernel_cost_model.hpp>
#include <phantora/kernel_work.hpp>

#include <optional>

namespace phantora {

/// Bounds a kernel's time from the GPU's peak rates: the least time for its arithmetic, in whole
/// waves of tiles over the SMs, or for its bytes, plus the floor of any kernel.
///
/// Answers every query, and never with zero.
///
/// @note Approximation: arithmetic and memory traffic overlap perfectly; what a kernel loses
/// beyond the common efficiencies is for FittedModel to learn.
class Roofline {
 public:
  explicit Roofline(GpuModel gpu);

  /// Seconds, > 0.
  [[nodiscard]] double seconds(const KernelWork& work) const;
  [[nodiscard]] std::optional<CostEstimate> estimate(const KernelQuery& query) const;
  [[nodiscard]] const GpuModel& gpu() const noexcept { return gpu_; }

 private:
  [[nodiscard]] double transfer_seconds(const KernelWork& work) const;
  [[nodiscard]] double product_seconds(const KernelWork& work) const;

  GpuModel gpu_;
};

}  // namespace phantora
