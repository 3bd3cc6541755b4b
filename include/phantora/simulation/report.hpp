#pragma once

#include <phantora/collectives/operation.hpp>
#include <phantora/ids.hpp>
#include <phantora/kernels/kernel_cost_model.hpp>
#include <phantora/simulation/observer.hpp>
#include <phantora/units.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// What a simulation says of a workload that it ran.
namespace phantora {

/// Kernel time by where its prices come from, with its error bar.
struct KernelTime {
  Duration total{};                                ///< of all launches
  std::array<Duration, cost_sources> by_source{};  ///< by CostSource
  /// One standard deviation of the total. What a kernel's price is off by, it is off by each time
  /// that it runs; those of different kernels are taken to be independent.
  Duration deviation{};
  std::uint64_t kernels = 0;  ///< launches
};

/// A rank's time: computing + exposed + waiting + idle is the makespan.
struct RankReport {
  Time end{};            ///< when its host and all its streams have
  Duration computing{};  ///< kernels or copies ran
  Duration exposed{};    ///< none did, and a communication moved data
  Duration waiting{};  ///< neither, and a communication waited for other ranks: pipelines' bubbles
  Duration idle{};     ///< nothing was on the GPU
  Duration communicating{};  ///< a communication moved data, whatever else ran
  KernelTime kernels{};      ///< that it ran
  /// What its GPU was busy with meanwhile, as a session counts: a communication from when its rank
  /// is there.
  GpuUse use{};
  Bytes peak_memory{};  ///< of what the workload allocates, with what a process has before that
  Bytes memory{};       ///< of the GPU
  /// Whether its GPU has as much memory.
  [[nodiscard]] bool fits() const noexcept { return peak_memory <= memory; }
};

/// What a part of the critical path is.
enum class PathKind : std::uint8_t {
  kernel,
  communication,
  host,      ///< Workload::host()
  launch,    ///< from a call to the start of what it launches, and between kernels of a stream
  queueing,  ///< something was ready, and had to wait for SMs of its GPU
};
/// The kind in words: "communication".
std::string_view to_string(PathKind kind) noexcept;

/// Alike operations on the critical path.
struct PathPart {
  PathKind kind{};          ///< what they are
  std::string name{};       ///< of the kernel; of a communication: what, how large, by how many
  std::uint64_t count = 0;  ///< how many
  /// How much they are of the time: the job would be shorter by no more than that if they were
  /// free.
  Duration time{};
  /// The link that would hold a communication if it were alone.
  std::optional<LinkId> link{};
};

/// What a link carries.
struct LinkLoad {
  LinkId link{};  ///< which
  Bytes bytes{};  ///< over all of the workload
  /// How long its bandwidth takes for them.
  Duration time{};
};

/// Times count from the start of the simulation. Equal runs have equal reports.
struct Report {
  Time start{};  ///< of the job
  /// From the start to the end of the last rank.
  Duration makespan{};
  /// One standard deviation of the makespan, as KernelTime::deviation, by the kernels on the
  /// critical path.
  Duration deviation{};
  std::vector<GpuIndex> gpus{};     ///< of each rank
  std::vector<RankReport> ranks{};  ///< by number
  /// Ends of the steps that the workload marks: when the last rank's did.
  std::vector<Time> steps{};
  /// What the makespan consists of, longest first: the chain of operations each of which began as
  /// soon as the one before it had ended. Their times add up to the makespan.
  std::vector<PathPart> critical_path{};

  /// When the last rank has ended.
  [[nodiscard]] Time end() const noexcept { return start + makespan; }
  /// Median length of the steps without the first, which warms up; of one step, its length; the
  /// makespan where the workload marks none.
  [[nodiscard]] Duration step() const;
  /// Greatest peak of a rank's memory.
  [[nodiscard]] Bytes peak_memory() const noexcept;
  /// Whether every rank's GPU has as much memory.
  [[nodiscard]] bool fits() const noexcept;
  /// Kernel time of all ranks together.
  [[nodiscard]] KernelTime kernels() const;
  /// @{ Mean over the ranks of what RankReport calls so.
  [[nodiscard]] Duration computing() const { return mean(&RankReport::computing); }
  [[nodiscard]] Duration exposed() const { return mean(&RankReport::exposed); }
  [[nodiscard]] Duration waiting() const { return mean(&RankReport::waiting); }
  [[nodiscard]] Duration idle() const { return mean(&RankReport::idle); }
  /// @}

 private:
  [[nodiscard]] Duration mean(Duration RankReport::*of) const;
};

}  // namespace phantora
