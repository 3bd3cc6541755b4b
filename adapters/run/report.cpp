#include "run/report.hpp"

#include <phantora/error.hpp>
#include <phantora/format.hpp>
#include <phantora/kernels/gpu_model.hpp>
#include <phantora/version.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace phantora::run {
namespace {

constexpr std::array sources = {CostSource::database, CostSource::measured, CostSource::fitted,
                                CostSource::roofline, CostSource::code,     CostSource::grid,
                                CostSource::unknown};
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

Report::Report(RunFacts facts, SessionReport simulated, const Engine& engine)
    : facts_{std::move(facts)}, simulated_{std::move(simulated)}, counters_{engine.counters()} {
  for (GpuIndex i = 0; i < simulated_.gpus.size(); ++i)
    peak_memory_.push_back(engine.peak_memory(i));
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

/// The figures of another host are those of the record beside its own step, times this run's step:
/// a long run's record has only its beginning.
void Report::print_host(std::ostream& out) const {
  if (facts_.host.empty()) return;
  const auto step = this->step();
  std::string text = facts_.host;
  if (facts_.sensitivity && step) {
    const HostSensitivity& of = *facts_.sensitivity;
    const auto beside = [&](Duration other) {
      return duration_text(rescaled(other, of.step, *step));
    };
    text += fmt::format("; {:.1f} % of the step waits for it. 20 % faster: {}, 20 % slower: {}",
                        100 * of.share(), beside(of.faster), beside(of.slower));
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

/// Of all models, in the order of their ranks.
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

void Report::print(std::ostream& out, double wall_seconds) const {
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
    out << fmt::format("\nphantora: {} on {}, {} GPUs\n", facts_.cluster, gpu_names(), gpus.size());
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
  for (const CostSource source : sources) {
    const Duration time = by_source[static_cast<std::size_t>(source)];
    if (total == Duration{} || (!always_shown(source) && time == Duration{})) continue;
    text += fmt::format("{}{} {:.1f} %", text.empty() ? "" : ", ", source,
                        100 * to_seconds(time) / to_seconds(total));
  }
  line("kernel time by source", text.empty() ? "no kernels" : text);
  if (!workload_) line("forced answers", std::to_string(counters_.forced_answers));
  print_doubts(out);
  line(workload_ ? "replay took" : "simulation took", fmt::format("{:.1f} s", wall_seconds));
  out.flush();
}

void Report::write(const std::string& path) const {
  using Json = nlohmann::ordered_json;
  const auto seconds = [](Duration d) { return to_seconds(d); };
  Json json;
  json["phantora"] = PHANTORA_VERSION_STRING;
  json["cluster"] = facts_.cluster;
  json["gpu"] = gpu_names();
  if (workload_) {
    json["record"] = facts_.record;
    json["widen"] = facts_.widen;
  } else {
    json["command"] = facts_.command;
    json["status"] = facts_.status;
  }
  json["partial"] = facts_.cut_short.empty() ? Json(nullptr) : Json(facts_.cut_short);
  json["host_time"] = facts_.host_time;
  json["host_scale"] = facts_.host_scale ? Json(*facts_.host_scale) : Json("auto");
  if (!facts_.host.empty()) {
    json["host"] = {{"name", facts_.host}};
    if (const auto step = this->step(); step && facts_.sensitivity) {
      const HostSensitivity& of = *facts_.sensitivity;
      const auto beside = [&](Duration other) { return seconds(rescaled(other, of.step, *step)); };
      json["host"]["share_of_step"] = of.share();
      json["host"]["step_s_if_free"] = beside(of.free);
      json["host"]["step_s_if_20_percent_faster"] = beside(of.faster);
      json["host"]["step_s_if_20_percent_slower"] = beside(of.slower);
    }
  }
  json["sync"] = "conservative";  // the only kind so far
  json["simulated_s"] = seconds(simulated_.makespan.time_since_epoch());
  if (workload_) json["makespan_s"] = seconds(workload_->makespan);
  // Where GPUs differ, each rank's entry says what its own is.
  json["gpu_memory_bytes"] =
      simulated_.kinds.size() == 1 ? Json(simulated_.kinds.front().memory.count()) : Json(nullptr);
  for (GpuIndex rank = 0; rank < simulated_.gpus.size(); ++rank) {
    const GpuReport& gpu = simulated_.gpus[rank];
    Json entry;
    entry["rank"] = rank;
    entry["host"] = gpu.host;
    if (simulated_.kinds.size() > 1) {
      entry["gpu"] = simulated_.kinds[gpu.kind].model;
      entry["gpu_memory_bytes"] = simulated_.kinds[gpu.kind].memory.count();
    }
    entry["step_s"] = gpu.steps.count() > 0 ? Json(seconds(gpu.steps.median())) : Json(nullptr);
    entry["steps"] = gpu.steps.count();
    entry["kernels_per_step"] = gpu.steps.items;
    Json starts = Json::array();
    for (const Time start : gpu.steps.bounds) starts.push_back(seconds(start.time_since_epoch()));
    entry["step_starts_s"] = std::move(starts);
    entry["typical_steps"] = gpu.steps.typical;
    if (gpu.steps.rival) {
      entry["step_unsure"] = {{"step_s", seconds(gpu.steps.rival->length)},
                              {"steps", gpu.steps.rival->count}};
    }
    entry["busy_s"] = seconds(gpu.use.busy);
    entry["communication_s"] = seconds(gpu.use.communication);
    entry["exposed_communication_s"] = seconds(gpu.use.exposed);
    entry["kernels"] = gpu.use.kernels;
    for (const CostSource source : sources) {
      const Duration time = gpu.use.by_source[static_cast<std::size_t>(source)];
      if (source > CostSource::unknown && time == Duration{}) continue;
      entry["kernel_s_by_source"][std::string{to_string(source)}] = seconds(time);
    }
    entry["peak_memory_bytes"] = peak_memory_[rank];
    if (workload_) {
      const RankReport& it = workload_->ranks[rank];
      entry["memory_bytes"] = it.memory.count();
      entry["fits"] = it.fits();
      entry["computing_s"] = seconds(it.computing);
      entry["communicating_s"] = seconds(it.communicating);
      entry["exposed_s"] = seconds(it.exposed);
      entry["waiting_s"] = seconds(it.waiting);
      entry["idle_s"] = seconds(it.idle);
    }
    json["ranks"].push_back(std::move(entry));
  }
  json["kernels"] = Json::array();
  for (const NamedKernel& kernel : simulated_.kernels) {
    json["kernels"].push_back({{"name", kernel.name},
                               {"count", kernel.count},
                               {"total_s", seconds(kernel.total)},
                               {"source", to_string(kernel.source)}});
  }
  if (workload_) {
    json["critical_path"] = Json::array();
    for (const PathPart& part : workload_->critical_path)
      json["critical_path"].push_back({{"kind", to_string(part.kind)},
                                       {"name", part.name},
                                       {"count", part.count},
                                       {"total_s", seconds(part.time)}});
  } else {
    json["forced_answers"] = counters_.forced_answers;
    json["late_operations"] = simulated_.late_operations;
    json["counters"] = Json::object();
    for (const auto& [name, n] : counters_.named) json["counters"][name] = n;
  }
  if (const auto unread = this->unread()) {
    json["unread"] = {{"launches", unread->launches}, {"total_s", seconds(unread->total)}};
    json["unread"]["kernels"] = Json::array();
    for (const auto& [name, total] : unread->longest) {
      json["unread"]["kernels"].push_back({{"name", name}, {"total_s", seconds(total)}});
    }
  }
  // What differs from run to run.
  if (facts_.wall_seconds) {
    json["wall_s"] = *facts_.wall_seconds;
    json["answers_at_rest"] = counters_.answers_at_rest;
  }
  std::ofstream file{path};
  file << json.dump(1, ' ', false, Json::error_handler_t::replace) << '\n';
  file.close();
  if (!file) throw Error{"cannot write the report " + path};
}

}  // namespace phantora::run
