#pragma once

#include "run/engine.hpp"

#include <phantora/simulation/session.hpp>
#include <phantora/simulation/step_observer.hpp>
#include <phantora/simulation/steps.hpp>

#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

/// What a run says at its end: a table for people, JSON for programs.
namespace phantora::run {

struct RunFacts {
  std::string cluster;
  std::vector<std::string> command;
  std::string host_time;
  std::optional<double> host_scale{};  ///< nothing: measured as it ran
  std::string step_marker{};
  int status = 0;
  /// What ended the run before its ranks came to their ends by themselves; empty if nothing did.
  std::string cut_short{};
  /// Absent where the report must be equal in every run (host time off or fixed).
  std::optional<double> wall_seconds{};
};

class Report {
 public:
  Report(RunFacts facts, const Cluster& cluster, const Session& session, const Engine& engine,
         const StepObserver& observed);
  void print(std::ostream& out, double wall_seconds) const;
  /// @throws Error if `path` cannot be written.
  void write(const std::string& path) const;

 private:
  /// Kernels whose parameters nobody understood.
  struct Unread {
    std::uint64_t launches = 0;
    Duration total{}, all{};  ///< time of those that the ranks named; of all kernels
    std::vector<std::pair<std::string, Duration>> longest{};
  };
  [[nodiscard]] std::optional<Unread> unread() const;
  /// GPUs of one model with the same memory.
  struct Kind {
    std::string name;
    Bytes memory{};
    bool operator==(const Kind&) const = default;
  };
  [[nodiscard]] std::string gpu_names() const;
  void print_steps(std::ostream& out) const;
  void print_doubts(std::ostream& out) const;

  struct Gpu {
    int rank = 0;
    std::string host;
    std::size_t kind = 0;  ///< in kinds_
    Steps steps;
    GpuUse use;
    std::uint64_t peak_memory = 0;
  };
  RunFacts facts_;
  std::vector<Kind> kinds_{};  ///< in the order of their ranks; one where all GPUs are alike
  Time makespan_{};
  RunCounters counters_;
  std::uint64_t late_operations_ = 0;
  std::vector<Gpu> gpus_{};
  std::map<std::string, StepObserver::KernelTotal, std::less<>> kernels_;
};

}  // namespace phantora::run
