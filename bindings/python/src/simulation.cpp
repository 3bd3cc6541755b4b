#include "json/simulate.hpp"
#include "results.hpp"
#include "values.hpp"

#include <phantora/error.hpp>
#include <phantora/simulation/step_observer.hpp>

#include <algorithm>
#include <map>
#include <memory>

#include <nanobind/stl/map.h>

namespace phantora::python {
namespace {

using Gpus = std::vector<GpuIndex>;

/// Prices by a Python function, before the library's. Threads that run without the interpreter's
/// lock copy and drop it.
class PythonCosts {
 public:
  PythonCosts(nb::object function, std::string gpu)
      : function_{new nb::object{std::move(function)},
                  [](nb::object* it) {
                    const nb::gil_scoped_acquire acquire;
                    delete it;
                  }},
        gpu_{std::move(gpu)} {}

  [[nodiscard]] std::optional<CostEstimate> estimate(const KernelQuery& query) const {
    const nb::gil_scoped_acquire acquire;
    const nb::object answer = (*function_)(Kernel{query}, gpu_);
    if (answer.is_none()) return {};
    return CostEstimate{.duration = to_duration(nb::cast<double>(answer))};
  }

 private:
  std::shared_ptr<nb::object> function_;
  std::string gpu_;
};

Simulation make(const std::variant<Cluster, std::string>& cluster,
                std::map<std::string, std::string> nccl, std::optional<nb::callable> costs,
                std::optional<double> launch_latency, std::optional<double> kernel_gap) {
  SimulationOptions options;
  options.nccl.insert(nccl.begin(), nccl.end());
  if (launch_latency) options.timing.launch_latency = to_duration(*launch_latency);
  if (kernel_gap) options.timing.kernel_gap = to_duration(*kernel_gap);
  if (costs)
    options.costs = [function = std::make_shared<nb::object>(*costs)](const GpuModel& gpu) {
      return first_of(PythonCosts{*function, gpu.key}, builtin_cost_model(gpu));
    };
  const auto* spec = std::get_if<std::string>(&cluster);
  return Simulation{spec != nullptr ? bindings::make_cluster(*spec) : std::get<Cluster>(cluster),
                    std::move(options)};
}

nb::dict link_loads(const Simulation& simulation, const Workload& workload, const Gpus& gpus) {
  std::vector<LinkLoad> loads;
  {
    const nb::gil_scoped_release release;
    loads = simulation.link_loads(workload, gpus);
  }
  nb::list names;
  std::vector<std::int64_t> bytes;
  std::vector<double> times;
  for (const LinkLoad& load : loads) {
    names.append(simulation.cluster().topology.name(load.link));
    bytes.push_back(to_python(load.bytes));
    times.push_back(to_python(load.time));
  }
  nb::dict table;
  table["link"] = names;
  table["bytes"] = array(std::move(bytes));
  table["time"] = array(std::move(times));
  return table;
}

std::optional<double> step_time(const Simulation& simulation, const Workload& workload,
                                const Gpus& gpus, std::string marker) {
  StepObserver observed{std::move(marker)};
  SessionObserver* const observers[] = {&observed};
  const auto step = observed.step(simulation.run(workload, gpus, observers).gpus);
  if (!step) return {};
  return to_python(*step);
}

/// Jobs of a Jobs by number, with what its reports are made of.
struct JobQueue {
  Simulation simulation;
  Jobs jobs;
};

void define_jobs(nb::module_& m) {
  nb::class_<JobQueue>(
      m, "Jobs",
      R"(Jobs that come one after the other and share a cluster: its fabric, and its GPUs in turn.

    jobs = Jobs(simulation)
    jobs.add(workload, jobs.free_gpus()[:32])
    while (ended := jobs.next()) is not None:
        print(ended, jobs.report(ended).makespan))")
      .def(
          "__init__",
          [](JobQueue* place, const Simulation& simulation) {
            new (place) JobQueue{simulation, Jobs{simulation}};
          },
          "simulation"_a)
      .def(
          "add",
          [](JobQueue& queue, const Workload& workload, const Gpus& gpus,
             std::optional<double> start) {
            std::optional<Time> at;
            if (start) at = Time{to_duration(*start)};
            return queue.jobs.add(workload, gpus, at).value;
          },
          "workload"_a, "gpus"_a, "start"_a = nb::none(),
          R"(A job begins; gives its number.

gpus: of each rank; no job that next() has not told of may have one of them. start: seconds, not
before `now`; None: now.)")
      .def(
          "next",
          [](JobQueue& queue, std::optional<double> until) -> std::optional<std::uint32_t> {
            const auto ended = queue.jobs.next(until ? Time{to_duration(*until)} : never);
            if (!ended) return {};
            return ended->value;
          },
          "until"_a = nb::none(), nb::call_guard<nb::gil_scoped_release>(),
          "Goes on until a job ends, or until an instant; gives the job's number, or None.")
      .def_prop_ro(
          "now", [](const JobQueue& queue) { return to_python(queue.jobs.now()); },
          "Seconds from the start.")
      .def(
          "report",
          [](const JobQueue& queue, std::uint32_t job) {
            return Result{queue.jobs.report(JobId{job}), queue.simulation};
          },
          "job"_a, "What a job did that has ended.")
      .def(
          "free_gpus", [](const JobQueue& queue) { return array(queue.jobs.free_gpus()); },
          "GPUs that no job has: uint32[gpus].");
}

}  // namespace

void define_simulation(nb::module_& m) {
  nb::class_<Simulation>(
      m, "Simulation",
      R"(Runs workloads on a cluster, in virtual time. Equal workloads have equal reports, to the bit.

cluster: a Cluster, or its spec as in "h100:16x8".
nccl: NCCL's variables, {"NCCL_ALGO": "Ring"}.
costs: a function (kernel, gpu) that gives a kernel's seconds on a GPU ("h100"), or None where the
library's own prices are to hold; asked once for each kernel.
launch_latency, kernel_gap: seconds from a launch to its start, and between kernels of a stream.)")
      .def(
          "__init__",
          [](Simulation* place, const std::variant<Cluster, std::string>& cluster,
             std::map<std::string, std::string> nccl, std::optional<nb::callable> costs,
             std::optional<double> launch_latency, std::optional<double> kernel_gap) {
            new (place) Simulation{
                make(cluster, std::move(nccl), std::move(costs), launch_latency, kernel_gap)};
          },
          "cluster"_a, nb::kw_only(), "nccl"_a = std::map<std::string, std::string>{},
          "costs"_a = nb::none(), "launch_latency"_a = nb::none(), "kernel_gap"_a = nb::none())
      .def_prop_ro("cluster", &Simulation::cluster, nb::rv_policy::copy)
      .def(
          "run",
          [](const Simulation& simulation, const Workload& workload, const Gpus& gpus, bool spans) {
            if (!spans) return Result{simulation.run(workload, gpus), simulation};
            const auto seen = std::make_shared<Spans>();
            SessionObserver* const observers[] = {seen.get()};
            Report report = simulation.run(workload, gpus, observers);
            seen->finish(workload);
            return Result{std::move(report), simulation, seen};
          },
          "workload"_a, "gpus"_a = Gpus{}, nb::kw_only(), "spans"_a = false,
          nb::call_guard<nb::gil_scoped_release>(),
          R"(Runs a workload alone. Threads may do so at a time: the interpreter's lock is released.

gpus: of each rank, distinct; none: the cluster's first ones. spans: the report keeps when every kernel
and communication ran (Report.spans). Raises ConfigError or CostError if it
cannot run here, Error if its ranks wait for one another for ever.)")
      .def(
          "step_time", &step_time, "workload"_a, "gpus"_a = Gpus{}, "marker"_a = "",
          nb::call_guard<nb::gil_scoped_release>(),
          R"(A step of a workload that marks none, such as a record, in seconds: median over the ranks of the
median of each. Steps are found in the order of the kernels; None if nothing repeats.

marker: what ends a step: a part of a kernel's name, or "optimizer".)")
      .def(
          "run_all",
          [](const Simulation& simulation, const std::vector<Workload>& workloads,
             unsigned threads) {
            std::vector<Result> results;
            for (Report& report : simulation.run_all(workloads, threads))
              results.push_back({std::move(report), simulation});
            return results;
          },
          "workloads"_a, "threads"_a = 0, nb::call_guard<nb::gil_scoped_release>(),
          "Runs each workload alone, several at a time. threads: 0 for as many as processors.")
      .def(
          "link_loads", &link_loads, "workload"_a, "gpus"_a = Gpus{},
          nb::sig("def link_loads(self, workload: Workload, gpus: collections.abc.Sequence[int] = "
                  "[]) -> dict[str, typing.Any]"),
          R"(What each link carries of a workload, most loaded for its bandwidth first, as columns: list
"link" of names, int64 array "bytes", float64 array "time" that its bandwidth takes for them.)")
      .def("__repr__", [](const Simulation& simulation) {
        return "<Simulation of " + simulation.cluster().name + ">";
      });
  define_jobs(m);
  m.def(
      "simulate_json", [](std::string_view request) { return bindings::simulate(request); },
      "request"_a, nb::call_guard<nb::gil_scoped_release>(),
      "A simulation in one call (bindings/json/README.md).");
}

}  // namespace phantora::python
