#pragma once

#include <phantora/simulation/observer.hpp>
#include <phantora/simulation/steps.hpp>
#include <phantora/units.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace phantora {

/// Notes the order of every GPU's kernels, from which the steps are found, and their total times.
/// For programs that mark no steps: a Workload may mark its own.
///
///     StepObserver observed;
///     const Subscription told = session.subscribe(observed);
///     ...
///     observed.steps(0).median()
///
/// Spans of communication end no steps.
class StepObserver final : public SessionObserver {
 public:
  /// @param marker  what ends a step: a part of the name of a range or a kernel, "optimizer", or
  ///   empty where the order of the work has to tell.
  explicit StepObserver(std::string marker = {});
  /// Told by the session.
  void on_span(const Span& span) override;
  /// The same. A range that bears the marker's name ends a step of its process where it ends.
  void on_range(const NamedRange& range) override;
  /// The steps of the GPU: where its program said so; else by its stream with the most that ends
  /// steps, or else with the most work.
  [[nodiscard]] Steps steps(GpuIndex gpu) const;
  /// What the GPU did in the typical ones of these steps of it.
  [[nodiscard]] StepParts parts(GpuIndex gpu, const Steps& steps) const;
  /// How long a step takes: the median over GPUs, such as Report::gpus, of the median of each;
  /// nothing where no work repeats.
  [[nodiscard]] std::optional<Duration> step(std::span<const GpuIndex> gpus) const;
  /// When the last span of any GPU ended.
  [[nodiscard]] Time makespan() const noexcept { return makespan_; }
  /// Kernel time by name, over all GPUs.
  struct KernelTotal {
    std::uint64_t count = 0;  ///< launches
    Duration total{};         ///< over all launches
    CostSource source{};      ///< of the last price
    Duration by_grid{};       ///< of those that nothing but their grid priced
    /// One standard deviation of the total: what prices of one name are off by, they are off by
    /// alike, since the same measurements stand behind them.
    Duration deviation{};
  };
  /// By name.
  [[nodiscard]] const std::map<std::string, KernelTotal, std::less<>>& kernels() const noexcept {
    return kernels_;
  }

 private:
  struct Stretch {
    Time start{}, end{};
  };
  struct Known {
    KernelTotal* total = nullptr;
    StepRole role{};
  };
  struct Stream {
    std::vector<WorkItem> work;
    ProcessIndex process = 0;
    Duration busy{};
    std::size_t ends = 0;  ///< items that end steps
  };
  Known know(const Span& span);
  /// How much of `windows` the stretches cover; the windows come in order and do not overlap.
  static Duration covered(std::vector<Stretch> stretches, std::span<const Stretch> windows);

  std::string marker_;
  std::map<GpuIndex, std::map<StreamId, Stream>> streams_{};
  std::map<GpuIndex, std::vector<Stretch>> communication_{};
  std::map<ProcessIndex, std::vector<Time>> marks_{};
  std::map<std::string, KernelTotal, std::less<>> kernels_{};
  std::unordered_map<std::uint64_t, Known> known_{};  ///< by identity: names are long
  Time makespan_{};
};

}  // namespace phantora
