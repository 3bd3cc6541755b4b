#include <phantora/simulation/host_sensitivity.hpp>
#include <phantora/simulation/step_observer.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <future>
#include <vector>

namespace phantora {
namespace {

/// The median over the ranks.
std::optional<Duration> step_of(const Simulation& simulation, const Workload& workload,
                                double host_time, const std::string& marker) {
  Workload scaled = workload;
  scaled.scale_host_time(host_time);
  StepObserver observed{marker};
  SessionObserver* const told = &observed;
  const Report report = simulation.run(scaled, {}, {&told, 1});
  std::vector<Duration> lengths;
  for (const GpuIndex gpu : report.gpus) {
    const Steps steps = observed.steps(gpu);
    if (steps.count() > 0) lengths.push_back(steps.median());
  }
  if (lengths.empty()) return std::nullopt;
  const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
  std::nth_element(lengths.begin(), middle, lengths.end());
  return *middle;
}

}  // namespace

std::optional<HostSensitivity> host_sensitivity(const Simulation& simulation,
                                                const Workload& workload,
                                                const std::string& marker) {
  // A host that is 20 % faster takes 1 / 1.2 of the time, one that is 20 % slower 1 / 0.8.
  constexpr std::array<double, 4> host_time{1, 0, 1 / 1.2, 1 / 0.8};
  std::array<std::future<std::optional<Duration>>, host_time.size()> runs;
  std::transform(host_time.begin(), host_time.end(), runs.begin(), [&](double factor) {
    return std::async(std::launch::async, step_of, std::cref(simulation), std::cref(workload),
                      factor, std::cref(marker));
  });
  std::array<std::optional<Duration>, host_time.size()> steps;
  std::transform(runs.begin(), runs.end(), steps.begin(), [](auto& run) { return run.get(); });
  for (const auto& step : steps)
    if (!step) return std::nullopt;
  return HostSensitivity{*steps[0], *steps[1], *steps[2], *steps[3]};
}

}  // namespace phantora
