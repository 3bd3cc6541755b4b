#include <phantora/kernels/gpu_model.hpp>
#include <phantora/simulation/session.hpp>
#include <phantora/simulation/session_report.hpp>
#include <phantora/simulation/step_observer.hpp>

#include <algorithm>
#include <utility>

namespace phantora {

namespace {

void add(SessionReport& report, const Cluster& cluster, GpuIndex gpu, const GpuUse& use,
         const StepObserver& observed) {
  const Host& host = cluster.host_of(cluster.gpus[gpu]);
  const GpuModel model = gpu_model(host);
  const GpuKind kind{model.name, model.memory};
  auto known = std::find(report.kinds.begin(), report.kinds.end(), kind);
  if (known == report.kinds.end()) known = report.kinds.insert(known, kind);
  Steps steps = observed.steps(gpu);
  const StepParts parts = observed.parts(gpu, steps);
  report.gpus.push_back({.host = host.name,
                         .kind = static_cast<std::size_t>(known - report.kinds.begin()),
                         .steps = std::move(steps),
                         .parts = parts,
                         .use = use});
}

void add_kernels(SessionReport& report, const StepObserver& observed) {
  for (const auto& [name, kernel] : observed.kernels())
    report.kernels.push_back({.name = name,
                              .count = kernel.count,
                              .total = kernel.total,
                              .source = kernel.source,
                              .by_grid = kernel.by_grid,
                              .deviation = kernel.deviation});
  std::stable_sort(report.kernels.begin(), report.kernels.end(),
                   [](const auto& a, const auto& b) { return a.total > b.total; });
}

}  // namespace

SessionReport session_report(const Cluster& cluster, const Session& session,
                             const StepObserver& observed) {
  SessionReport report{.makespan = observed.makespan(),
                       .late_operations = session.late_operations()};
  for (GpuIndex gpu = 0; gpu < cluster.gpus.size(); ++gpu)
    add(report, cluster, gpu, session.use(gpu), observed);
  add_kernels(report, observed);
  return report;
}

SessionReport session_report(const Cluster& cluster, const Report& of,
                             const StepObserver& observed) {
  SessionReport report{.makespan = observed.makespan()};
  for (std::size_t rank = 0; rank < of.gpus.size(); ++rank)
    add(report, cluster, of.gpus[rank], of.ranks[rank].use, observed);
  add_kernels(report, observed);
  return report;
}

std::array<Duration, cost_sources> SessionReport::kernel_time() const {
  std::array<Duration, cost_sources> sum{};
  for (const GpuReport& gpu : gpus) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += gpu.use.by_source[i];
  }
  return sum;
}

const GpuReport* SessionReport::most_steps() const {
  const auto most = std::max_element(gpus.begin(), gpus.end(), [](const auto& a, const auto& b) {
    return a.steps.count() < b.steps.count();
  });
  return most == gpus.end() || most->steps.count() == 0 ? nullptr : &*most;
}

double SessionReport::share_of_kernels(Duration part) const {
  Duration all{};
  for (const NamedKernel& kernel : kernels) all += kernel.total;
  return all > Duration{} ? to_seconds(part) / to_seconds(all) : 0.0;
}

}  // namespace phantora
