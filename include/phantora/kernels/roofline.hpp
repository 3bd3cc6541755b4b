#pragma once

#include <phantora/kernels/gpu_model.hpp>
#include <phantora/kernels/kernel_cost_model.hpp>
#include <phantora/kernels/kernel_work.hpp>

#include <optional>

namespace phantora {

/// Of the units that do such arithmetic; 0 where the GPU has none. Of the tensor cores' dense peak
/// an older instruction reaches a part on Hopper and on Blackwell's data centre GPUs.
FlopRate peak_rate(const GpuModel& gpu, Arithmetic arithmetic,
                   TensorInstruction instruction = TensorInstruction::newest);

/// Whether tensor cores do such arithmetic.
bool on_tensor_cores(Arithmetic arithmetic) noexcept;

/// Bounds a kernel's time from the GPU's peak rates: the least time for its arithmetic, in whole
/// waves of tiles over the SMs, or for its bytes, plus the floor of any kernel.
///
/// Answers every query that check() lets pass, and never with zero.
///
/// @note Approximation: arithmetic and memory traffic overlap perfectly; what a kernel loses
/// beyond the common efficiencies is for FittedModel to learn.
class Roofline {
 public:
  /// @param gpu  whose peaks bound a kernel.
  explicit Roofline(GpuModel gpu);

  /// Seconds, > 0. Expects that the GPU has units for the work's arithmetic.
  [[nodiscard]] double seconds(const KernelWork& work) const;
  /// What another GPU takes for work that took this one `seconds`.
  [[nodiscard]] double on(const Roofline& other, const KernelWork& work, double seconds) const;
  /// @throws CostError as check() does.
  [[nodiscard]] std::optional<CostEstimate> estimate(const KernelQuery& query) const;
  /// Whose peaks bound a kernel.
  [[nodiscard]] const GpuModel& gpu() const noexcept { return gpu_; }

 private:
  [[nodiscard]] CostEstimate code_estimate(const KernelQuery& query, const KernelWork& work) const;
  [[nodiscard]] double transfer_seconds(const KernelWork& work) const;
  [[nodiscard]] double l2_hits(double bytes) const;
  [[nodiscard]] double memory_seconds(const KernelWork& work) const;
  [[nodiscard]] double product_seconds(const KernelWork& work) const;
  [[nodiscard]] double conversion_time(const KernelWork& work) const;

  GpuModel gpu_;
};

}  // namespace phantora
