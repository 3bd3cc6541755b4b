#include "run/report.hpp"

#include <phantora/error.hpp>
#include <phantora/format.hpp>
#include <phantora/kernels/gpu_model.hpp>
#include <phantora/version.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <fstream>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace phantora::run {
namespace {

constexpr std::array sources = {CostSource::measured, CostSource::fitted, CostSource::roofline,
                                CostSource::unknown};

std::string duration_text(Duration d) { return fmt::format("{}", d); }
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

Report::Report(RunFacts facts, const Cluster& cluster, const Session& session, const Engine& engine,
               const StepObserver& observed)
    : facts_{std::move(facts)},
      makespan_{observed.makespan()},
      counters_{engine.counters()},
      late_operations_{session.late_operations()},
      kernels_{observed.kernels()} {
  for (GpuIndex i = 0; i < cluster.gpus.size(); ++i) {
    const Host& host = cluster.host_of(cluster.gpus[i]);
    const GpuModel model = gpu_model(host);
    const Kind kind{model.name, model.memory};
    auto known = std::find(kinds_.begin(), kinds_.end(), kind);
    if (known == kinds_.end()) known = kinds_.insert(known, kind);
    gpus_.push_back({.rank = static_cast<int>(i),
                     .host = host.name,
                     .kind = static_cast<std::size_t>(known - kinds_.begin()),
                     .steps = observed.steps(i),
                     .use = session.use(i),
                     .peak_memory = engine.peak_memory(i)});
  }
}

void Report::print_steps(std::ostream& out) const {
  std::vector<Duration> lengths;
  const Steps* most = nullptr;
  std::optional<Steps::Rival> rival;
  for (const Gpu& gpu : gpus_) {
    if (gpu.steps.count() == 0) continue;
    lengths.push_back(gpu.steps.median());
    if (most == nullptr || gpu.steps.count() > most->count()) most = &gpu.steps;
    if (!rival) rival = gpu.steps.rival;
  }
  if (most == nullptr) {
    row(out, "step time",
        facts_.step_marker.empty() ? "no repeating work found"
                                   : "nothing named " + facts_.step_marker + " ended two steps");
    return;
  }
  const auto typical =
      static_cast<std::size_t>(std::count(most->typical.begin(), most->typical.end(), true));
  std::string text = fmt::format("{}, {} steps of {} kernels and copies",
                                 spread(lengths, duration_text), typical, most->items);
  if (typical < most->count()) {
    text += fmt::format("; {} more warm up or hold other work", most->count() - typical);
  }
  row(out, "step time", text);
  if (rival) {
    row(out, "",
        fmt::format("unsure: work of {} also repeats {} times; --step-marker NAME says "
                    "what ends a step",
                    duration_text(rival->length), rival->count));
  }
}

std::optional<Report::Unread> Report::unread() const {
  const auto launches = counters_.named.find("unread_kernels");
  if (launches == counters_.named.end()) return std::nullopt;
  Unread unread{.launches = launches->second};
  for (const auto& [name, total] : kernels_) {
    unread.all += total.total;
    if (!counters_.named.contains("unread_kernel " + name)) continue;
    unread.total += total.total;
    unread.longest.emplace_back(name, total.total);
  }
  std::stable_sort(unread.longest.begin(), unread.longest.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return unread;
}

/// Of all models, in the order of their ranks.
std::string Report::gpu_names() const {
  std::vector<std::string> names;
  for (const Kind& kind : kinds_) {
    if (std::find(names.begin(), names.end(), kind.name) == names.end()) names.push_back(kind.name);
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
    } else if (name != "unread_kernels" && !name.starts_with("unread_kernel ")) {
      row(out, name, std::to_string(n));
    }
  }
  const auto unread = this->unread();
  if (!unread) return;
  std::string text = fmt::format("{} launches", unread->launches);
  if (unread->longest.empty()) {
    row(out, "unread kernels", text + ", priced by their grid alone");
    return;
  }
  const auto share = [&](Duration part) {
    return unread->all > Duration{} ? to_seconds(part) / to_seconds(unread->all) : 0.0;
  };
  text += fmt::format(", {:.1f} % of kernel time, priced by their grid alone: {}",
                      100 * share(unread->total),
                      share(unread->total) < negligible ? "no worry" : "a worry");
  row(out, "unread kernels", text);
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
  std::vector<Duration> by_source(sources.size());
  for (const Gpu& gpu : gpus_) {
    for (std::size_t i = 0; i < sources.size(); ++i) by_source[i] += gpu.use.by_source[i];
  }
  const auto share = [&](Duration part) {
    const double whole = to_seconds(makespan_.time_since_epoch());
    return fmt::format("{} ({:.1f} %)", duration_text(part),
                       whole > 0 ? 100 * to_seconds(part) / whole : 0.0);
  };
  const auto label = [&](const Kind& kind) {
    const bool one_memory = std::count_if(kinds_.begin(), kinds_.end(), [&](const Kind& other) {
                              return other.name == kind.name;
                            }) == 1;
    return one_memory ? kind.name : kind.name + " with " + gib_text(kind.memory);
  };
  // A row for each kind of GPU: the spread of a figure over those.
  const auto by_kind = [&](std::string_view name, auto figure, auto text) {
    using Figure = decltype(figure(gpus_.front()));
    for (std::size_t k = 0; k < kinds_.size(); ++k) {
      std::vector<Figure> values;
      for (const Gpu& gpu : gpus_) {
        if (gpu.kind == k) values.push_back(figure(gpu));
      }
      line(k == 0 ? name : "",
           text(values, kinds_[k]) + (kinds_.size() > 1 ? ", " + label(kinds_[k]) : ""));
    }
  };
  out << fmt::format("\nphantora: {} on {}, {} GPUs\n", facts_.cluster, gpu_names(), gpus_.size());
  if (!facts_.cut_short.empty())
    line("partial", facts_.cut_short + "; what was simulated until then:");
  print_steps(out);
  line("simulated time", duration_text(makespan_.time_since_epoch()));
  const auto shares = [&](const std::vector<Duration>& values, const Kind&) {
    return spread(values, share);
  };
  by_kind(
      "GPU busy", [](const Gpu& gpu) { return gpu.use.busy; }, shares);
  by_kind(
      "exposed communication", [](const Gpu& gpu) { return gpu.use.exposed; }, shares);
  by_kind(
      "peak memory", [](const Gpu& gpu) { return gpu.peak_memory; },
      [&](const std::vector<std::uint64_t>& values, const Kind& kind) {
        const auto text = [](std::uint64_t b) {
          return gib_text(Bytes{static_cast<std::int64_t>(b)});
        };
        return spread(values, text) + " of " + gib_text(kind.memory);
      });
  const Duration total = std::accumulate(by_source.begin(), by_source.end(), Duration{});
  std::string text;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (total == Duration{} || (sources[i] == CostSource::unknown && by_source[i] == Duration{})) {
      continue;
    }
    text += fmt::format("{}{} {:.1f} %", text.empty() ? "" : ", ", sources[i],
                        100 * to_seconds(by_source[i]) / to_seconds(total));
  }
  line("kernel time by source", text.empty() ? "no kernels" : text);
  line("forced answers", std::to_string(counters_.forced_answers));
  print_doubts(out);
  line("simulation took", fmt::format("{:.1f} s", wall_seconds));
  out.flush();
}

void Report::write(const std::string& path) const {
  using Json = nlohmann::ordered_json;
  const auto seconds = [](Duration d) { return to_seconds(d); };
  Json json;
  json["phantora"] = PHANTORA_VERSION_STRING;
  json["cluster"] = facts_.cluster;
  json["gpu"] = gpu_names();
  json["command"] = facts_.command;
  json["status"] = facts_.status;
  json["partial"] = facts_.cut_short.empty() ? Json(nullptr) : Json(facts_.cut_short);
  json["host_time"] = facts_.host_time;
  json["host_scale"] = facts_.host_scale ? Json(*facts_.host_scale) : Json("auto");
  json["sync"] = "conservative";  // the only kind so far
  json["simulated_s"] = seconds(makespan_.time_since_epoch());
  // Where GPUs differ, each rank's entry says what its own is.
  json["gpu_memory_bytes"] =
      kinds_.size() == 1 ? Json(kinds_.front().memory.count()) : Json(nullptr);
  for (const Gpu& gpu : gpus_) {
    Json entry;
    entry["rank"] = gpu.rank;
    entry["host"] = gpu.host;
    if (kinds_.size() > 1) {
      entry["gpu"] = kinds_[gpu.kind].name;
      entry["gpu_memory_bytes"] = kinds_[gpu.kind].memory.count();
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
      entry["kernel_s_by_source"][std::string{to_string(source)}] =
          seconds(gpu.use.by_source[static_cast<std::size_t>(source)]);
    }
    entry["peak_memory_bytes"] = gpu.peak_memory;
    json["ranks"].push_back(std::move(entry));
  }
  // Longest first; equal ones by name.
  std::vector<const decltype(kernels_)::value_type*> ordered;
  for (const auto& entry : kernels_) ordered.push_back(&entry);
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto* a, const auto* b) { return a->second.total > b->second.total; });
  json["kernels"] = Json::array();
  for (const auto* entry : ordered) {
    json["kernels"].push_back({{"name", entry->first},
                               {"count", entry->second.count},
                               {"total_s", seconds(entry->second.total)},
                               {"source", to_string(entry->second.source)}});
  }
  json["forced_answers"] = counters_.forced_answers;
  json["late_operations"] = late_operations_;
  json["counters"] = Json::object();
  for (const auto& [name, n] : counters_.named) json["counters"][name] = n;
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
