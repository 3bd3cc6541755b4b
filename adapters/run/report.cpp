#include "run/report.hpp"

#include <phantora/format.hpp>
#include <phantora/kernels/gpu_model.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace phantora::run {
namespace {

/// Those that every report has; the others only where there are such kernels.
constexpr bool always_shown(CostSource source) { return source <= CostSource::roofline; }

std::string duration_text(Duration d) { return fmt::format("{}", d); }
/// `part` of `of`, as a part of `whole`.
Duration rescaled(Duration part, Duration of, Duration whole) {
  return Duration{
      std::llround(static_cast<double>(whole.count()) * (to_seconds(part) / to_seconds(of)))};
}
std::string gib_text(Bytes b) { return fmt::format("{:.2GiB}", b); }

/// A row of the table. At least a blank stands between name and value.
void row(std::ostream& out, std::string_view name, const std::string& value) {
  out << fmt::format("  {:<23} {}\n", name, value);
}

/// "median (least .. greatest)" over the GPUs.
template <class T, class Text>
std::string spread(std::vector<T> values, Text text) {
  if (values.empty()) return "-";
  std::sort(values.begin(), values.end());
  const T median = values[values.size() / 2];
  if (values.front() == values.back()) return text(median);
  return fmt::format("{} ({} .. {})", text(median), text(values.front()), text(values.back()));
}

}  // namespace

Report::Report(RunFacts facts, SessionReport simulated, RunCounters counters,
               std::vector<std::uint64_t> peak_memory)
    : facts_{std::move(facts)},
      simulated_{std::move(simulated)},
      counters_{std::move(counters)},
      peak_memory_{std::move(peak_memory)} {
  const auto step = this->step();
  if (!step) facts_.sensitivity.reset();
  if (!facts_.sensitivity) return;
  HostSensitivity& of = *facts_.sensitivity;
  for (Duration* const other : {&of.free, &of.faster, &of.slower})
    *other = rescaled(*other, of.step, *step);
  of.step = *step;
}

Report::Report(RunFacts facts, SessionReport simulated, phantora::Report workload)
    : facts_{std::move(facts)}, simulated_{std::move(simulated)}, workload_{std::move(workload)} {
  for (const RankReport& rank : workload_->ranks)
    peak_memory_.push_back(static_cast<std::uint64_t>(rank.peak_memory.count()));
}

void Report::print_steps(std::ostream& out) const {
  std::vector<Duration> lengths;
  std::optional<Steps::Rival> rival;
  for (const GpuReport& gpu : simulated_.gpus) {
    if (gpu.steps.count() == 0) continue;
    lengths.push_back(gpu.steps.median());
    if (!rival) rival = gpu.steps.rival;
  }
  const GpuReport* const longest = simulated_.most_steps();
  if (longest == nullptr) {
    row(out, "step time",
        facts_.step_marker.empty() ? "no repeating work found"
                                   : "nothing named " + facts_.step_marker + " ended two steps");
    return;
  }
  const Steps& most = longest->steps;
  const auto typical =
      static_cast<std::size_t>(std::count(most.typical.begin(), most.typical.end(), true));
  std::string text = fmt::format("{}, {} steps of {} kernels and copies",
                                 spread(lengths, duration_text), typical, most.items);
  if (typical < most.count()) {
    text += fmt::format("; {} more warm up or hold other work", most.count() - typical);
  }
  row(out, "step time", text);
  if (rival) {
    row(out, "",
        fmt::format("unsure: work of {} also repeats {} times; --step-marker NAME says "
                    "what ends a step",
                    duration_text(rival->length), rival->count));
  }
}

std::optional<Duration> Report::step() const {
  std::vector<Duration> lengths;
  for (const GpuReport& gpu : simulated_.gpus)
    if (gpu.steps.count() > 0) lengths.push_back(gpu.steps.median());
  if (lengths.empty()) return std::nullopt;
  std::sort(lengths.begin(), lengths.end());
  return lengths[lengths.size() / 2];
}

void Report::print_host(std::ostream& out) const {
  if (facts_.host.empty()) return;
  std::string text = facts_.host;
  if (facts_.sensitivity) {
    const HostSensitivity& of = *facts_.sensitivity;
    text += fmt::format("; {:.1f} % of the step waits for it. 20 % faster: {}, 20 % slower: {}",
                        100 * of.share(), duration_text(of.faster), duration_text(of.slower));
  } else if (!facts_.no_sensitivity.empty()) {
    text += "; how much waits for it is not known: " + facts_.no_sensitivity;
  }
  row(out, "host", text);
}

std::optional<Report::Unread> Report::unread() const {
  const auto launches = counters_.named.find("unread_kernels");
  if (launches == counters_.named.end()) return std::nullopt;
  Unread unread{.launches = launches->second};
  for (const NamedKernel& kernel : simulated_.kernels) {
    if (kernel.by_grid == Duration{}) continue;
    unread.total += kernel.by_grid;
    unread.longest.emplace_back(kernel.name, kernel.by_grid);
  }
  std::stable_sort(unread.longest.begin(), unread.longest.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return unread;
}

std::string Report::gpu_names() const {
  std::vector<std::string> names;
  for (const GpuKind& kind : simulated_.kinds) {
    if (std::find(names.begin(), names.end(), kind.model) == names.end())
      names.push_back(kind.model);
  }
  return fmt::format("{}", fmt::join(names, " and "));
}

/// What to make of the run: nothing where all is well.
void Report::print_doubts(std::ostream& out) const {
  // What the report asks of a run (issue 9): below this share an error in a price hardly shows.
  constexpr double negligible = 0.01;
  for (const auto& [name, n] : counters_.named) {
    if (name == "unknown_reads") {
      row(out, "unknown reads",
          fmt::format("{}: losses, and what else the program read of large data, are not computed. "
                      "Times hold unless it decides by them",
                      n));
    } else if (name == "assumed_routing") {
      row(out, "assumed routing",
          fmt::format("{} top-k choices by scores that are not computed, {}. What experts compute "
                      "hangs on it: --routing first and random bound how much",
                      n, facts_.routing));
    } else if (name == "assumed_selections") {
      row(out, "assumed selections",
          fmt::format("{} by values that are not computed. What follows hangs on how many pass: "
                      "--selected 0.1 says how much",
                      n));
    } else if (name == "assumed_tests") {
      row(out, "assumed tests",
          fmt::format(
              "{} of values that are not computed: all() holds, any() finds nothing, and no "
              "number equals another. Times hang on it if the program decides by them",
              n));
    } else if (name != "unread_kernels" && !name.starts_with("unread_kernel ")) {
      row(out, name, std::to_string(n));
    }
  }
  const auto unread = this->unread();
  if (!unread) return;
  const auto share = [&](Duration part) { return simulated_.share_of_kernels(part); };
  row(out, "unread kernels",
      fmt::format("{} launches, {:.1f} % of kernel time, priced by their grid alone: {}",
                  unread->launches, 100 * share(unread->total),
                  share(unread->total) < negligible ? "no worry" : "a worry"));
  if (share(unread->total) < negligible) return;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, unread->longest.size()); ++i) {
    constexpr std::size_t width = 80;
    const auto& [name, total] = unread->longest[i];
    row(out, "",
        fmt::format("{:.1f} % {}{}", 100 * share(total), name.substr(0, width),
                    name.size() > width ? "..." : ""));
  }
}

void Report::print(std::ostream& out, std::optional<double> wall_seconds) const {
  const auto line = [&](std::string_view name, const std::string& value) { row(out, name, value); };
  const std::array by_source = simulated_.kernel_time();
  const std::vector<GpuReport>& gpus = simulated_.gpus;
  const std::vector<GpuKind>& kinds = simulated_.kinds;
  const auto share = [&](Duration part) {
    const double whole = to_seconds(simulated_.makespan.time_since_epoch());
    return fmt::format("{} ({:.1f} %)", duration_text(part),
                       whole > 0 ? 100 * to_seconds(part) / whole : 0.0);
  };
  const auto label = [&](const GpuKind& kind) {
    const bool one_memory = std::count_if(kinds.begin(), kinds.end(), [&](const GpuKind& other) {
                              return other.model == kind.model;
                            }) == 1;
    return one_memory ? kind.model : kind.model + " with " + gib_text(kind.memory);
  };
  // A row for each kind of GPU: the spread of a figure over those.
  const auto by_kind = [&](std::string_view name, auto figure, auto text) {
    using Figure = decltype(figure(GpuIndex{0}));
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      std::vector<Figure> values;
      for (GpuIndex gpu = 0; gpu < gpus.size(); ++gpu) {
        if (gpus[gpu].kind == k) values.push_back(figure(gpu));
      }
      line(k == 0 ? name : "",
           text(values, kinds[k]) + (kinds.size() > 1 ? ", " + label(kinds[k]) : ""));
    }
  };
  if (workload_) {
    out << fmt::format("phantora: {} replayed on {}, {}, {} GPUs\n", facts_.record, facts_.cluster,
                       gpu_names(), gpus.size());
  } else {
    out << fmt::format("phantora: {} on {}, {} GPUs\n", facts_.cluster, gpu_names(), gpus.size());
  }
  if (!facts_.cut_short.empty())
    line("partial", facts_.cut_short + (workload_ ? "; what was recorded until then:"
                                                  : "; what was simulated until then:"));
  print_steps(out);
  print_host(out);
  line("simulated time", duration_text(simulated_.makespan.time_since_epoch()));
  const auto shares = [&](const std::vector<Duration>& values, const GpuKind&) {
    return spread(values, share);
  };
  by_kind(
      "GPU busy", [&](GpuIndex gpu) { return gpus[gpu].use.busy; }, shares);
  by_kind(
      "exposed communication", [&](GpuIndex gpu) { return gpus[gpu].use.exposed; }, shares);
  if (workload_)
    by_kind(
        "waiting for ranks", [&](GpuIndex rank) { return workload_->ranks[rank].waiting; }, shares);
  by_kind(
      "peak memory", [&](GpuIndex gpu) { return peak_memory_[gpu]; },
      [&](const std::vector<std::uint64_t>& values, const GpuKind& kind) {
        const auto text = [](std::uint64_t b) {
          return gib_text(Bytes{static_cast<std::int64_t>(b)});
        };
        const bool fits = std::all_of(values.begin(), values.end(), [&](std::uint64_t b) {
          return b <= static_cast<std::uint64_t>(kind.memory.count());
        });
        return spread(values, text) + " of " + gib_text(kind.memory) +
               (fits ? "" : ": more than there is");
      });
  const Duration total = std::accumulate(by_source.begin(), by_source.end(), Duration{});
  std::string text;
  for (const CostSource source : shown_sources) {
    const Duration time = by_source[static_cast<std::size_t>(source)];
    if (total == Duration{} || (!always_shown(source) && time == Duration{})) continue;
    text += fmt::format("{}{} {:.1f} %", text.empty() ? "" : ", ", source,
                        100 * to_seconds(time) / to_seconds(total));
  }
  line("kernel time by source", text.empty() ? "no kernels" : text);
  if (!workload_) line("forced answers", std::to_string(counters_.forced_answers));
  print_doubts(out);
  if (wall_seconds)
    line(workload_ ? "replay took" : "simulation took", fmt::format("{:.1f} s", *wall_seconds));
  out.flush();
}

}  // namespace phantora::run
