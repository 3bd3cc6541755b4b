#pragma once

#include <phantora/cluster/cluster.hpp>
#include <phantora/kernels/kernel_cost_model.hpp>
#include <phantora/simulation/observer.hpp>
#include <phantora/simulation/report.hpp>
#include <phantora/simulation/steps.hpp>
#include <phantora/units.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace phantora {

class Session;
class StepObserver;

/// GPUs of one model with the same memory.
struct GpuKind {
  std::string model{};  ///< a key of gpu_model()
  Bytes memory{};       ///< of each GPU
  bool operator==(const GpuKind&) const = default;
};

/// What one GPU of a session did.
struct GpuReport {
  std::string host{};    ///< its name
  std::size_t kind = 0;  ///< in SessionReport::kinds
  Steps steps{};         ///< that its work shows
  StepParts parts{};     ///< of a typical one of them
  GpuUse use{};          ///< what it was busy with
};

/// Kernels of one name.
struct NamedKernel {
  std::string name{};       ///< as the cost model is asked for it
  std::uint64_t count = 0;  ///< over all GPUs
  Duration total{};         ///< over all GPUs
  CostSource source{};      ///< of its price
  Duration by_grid{};       ///< of launches that nothing but their grid priced
  Duration deviation{};     ///< StepObserver::KernelTotal::deviation
};

/// What a Session's GPUs did for programs that issued their work to it, or for a workload. (A
/// workload's Report says more: it knows what its operations are.)
struct SessionReport {
  Time makespan{};                     ///< end of the last span
  std::uint64_t late_operations = 0;   ///< Session::late_operations()
  std::vector<GpuKind> kinds{};        ///< in the order of their GPUs; one where all are alike
  std::vector<GpuReport> gpus{};       ///< by GpuIndex
  std::vector<NamedKernel> kernels{};  ///< longest first, equal ones by name

  /// Kernel time of all GPUs, by CostSource.
  [[nodiscard]] std::array<Duration, cost_sources> kernel_time() const;
  /// The GPU with the most steps, of those the first; nullptr where none has any.
  [[nodiscard]] const GpuReport* most_steps() const;
  /// Of what the kernels' total time is; 0 where there is none.
  [[nodiscard]] double share_of_kernels(Duration part) const;
};

/// What the session did so far.
/// @param observed  has been told of all that the session did.
SessionReport session_report(const Cluster& cluster, const Session& session,
                             const StepObserver& observed);
/// The same of a workload that was run, with a rank's GPU in each place of `gpus`.
/// @param observed  has been told of the run.
SessionReport session_report(const Cluster& cluster, const Report& report,
                             const StepObserver& observed);

}  // namespace phantora
