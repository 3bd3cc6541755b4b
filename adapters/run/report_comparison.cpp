#include "run/report_comparison.hpp"

#include "run/priced_kernels.hpp"

#include <phantora/format.hpp>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace phantora::run {
namespace {

/// Of a figure that each GPU has, the median.
template <class Figure>
auto median(const Report& report, Figure figure) {
  std::vector<decltype(figure(GpuIndex{0}))> values;
  for (GpuIndex gpu = 0; gpu < report.simulated().gpus.size(); ++gpu) values.push_back(figure(gpu));
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// What is compared. Durations and Bytes alike are counts of something.
template <class Unit>
struct Compared {
  std::string_view name;
  std::optional<Unit> first{}, second{};
};

template <class Unit>
std::string text_of(const std::optional<Unit>& value) {
  if (!value) return "-";
  if constexpr (std::is_same_v<Unit, Bytes>)
    return fmt::format("{:.2GiB}", *value);
  else
    return fmt::format("{}", *value);
}

template <class Unit>
std::string change(const std::optional<Unit>& first, const std::optional<Unit>& second) {
  if (!first || !second || *first == Unit{}) return "-";
  return fmt::format(
      "{:+.1f} %",
      100 * (static_cast<double>(second->count()) / static_cast<double>(first->count()) - 1));
}

void row(std::ostream& out, std::string_view name, std::string_view first, std::string_view second,
         std::string_view third) {
  out << fmt::format("  {:<25} {:>14} {:>14} {:>10}\n", name, first, second, third);
}

template <class Unit>
void row(std::ostream& out, const Compared<Unit>& of) {
  row(out, of.name, text_of(of.first), text_of(of.second), change(of.first, of.second));
}

/// A figure of a typical step, over the GPUs that have one.
std::optional<Duration> part(const Report& report, Duration StepParts::*figure) {
  std::vector<Duration> values;
  for (const GpuReport& gpu : report.simulated().gpus)
    if (gpu.steps.count() > 0) values.push_back(gpu.parts.*figure);
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void print_kernels_that_differ(const Report& first, const Report& second, std::ostream& out) {
  std::map<std::string, std::pair<Duration, Duration>> totals;
  for (const NamedKernel& kernel : first.simulated().kernels)
    totals[kernel.name].first = kernel.total;
  for (const NamedKernel& kernel : second.simulated().kernels)
    totals[kernel.name].second = kernel.total;
  std::vector<std::pair<std::string, std::pair<Duration, Duration>>> kernels;
  for (const auto& kernel : totals)
    if (kernel.second.first != kernel.second.second) kernels.push_back(kernel);
  if (kernels.empty()) {
    out << "  no kernel's total time differs\n";
    return;
  }
  const auto difference = [](const auto& kernel) {
    return std::abs((kernel.second.second - kernel.second.first).count());
  };
  std::stable_sort(kernels.begin(), kernels.end(),
                   [&](const auto& a, const auto& b) { return difference(a) > difference(b); });
  constexpr std::size_t longest = 10, width = 80;
  out << "  kernels that differ most, in total over all GPUs\n";
  for (std::size_t i = 0; i < std::min(longest, kernels.size()); ++i) {
    const auto& [name, of] = kernels[i];
    out << fmt::format("  {:>25} {:>14} {:>14} {:>10}  {}\n", "", fmt::format("{}", of.first),
                       fmt::format("{}", of.second),
                       change(std::optional{of.first}, std::optional{of.second}),
                       shortened(name, width));
  }
}

}  // namespace

void print_comparison(const NamedReport& first, const NamedReport& second, std::ostream& out) {
  const Report &a = first.report, &b = second.report;
  for (const auto& [which, named] : {std::pair{"first", &first}, std::pair{"second", &second}}) {
    const Report& report = named->report;
    out << fmt::format(
        "{:<6} {}: {} on {}, {} GPUs{}\n", which, named->name, report.facts().cluster,
        report.gpu_names(), report.simulated().gpus.size(),
        report.facts().cut_short.empty() ? "" : ", partial: " + report.facts().cut_short);
  }
  row(out, "", "first", "second", "change");
  row(out, Compared<Duration>{"step time", a.step(), b.step()});
  row(out, Compared<Duration>{"  computing", part(a, &StepParts::computing),
                              part(b, &StepParts::computing)});
  row(out, Compared<Duration>{"  exposed communication", part(a, &StepParts::exposed),
                              part(b, &StepParts::exposed)});
  row(out, Compared<Duration>{"  idle", part(a, &StepParts::idle), part(b, &StepParts::idle)});
  row(out, Compared<Duration>{"simulated time", a.simulated().makespan.time_since_epoch(),
                              b.simulated().makespan.time_since_epoch()});
  const auto use = [](const Report& report, Duration GpuUse::*figure) {
    return median(report, [&](GpuIndex gpu) { return report.simulated().gpus[gpu].use.*figure; });
  };
  row(out, Compared<Duration>{"GPU busy", use(a, &GpuUse::busy), use(b, &GpuUse::busy)});
  row(out, Compared<Duration>{"exposed communication", use(a, &GpuUse::exposed),
                              use(b, &GpuUse::exposed)});
  const auto peak = [](const Report& report) {
    return Bytes{static_cast<std::int64_t>(*std::ranges::max_element(report.peak_memory()))};
  };
  row(out, Compared<Bytes>{"greatest peak memory", peak(a), peak(b)});
  const auto all = [](const Report& report) {
    Duration sum{};
    for (const NamedKernel& kernel : report.simulated().kernels) sum += kernel.total;
    return sum;
  };
  row(out, Compared<Duration>{"kernels and copies", all(a), all(b)});
  print_kernels_that_differ(a, b, out);
}

}  // namespace phantora::run
