#include "run/replay_command.hpp"

#include "run/cluster_choice.hpp"
#include "run/output_files.hpp"

#include <phantora/error.hpp>
#include <phantora/format.hpp>
#include <phantora/kernels/gpu_model.hpp>
#include <phantora/simulation/simulation.hpp>
#include <phantora/simulation/step_observer.hpp>
#include <phantora/simulation/trace.hpp>
#include <phantora/version.hpp>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <iostream>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace phantora::run {
namespace {

NcclVariables nccl_of(const ReplayOptions& options) {
  NcclVariables variables = nccl_environment();
  for (const std::string& text : options.nccl) {
    const std::size_t equals = text.find('=');
    if (equals == text.npos || !text.starts_with("NCCL_"))
      throw ConfigError{"--nccl " + text + ": expected NAME=VALUE, as in NCCL_ALGO=Ring"};
    variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return variables;
}

std::string gpu_names(const Cluster& cluster) {
  std::set<std::string> names;
  for (const Host& host : cluster.hosts) names.insert(gpu_model(host).name);
  return fmt::format("{}", fmt::join(names, " and "));
}

void row(std::string_view name, const std::string& value) {
  std::cout << fmt::format("  {:<23} {}\n", name, value);
}

/// "median (least .. greatest)" of what the ranks have.
template <class T, class Text>
std::string spread(std::vector<T> values, Text text) {
  std::sort(values.begin(), values.end());
  const T median = values[values.size() / 2];
  if (values.front() == values.back()) return text(median);
  return fmt::format("{} ({} .. {})", text(median), text(values.front()), text(values.back()));
}

/// What a replay gave.
struct Replayed {
  Report report;
  std::vector<Steps> steps{};  ///< by rank
  Time end{};                  ///< of the last work on a GPU, as phantora run counts it
};

void print(const ReplayOptions& options, const Cluster& cluster, const Replayed& result,
           double wall_seconds) {
  const auto& [report, steps, end] = result;
  std::cout << fmt::format("phantora: {} replayed on {}, {}, {} ranks\n", options.record,
                           options.cluster, gpu_names(cluster), report.ranks.size());
  std::vector<Duration> lengths;
  for (const Steps& of_rank : steps)
    if (of_rank.count() > 0) lengths.push_back(of_rank.median());
  row("step time", lengths.empty() ? "no repeating work found" : spread(lengths, [](Duration it) {
        return fmt::format("{}", it);
      }));
  row("simulated time", fmt::format("{}", end.time_since_epoch()));
  const auto share = [&](std::string_view name, Duration RankReport::*of) {
    std::vector<Duration> values;
    for (const RankReport& rank : report.ranks) values.push_back(rank.*of);
    const double whole = to_seconds(report.makespan);
    row(name, spread(values, [&](Duration it) {
          return fmt::format("{} ({:.1f} %)", it, whole > 0 ? 100 * to_seconds(it) / whole : 0.0);
        }));
  };
  share("computing", &RankReport::computing);
  share("exposed communication", &RankReport::exposed);
  share("waiting for ranks", &RankReport::waiting);
  std::vector<Bytes> peaks;
  for (const RankReport& rank : report.ranks) peaks.push_back(rank.peak_memory);
  row("peak memory", spread(peaks, [](Bytes it) { return fmt::format("{:.2GiB}", it); }) +
                         (report.fits() ? "" : ": more than there is"));
  const KernelTime kernels = report.kernels();
  std::string sources;
  for (std::size_t i = 0; i < kernels.by_source.size(); ++i) {
    if (kernels.by_source[i] == Duration{}) continue;
    sources += fmt::format("{}{} {:.1f} %", sources.empty() ? "" : ", ", static_cast<CostSource>(i),
                           100 * to_seconds(kernels.by_source[i]) / to_seconds(kernels.total));
  }
  row("kernel time by source", sources.empty() ? "no kernels" : sources);
  row("replay took", fmt::format("{:.1f} s", wall_seconds));
}

nlohmann::ordered_json json_of(const ReplayOptions& options, const Cluster& cluster,
                               const Replayed& result) {
  using Json = nlohmann::ordered_json;
  const auto& [report, steps, end] = result;
  Json json;
  json["phantora"] = PHANTORA_VERSION_STRING;
  json["record"] = options.record;
  json["cluster"] = options.cluster;
  json["gpu"] = gpu_names(cluster);
  json["host_scale"] = options.host_scale;
  json["simulated_s"] = to_seconds(end.time_since_epoch());
  json["makespan_s"] = to_seconds(report.makespan);
  json["ranks"] = Json::array();
  for (std::size_t rank = 0; rank < report.ranks.size(); ++rank) {
    const RankReport& it = report.ranks[rank];
    Json entry;
    entry["rank"] = rank;
    entry["host"] = cluster.host_of(cluster.gpus[report.gpus[rank]]).name;
    entry["step_s"] =
        steps[rank].count() > 0 ? Json(to_seconds(steps[rank].median())) : Json(nullptr);
    entry["steps"] = steps[rank].count();
    entry["kernels_per_step"] = steps[rank].items;
    Json starts = Json::array();
    for (const Time start : steps[rank].bounds)
      starts.push_back(to_seconds(start.time_since_epoch()));
    entry["step_starts_s"] = std::move(starts);
    entry["typical_steps"] = steps[rank].typical;
    entry["computing_s"] = to_seconds(it.computing);
    entry["communicating_s"] = to_seconds(it.communicating);
    entry["exposed_s"] = to_seconds(it.exposed);
    entry["waiting_s"] = to_seconds(it.waiting);
    entry["idle_s"] = to_seconds(it.idle);
    entry["kernels"] = it.kernels.kernels;
    for (std::size_t i = 0; i < it.kernels.by_source.size(); ++i)
      entry["kernel_s_by_source"][std::string{to_string(static_cast<CostSource>(i))}] =
          to_seconds(it.kernels.by_source[i]);
    entry["peak_memory_bytes"] = it.peak_memory.count();
    entry["memory_bytes"] = it.memory.count();
    entry["fits"] = it.fits();
    json["ranks"].push_back(std::move(entry));
  }
  json["critical_path"] = Json::array();
  for (const PathPart& part : report.critical_path) {
    json["critical_path"].push_back({{"kind", to_string(part.kind)},
                                     {"name", part.name},
                                     {"count", part.count},
                                     {"total_s", to_seconds(part.time)}});
  }
  return json;
}

}  // namespace

void add_options(CLI::App& command, ReplayOptions& options) {
  command
      .add_option("--cluster", options.cluster, "PRESET:HOSTSxGPUS, as in h200:2x8, or a TOML file")
      ->required();
  command.add_option("--gpu-memory", options.gpu_memory,
                     "memory of each GPU of the cluster, whatever its kind, as in 80GB");
  command
      .add_option(
          "--host-scale", options.host_scale,
          "how long host work takes of what was recorded, as in 0.5 for hosts twice as fast")
      ->check(CLI::NonNegativeNumber)
      ->check([](const std::string& text) {  // nan is not below 0 either
        const bool finite = std::isfinite(std::strtod(text.c_str(), nullptr));
        return std::string{finite ? "" : "expected a finite number, not " + text};
      })
      ->capture_default_str();
  command
      .add_option("--nccl", options.nccl,
                  "NAME=VALUE: a variable of NCCL's, as in NCCL_ALGO=Ring; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_option("--report", options.report, "write a JSON report");
  command.add_option("--trace", options.trace, "write a trace for Perfetto");
  command.add_option("--step-marker", options.step_marker,
                     "what ends a step: a part of a kernel's name, or \"optimizer\"");
}

int replay(const ReplayOptions& options) {
  check_writable("report", options.report);
  check_writable("trace", options.trace);
  const auto began = std::chrono::steady_clock::now();
  Workload workload = Workload::load(options.record);
  if (options.host_scale != 1) workload.scale_host_time(options.host_scale);
  const Simulation simulation{cluster_of(options.cluster, options.gpu_memory),
                              {.nccl = nccl_of(options)}};
  const Cluster& cluster = simulation.cluster();
  remove_old(options.report);
  remove_old(options.trace);
  StepObserver observed{options.step_marker};
  std::vector<SessionObserver*> observers{&observed};
  std::optional<TraceWriter> trace;
  if (!options.trace.empty()) {
    // A rank is the process after the one that the simulation itself is.
    trace.emplace(
        options.trace, [](ProcessIndex process) { return static_cast<int>(process) - 1; },
        names_of_unlike_gpus(cluster));
    observers.push_back(&*trace);
  }
  Replayed result{.report = simulation.run(workload, {}, observers)};
  if (trace) trace->close();
  for (const GpuIndex gpu : result.report.gpus) result.steps.push_back(observed.steps(gpu));
  result.end = observed.makespan();
  print(options, cluster, result,
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  if (!options.report.empty()) {
    std::ofstream file{options.report};
    file << json_of(options, cluster, result)
                .dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
         << '\n';
    file.close();
    if (!file) throw Error{"cannot write the report " + options.report};
  }
  return 0;
}

}  // namespace phantora::run
