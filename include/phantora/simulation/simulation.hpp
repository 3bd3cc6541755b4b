#pragma once

#include <phantora/cluster/cluster.hpp>
#include <phantora/collectives/communicator.hpp>
#include <phantora/kernels/builtin_cost_model.hpp>
#include <phantora/kernels/gpu_model.hpp>
#include <phantora/simulation/device_timing.hpp>
#include <phantora/simulation/observer.hpp>
#include <phantora/simulation/report.hpp>
#include <phantora/simulation/session.hpp>
#include <phantora/simulation/workload.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace phantora {

/// What a simulation assumes of GPUs and NCCL.
struct SimulationOptions {
  /// What kernels cost, asked once for each kind of GPU. Any function that makes a KernelCostModel
  /// of a GpuModel will do, such as one that puts prices of one's own before the library's:
  ///
  ///     .costs = [](const GpuModel& gpu) { return first_of(Mine{}, builtin_cost_model(gpu)); }
  GpuCosts costs = builtin_cost_model;
  /// What the GPUs are, where the cluster does not say (topologies::single_switch), or where their
  /// figures are changed.
  std::optional<GpuModel> gpu{};
  DeviceTiming timing{};  ///< of every GPU
  NcclVariables nccl{};   ///< of every rank, as environment variables ("NCCL_ALGO")
};

/// Runs workloads on a cluster, in virtual time.
///
///     const Simulation simulation{parse_cluster("h200:16x8")};
///     const Report report = simulation.run(workload);
///
/// A rank of a workload runs on a GPU of its own; hosts issue as fast as their host() and
/// synchronize() let them. Equal workloads have equal reports, to the bit. Thread-safe: any number
/// of threads may run workloads on one simulation, which prices each kernel once. Copies share it.
///
/// A workload is checked before it runs: its ranks and groups, that those who meet in a collective
/// or a message say the same, that every kernel has a price on the GPU that runs it. What is wrong
/// is told by an Error that names rank and operation. So is one that comes to a standstill because
/// ranks wait for one another in a circle.
class Simulation {
 public:
  /// @throws ConfigError as the constructors of Session do.
  explicit Simulation(Cluster cluster, SimulationOptions options = {});

  /// Runs a workload alone.
  /// @param gpus  of each rank, distinct; empty: the cluster's first ones.
  /// @param observers  are told of the run's spans while it runs.
  /// @throws ConfigError, CostError  if the workload cannot run here.
  /// @throws Error  if its ranks wait for one another for ever.
  [[nodiscard]] Report run(const Workload& workload, std::span<const GpuIndex> gpus = {},
                           std::span<SessionObserver* const> observers = {}) const;
  /// Runs each workload alone, several at a time.
  /// @param threads  0: as many as there are processors.
  /// @return the reports in the order of the workloads.
  /// @throws what run() throws, for the first workload that cannot run.
  [[nodiscard]] std::vector<Report> run_all(std::span<const Workload> workloads,
                                            unsigned threads = 0) const;

  /// What each link carries of a workload, most loaded for its bandwidth first. Links without load
  /// are left out. As if every link were up.
  /// @throws as run().
  [[nodiscard]] std::vector<LinkLoad> link_loads(const Workload& workload,
                                                 std::span<const GpuIndex> gpus = {}) const;

  /// What workloads run on.
  [[nodiscard]] const Cluster& cluster() const noexcept;

 private:
  friend class Jobs;
  class Impl;
  std::shared_ptr<const Impl> impl_;
};

/// A job of a Jobs.
using JobId = Id<struct JobTag>;

/// Jobs that come one after the other and share a cluster: its fabric, and its GPUs in turn.
///
///     Jobs jobs{simulation};
///     const JobId first = jobs.add(workload, {0, 1, 2, 3});
///     while (const auto ended = jobs.next()) ... jobs.add(another, jobs.report(*ended).gpus);
///
/// Not thread-safe; distinct instances are independent.
class Jobs {
 public:
  /// None yet, at the instant 0.
  explicit Jobs(const Simulation& simulation);
  Jobs(Jobs&&) noexcept;
  Jobs& operator=(Jobs&&) noexcept;
  ~Jobs();

  /// A job begins.
  /// @param gpus  of each rank; no job that next() has not returned may have one of them.
  /// @param start  now() or later; nothing: now().
  /// @throws ArgumentError, and what Simulation::run() throws of a workload that cannot run.
  JobId add(const Workload& workload, std::span<const GpuIndex> gpus,
            std::optional<Time> start = {});
  /// Goes on until a job ends, or until an instant. Jobs that end together come in the order in
  /// which they were added.
  /// @return the job; nothing if none ends until then.
  /// @throws Error  if jobs wait for ever.
  std::optional<JobId> next(Time until = never);
  /// The end of the job that next() returned last, or the instant that it was to go to.
  [[nodiscard]] Time now() const noexcept;
  /// What a job did that next() has returned. Times count from the start of the simulation.
  /// @throws ArgumentError if it has not ended.
  [[nodiscard]] const Report& report(JobId job) const;
  /// GPUs that no job has which has not been returned, in order.
  [[nodiscard]] std::vector<GpuIndex> free_gpus() const;
  /// Tells the observer of every job's spans from now on, until the subscription ends.
  [[nodiscard]] Subscription subscribe(SessionObserver& observer);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace phantora
