#pragma once

#include "run/engine.hpp"

#include <phantora/session.hpp>
#include <phantora/steps.hpp>

#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

/// What a run says at its end: a table for people, JSON for programs.
namespace phantora::run {

/// Notes the order of every rank's kernels, from which the steps are found.
class StepObserver final : public SessionObserver {
 public:
  void on_span(const Span& span) override;
  /// The steps of the GPU's busiest stream.
  [[nodiscard]] Steps steps(GpuIndex gpu) const;
  /// When the last span of any GPU ended.
  [[nodiscard]] Time makespan() const noexcept { return makespan_; }
  /// Kernel time by name, over all GPUs.
  struct KernelTotal {
    std::uint64_t count = 0;
    Duration total{};
    CostSource source{};
  };
  [[nodiscard]] const std::map<std::string, KernelTotal, std::less<>>& kernels() const noexcept {
    return kernels_;
  }

 private:
  std::map<GpuIndex, std::map<StreamId, std::vector<WorkItem>>> work_{};
  std::map<std::string, KernelTotal, std::less<>> kernels_{};
  Time makespan_{};
};

struct RunFacts {
  std::string cluster;
  std::vector<std::string> command;
  std::string host_time;
  std::optional<double> host_scale{};  ///< nothing: measured as it ran
  std::string sync;
  int status = 0;
  /// Absent where the report must be equal in every run (host time off or fixed).
  std::optional<double> wall_seconds{};
};

class Report {
 public:
  Report(RunFacts facts, const Cluster& cluster, const GpuModel& gpu, const Session& session,
         const Engine& engine, const StepObserver& observed);
  void print(std::ostream& out, double wall_seconds) const;
  /// @throws Error if `path` cannot be written.
  void write(const std::string& path) const;

 private:
  struct Gpu {
    int rank = 0;
    std::string host;
    Steps steps;
    GpuUse use;
    std::uint64_t peak_memory = 0;
  };
  RunFacts facts_;
  GpuModel model_;
  Time makespan_{};
  RunCounters counters_;
  std::vector<Gpu> gpus_{};
  std::map<std::string, StepObserver::KernelTotal, std::less<>> kernels_;
};

}  // namespace phantora::run
