#pragma once

#include <phantora/kernels/gpu_model.hpp>
#include <phantora/kernels/kernel_data.hpp>

#include <memory>
#include <optional>
#include <vector>

namespace phantora {

/// Predicts a kernel's time from measured kernels like it.
///
/// The roofline gives a first answer; the logarithm of what kernels really took over it, their
/// inefficiency, is smooth in the kernel's coordinates, and is interpolated over the nearest
/// measured kernels of the same group by Gaussian-process regression (kriging). That also tells the
/// error: it grows with the distance to what was measured, and there the answer falls back to the
/// roofline times the neighbours' mean inefficiency.
///
/// Immutable; copies share one model. An estimate costs about 20 us.
class FittedModel {
 public:
  /// Kernels that nobody measured on the GPU that the model is about, but on another.
  struct Elsewhere {
    GpuModel gpu;                   ///< that ran them
    std::vector<Measurement> data;  ///< what they took there
  };

  /// @param measured_on  the GPU that made `data`.
  /// @param target       the GPU to predict for. If it is another one, what the measured GPU would
  ///     take is taken to it (Roofline::on), and the source of every estimate is
  ///     CostSource::roofline.
  /// @param elsewhere    counts as if it had been measured on that GPU, which it is taken to, but
  ///     deviates as much as such predictions do.
  FittedModel(const GpuModel& measured_on, const std::vector<Measurement>& data,
              const GpuModel& target, const Elsewhere& elsewhere = {});

  /// nullopt if nothing of the kernel's group was measured.
  /// @throws CostError as check() does.
  [[nodiscard]] std::optional<CostEstimate> estimate(const KernelQuery& query) const;

 private:
  struct Body;
  std::shared_ptr<const Body> body_;
};

}  // namespace phantora
