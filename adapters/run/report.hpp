#pragma once

#include "run/engine.hpp"

#include <phantora/simulation/host_sensitivity.hpp>
#include <phantora/simulation/report.hpp>
#include <phantora/simulation/session_report.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// What a run, or the replay of one, says at its end: a table for people, JSON for programs, from
/// which it can be read again.
namespace phantora::run {

/// In the order in which tables have them.
inline constexpr std::array shown_sources = {
    CostSource::database, CostSource::measured, CostSource::fitted, CostSource::roofline,
    CostSource::code,     CostSource::grid,     CostSource::unknown};

struct RunFacts {
  std::string cluster{};
  std::string record{};  ///< that was replayed; empty: programs ran
  std::string widen{};   ///< of a replay: by how much
  std::vector<std::string> command{};
  std::string host_time{};
  std::optional<double> host_scale{};  ///< nothing: measured as it ran
  std::string host{};                  ///< on which the job was simulated; empty: host time is off
  /// Of what was recorded, beside its own step: a long run's record has only its beginning. A
  /// Report has it beside its step. Or:
  std::optional<HostSensitivity> sensitivity{};
  std::string no_sensitivity{};  ///< why not
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
  /// @param peak_memory  of each GPU, in bytes.
  Report(RunFacts facts, SessionReport simulated, RunCounters counters,
         std::vector<std::uint64_t> peak_memory);
  /// Of a replay, with what a workload's report says besides.
  Report(RunFacts facts, SessionReport simulated, phantora::Report workload);
  /// What to_json() wrote. All but what is on the links of a replay is as it was.
  /// @param source  what errors call the text, such as its path.
  /// @throws ConfigError that names the source and the field, and what was expected there.
  static Report parse(std::string_view json, std::string_view source);
  /// The same of a file. @throws ConfigError
  static Report read(const std::string& path);

  /// @param wall_seconds  that it took; nothing: not told.
  void print(std::ostream& out, std::optional<double> wall_seconds) const;
  [[nodiscard]] std::string to_json() const;
  /// @throws Error if `path` cannot be written.
  void write(const std::string& path) const;

  [[nodiscard]] const RunFacts& facts() const noexcept { return facts_; }
  [[nodiscard]] const SessionReport& simulated() const noexcept { return simulated_; }
  [[nodiscard]] const std::vector<std::uint64_t>& peak_memory() const noexcept {
    return peak_memory_;
  }
  [[nodiscard]] const GpuKind& kind_of(GpuIndex gpu) const {
    return simulated_.kinds[simulated_.gpus[gpu].kind];
  }
  /// Of all models, in the order of their ranks.
  [[nodiscard]] std::string gpu_names() const;
  /// The typical step's, over the GPUs that have any.
  [[nodiscard]] std::optional<Duration> step() const;

 private:
  /// Launches of which no code tells, whose price is that of their grid.
  struct Unread {
    std::uint64_t launches = 0;
    Duration total{};
    std::vector<std::pair<std::string, Duration>> longest{};  ///< by name
  };
  [[nodiscard]] std::optional<Unread> unread() const;
  void print_steps(std::ostream& out) const;
  void print_host(std::ostream& out) const;
  void print_doubts(std::ostream& out) const;

  RunFacts facts_;
  SessionReport simulated_;
  RunCounters counters_{};
  std::vector<std::uint64_t> peak_memory_{};    ///< of each GPU
  std::optional<phantora::Report> workload_{};  ///< of a replay
};

}  // namespace phantora::run
