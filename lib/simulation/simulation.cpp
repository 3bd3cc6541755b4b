#include "simulation/execution.hpp"
#include "simulation/report.hpp"
#include "simulation/workload_form.hpp"

#include <phantora/error.hpp>
#include <phantora/simulation/simulation.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>
#include <tuple>
#include <utility>

namespace phantora {

using detail::Execution;
using detail::JobRecord;
using detail::Meetings;
using detail::named;

/// A cluster, its kinds of GPUs, and what kernels have been found to cost on them.
class Simulation::Impl {
 public:
  Impl(Cluster cluster, SimulationOptions options)
      : cluster_{std::move(cluster)},
        options_{std::move(options)},
        view_{cluster_.topology.view()} {
    if (options_.gpu || cluster_.hosts.empty()) {
      if (!options_.gpu)
        throw ConfigError{
            "cluster " + cluster_.name +
            " has no hosts that say what its GPUs are: SimulationOptions::gpu has to"};
      add_kind(*options_.gpu);
      kinds_.assign(cluster_.gpus.size(), 0);
    } else {
      for (const NodeId gpu : cluster_.gpus) {
        const GpuModel model = gpu_model(cluster_.host_of(gpu));
        const auto known = std::find(models_.begin(), models_.end(), model);
        kinds_.push_back(static_cast<std::size_t>(known - models_.begin()));
        if (known == models_.end()) add_kind(model);
      }
    }
    // What cannot be is told now.
    if (!costs_.empty()) (void)session(costs_.front());
  }

  [[nodiscard]] const Cluster& cluster() const noexcept { return cluster_; }
  [[nodiscard]] const std::vector<GpuModel>& models() const noexcept { return models_; }
  [[nodiscard]] const DeviceTiming& timing() const noexcept { return options_.timing; }

  [[nodiscard]] Session session(const KernelCostModel& costs) const {
    if (options_.gpu) return {cluster_, *options_.gpu, costs, options_.timing, options_.nccl};
    return {cluster_, [&](const GpuModel&) { return costs; }, options_.timing, options_.nccl};
  }

  /// A workload that is checked and may begin.
  [[nodiscard]] JobRecord job(std::shared_ptr<const Workload> workload,
                              std::span<const GpuIndex> gpus) const {
    JobRecord job;
    job.gpus.assign(gpus.begin(), gpus.end());
    const std::size_t ranks = workload->rank_count();
    if (gpus.empty()) {
      job.gpus.resize(std::min(ranks, cluster_.gpus.size()));
      std::iota(job.gpus.begin(), job.gpus.end(), GpuIndex{0});
    }
    check_gpus(job.gpus, ranks);
    for (const GpuIndex gpu : job.gpus) job.kinds.push_back(kinds_[gpu]);
    job.meetings = std::make_shared<const Meetings>(*workload);
    job.threads =
        std::make_shared<const std::vector<detail::RankThreads>>(detail::threads_of(*workload));
    job.prices.resize(models_.size());
    for (auto& prices : job.prices) prices.resize(workload->kernels().size());
    for (Rank rank = 0; rank < ranks; ++rank) {
      const auto operations = workload->operations(rank);
      auto& prices = job.prices[job.kinds[rank]];
      for (std::size_t i = 0; i < operations.size(); ++i) {
        const auto* launch = std::get_if<Workload::Launch>(&operations[i]);
        if (launch == nullptr || prices[launch->kernel]) continue;
        try {
          prices[launch->kernel] = price(workload->kernels()[launch->kernel], job.kinds[rank]);
        } catch (const CostError& error) {
          throw CostError{named(*workload, rank, i) + ": " + error.what()};
        }
      }
    }
    job.workload = std::move(workload);
    return job;
  }

  [[nodiscard]] Report report(const JobRecord& job) const {
    std::map<std::uint32_t, Communicator> communicators;
    return detail::report_of(
        job, models_, options_.timing, [&](const Workload::Operation& operation) {
          std::optional<LinkId> slowest;
          Duration longest{};
          add_loads(job, operation, {}, communicators, [&](LinkId link, double bytes) {
            const Duration time = time_on(link, bytes);
            if (time <= longest) return;
            longest = time;
            slowest = link;
          });
          return slowest;
        });
  }

  [[nodiscard]] std::vector<LinkLoad> link_loads(const JobRecord& job) const {
    std::map<std::uint32_t, Communicator> communicators;
    std::vector<double> bytes(view_.link_count());
    // Alike operations load the same links: how many there are, of a collective once for all its
    // ranks, of messages by who sends them.
    struct Alike {
      const Workload::Operation* operation = nullptr;
      std::optional<Rank> sender{};
      double count = 0;
    };
    std::map<std::tuple<std::uint32_t, std::optional<Rank>, bool>, Alike> alike;
    for (Rank rank = 0; rank < job.gpus.size(); ++rank) {
      for (const Workload::Operation& operation : job.workload->operations(rank)) {
        const auto* collective = std::get_if<Workload::Collective>(&operation);
        const auto* exchange = std::get_if<Workload::Exchange>(&operation);
        if (exchange != nullptr) {
          Alike& it = alike[{exchange->messages, rank, false}];
          it = {&operation, rank, it.count + 1};
        } else if (collective != nullptr &&
                   job.workload->groups()[job.workload->calls()[collective->call].group].front() ==
                       rank) {
          Alike& it = alike[{collective->call, std::nullopt, true}];
          it = {&operation, std::nullopt, it.count + 1};
        }
      }
    }
    for (const auto& [_, it] : alike) {
      const double count = it.count;
      add_loads(job, *it.operation, it.sender, communicators,
                [&](LinkId link, double one) { bytes[link.value] += one * count; });
    }
    std::vector<LinkLoad> loads;
    for (std::uint32_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] <= 0) continue;
      const LinkId link{i};
      loads.push_back({link, Bytes{static_cast<std::int64_t>(std::llround(bytes[i]))},
                       time_on(link, bytes[i])});
    }
    std::stable_sort(loads.begin(), loads.end(),
                     [](const LinkLoad& a, const LinkLoad& b) { return a.time > b.time; });
    return loads;
  }

 private:
  void add_kind(const GpuModel& model) {
    models_.push_back(model);
    costs_.push_back(options_.costs(model));
  }

  void check_gpus(const std::vector<GpuIndex>& gpus, std::size_t ranks) const {
    if (gpus.size() != ranks)
      throw ConfigError{"a workload of " + std::to_string(ranks) + " ranks on " +
                        std::to_string(gpus.size()) + " GPUs of " + cluster_.name +
                        ": expected one for each"};
    std::vector<bool> taken(cluster_.gpus.size());
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const GpuIndex gpu = gpus[rank];
      if (gpu >= cluster_.gpus.size())
        throw ConfigError{"rank " + std::to_string(rank) + " on GPU " + std::to_string(gpu) + ": " +
                          cluster_.name + " has " + std::to_string(cluster_.gpus.size())};
      if (taken[gpu])
        throw ConfigError{"rank " + std::to_string(rank) + " on GPU " + std::to_string(gpu) +
                          ": another rank has it"};
      taken[gpu] = true;
    }
  }

  /// What a kernel costs on a kind of GPU. The models answer alike whenever they are asked.
  [[nodiscard]] CostEstimate price(const Kernel& kernel, std::size_t kind) const {
    if (kernel.known) return *kernel.known;
    const std::pair key{kind, detail::key_of(kernel)};
    {
      const std::lock_guard lock{mutex_};
      const auto known = prices_.find(key);
      if (known != prices_.end()) return known->second;
    }
    const auto estimate = costs_[kind].estimate(kernel.query);
    if (!estimate) throw CostError{"no cost model answers on " + models_[kind].name};
    const std::lock_guard lock{mutex_};
    return prices_.emplace(key, *estimate).first->second;
  }

  /// Tells `add` of the links of a communication, with the bytes that it puts on each; of messages,
  /// those that `sender` sends, or all.
  template <class Add>
  void add_loads(const JobRecord& job, const Workload::Operation& operation,
                 std::optional<Rank> sender, std::map<std::uint32_t, Communicator>& communicators,
                 Add add) const {
    const auto plans = [&](std::uint32_t group) -> const Communicator& {
      const auto found = communicators.find(group);
      if (found != communicators.end()) return found->second;
      std::vector<NodeId> nodes;
      for (const Rank rank : job.workload->groups()[group])
        nodes.push_back(cluster_.gpus[job.gpus[rank]]);
      return communicators.emplace(group, Communicator{cluster_, std::move(nodes), options_.nccl})
          .first->second;
    };
    CollectivePlan plan;
    if (const auto* collective = std::get_if<Workload::Collective>(&operation)) {
      const Workload::Call& call = job.workload->calls()[collective->call];
      plan = plans(call.group).plan(call.operations);
    } else {
      const auto& exchange = std::get<Workload::Exchange>(operation);
      const Workload::Messages& messages = job.workload->messages()[exchange.messages];
      const std::vector<Rank>& group = job.workload->groups()[messages.group];
      std::vector<SendRecv> parts;
      for (const SendRecv& part : messages.parts) {
        if (part.size > Bytes{} && part.src_rank != part.dst_rank &&
            (!sender || group[static_cast<std::size_t>(part.src_rank)] == *sender))
          parts.push_back(part);
      }
      if (!parts.empty()) plan = plans(messages.group).plan(parts);
    }
    std::map<LinkId, double> bytes;
    for (const FlowSpec& flow : plan.flows)
      for (const LinkUse& use : flow.links)
        bytes[use.link] += use.bytes_per_byte * static_cast<double>(flow.size.count());
    for (const auto& [link, amount] : bytes) add(link, amount);
  }

  [[nodiscard]] Duration time_on(LinkId link, double bytes) const {
    return duration_from_seconds(bytes / view_.capacities()[link.value].bytes_per_second());
  }

  Cluster cluster_;
  SimulationOptions options_;
  NetworkView view_;
  std::vector<GpuModel> models_{};  ///< kinds of GPUs
  std::vector<KernelCostModel> costs_{};
  std::vector<std::size_t> kinds_{};  ///< by GPU
  mutable std::mutex mutex_{};
  mutable std::map<std::pair<std::size_t, std::string>, CostEstimate> prices_{};
};

Simulation::Simulation(Cluster cluster, SimulationOptions options)
    : impl_{std::make_shared<const Impl>(std::move(cluster), std::move(options))} {}

const Cluster& Simulation::cluster() const noexcept { return impl_->cluster(); }

Report Simulation::run(const Workload& workload, std::span<const GpuIndex> gpus,
                       std::span<SessionObserver* const> observers) const {
  // It lives as long as this call.
  const std::shared_ptr<const Workload> borrowed{std::shared_ptr<const Workload>{}, &workload};
  Execution execution{[&](const KernelCostModel& costs) { return impl_->session(costs); }};
  std::vector<Subscription> subscriptions;
  for (SessionObserver* observer : observers)
    subscriptions.push_back(execution.subscribe(*observer));
  const std::size_t job = execution.add(impl_->job(borrowed, gpus));
  (void)execution.next(never);
  return impl_->report(execution.record(job));
}

std::vector<Report> Simulation::run_all(std::span<const Workload> workloads,
                                        unsigned threads) const {
  std::vector<Report> reports(workloads.size());
  std::vector<std::exception_ptr> errors(workloads.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i; (i = next++) < workloads.size();) {
      try {
        reports[i] = run(workloads[i]);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
  {
    std::vector<std::thread> others;
    for (unsigned i = 1; i < std::min<std::size_t>(threads, workloads.size()); ++i)
      others.emplace_back(work);
    work();
    for (std::thread& thread : others) thread.join();
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  return reports;
}

std::vector<LinkLoad> Simulation::link_loads(const Workload& workload,
                                             std::span<const GpuIndex> gpus) const {
  const std::shared_ptr<const Workload> borrowed{std::shared_ptr<const Workload>{}, &workload};
  return impl_->link_loads(impl_->job(borrowed, gpus));
}

class Jobs::Impl {
 public:
  explicit Impl(std::shared_ptr<const Simulation::Impl> simulation)
      : simulation_{std::move(simulation)},
        execution_{[&](const KernelCostModel& costs) { return simulation_->session(costs); }},
        taken_(simulation_->cluster().gpus.size()) {}

  JobId add(const Workload& workload, std::span<const GpuIndex> gpus, std::optional<Time> start) {
    const Time at = start.value_or(execution_.now());
    PHANTORA_EXPECTS(at >= execution_.now() && at != never, "a job starts now or later");
    PHANTORA_EXPECTS(!gpus.empty() || workload.rank_count() == 0, "a job is told its GPUs");
    JobRecord job = simulation_->job(std::make_shared<const Workload>(workload), gpus);
    for (const GpuIndex gpu : job.gpus)
      PHANTORA_EXPECTS(!taken_[gpu], "job " + std::to_string(taken_[gpu].value_or(0)) +
                                         " has GPU " + std::to_string(gpu));
    job.start = at;
    const std::vector<GpuIndex> its = job.gpus;
    const std::size_t number = execution_.add(std::move(job));
    for (const GpuIndex gpu : its) taken_[gpu] = number;
    reports_.resize(number + 1);
    return JobId{static_cast<std::uint32_t>(number)};
  }
  std::optional<JobId> next(Time until) {
    PHANTORA_EXPECTS(until >= execution_.now(), "jobs go on to an instant that is yet to come");
    const auto job = execution_.next(until);
    if (!job) return std::nullopt;
    for (const GpuIndex gpu : execution_.record(*job).gpus) taken_[gpu].reset();
    reports_[*job] = simulation_->report(execution_.record(*job));
    execution_.forget(*job);
    return JobId{static_cast<std::uint32_t>(*job)};
  }
  [[nodiscard]] Time now() const noexcept { return execution_.now(); }
  [[nodiscard]] const Report& report(JobId job) const {
    PHANTORA_EXPECTS(job.value < reports_.size() && reports_[job.value],
                     "job " + std::to_string(job.value) + " has not ended");
    return *reports_[job.value];
  }
  [[nodiscard]] std::vector<GpuIndex> free_gpus() const {
    std::vector<GpuIndex> free;
    for (GpuIndex gpu = 0; gpu < taken_.size(); ++gpu)
      if (!taken_[gpu]) free.push_back(gpu);
    return free;
  }
  [[nodiscard]] Subscription subscribe(SessionObserver& observer) {
    return execution_.subscribe(observer);
  }

 private:
  std::shared_ptr<const Simulation::Impl> simulation_;
  Execution execution_;
  std::vector<std::optional<std::size_t>> taken_;  ///< by GPU: the job that has it
  std::vector<std::optional<Report>> reports_{};
};

Jobs::Jobs(const Simulation& simulation) : impl_{std::make_unique<Impl>(simulation.impl_)} {}
Jobs::Jobs(Jobs&&) noexcept = default;
Jobs& Jobs::operator=(Jobs&&) noexcept = default;
Jobs::~Jobs() = default;
JobId Jobs::add(const Workload& workload, std::span<const GpuIndex> gpus,
                std::optional<Time> start) {
  return impl_->add(workload, gpus, start);
}
std::optional<JobId> Jobs::next(Time until) { return impl_->next(until); }
Time Jobs::now() const noexcept { return impl_->now(); }
const Report& Jobs::report(JobId job) const { return impl_->report(job); }
std::vector<GpuIndex> Jobs::free_gpus() const { return impl_->free_gpus(); }
Subscription Jobs::subscribe(SessionObserver& observer) { return impl_->subscribe(observer); }

}  // namespace phantora
