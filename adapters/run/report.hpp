#pragma once

#include "run/engine.hpp"

#include <phantora/simulation/host_sensitivity.hpp>
#include <phantora/simulation/report.hpp>
#include <phantora/simulation/session_report.hpp>

#include <optional>
#include <ostream>
#include <string>
#include <vector>

/// What a run, or the replay of one, says at its end: a table for people, JSON for programs.
namespace phantora::run {

struct RunFacts {
  std::string cluster{};
  std::string record{};  ///< that was replayed; empty: programs ran
  std::string widen{};   ///< of a replay: by how much
  std::vector<std::string> command{};
  std::string host_time{};
  std::optional<double> host_scale{};  ///< nothing: measured as it ran
  std::string host{};                  ///< on which the job was simulated; empty: host time is off
  std::optional<HostSensitivity> sensitivity{};  ///< of what was recorded, or
  std::string no_sensitivity{};                  ///< why not
  std::string step_marker{};
  std::string routing{};  ///< as --routing says it
  int status = 0;
  /// What ended the run before its ranks came to their ends by themselves; empty if nothing did.
  std::string cut_short{};
  /// Absent where the report must be equal in every run (host time off or fixed).
  std::optional<double> wall_seconds{};
};

class Report {
 public:
  Report(RunFacts facts, SessionReport simulated, const Engine& engine);
  /// Of a replay, with what a workload's report says besides.
  Report(RunFacts facts, SessionReport simulated, phantora::Report workload);
  void print(std::ostream& out, double wall_seconds) const;
  /// @throws Error if `path` cannot be written.
  void write(const std::string& path) const;

 private:
  /// Launches of which no code tells, whose price is that of their grid.
  struct Unread {
    std::uint64_t launches = 0;
    Duration total{};
    std::vector<std::pair<std::string, Duration>> longest{};  ///< by name
  };
  [[nodiscard]] std::optional<Unread> unread() const;
  [[nodiscard]] std::string gpu_names() const;
  void print_steps(std::ostream& out) const;
  /// The typical step's, over the GPUs that have any.
  [[nodiscard]] std::optional<Duration> step() const;
  void print_host(std::ostream& out) const;
  void print_doubts(std::ostream& out) const;

  RunFacts facts_;
  SessionReport simulated_;
  RunCounters counters_{};
  std::vector<std::uint64_t> peak_memory_{};    ///< of each GPU
  std::optional<phantora::Report> workload_{};  ///< of a replay
};

}  // namespace phantora::run
