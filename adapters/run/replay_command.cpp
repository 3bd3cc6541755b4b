#include "run/replay_command.hpp"

#include "run/cluster_choice.hpp"
#include "run/kernel_files.hpp"
#include "run/output_files.hpp"
#include "run/report.hpp"

#include <phantora/error.hpp>
#include <phantora/format.hpp>
#include <phantora/simulation/host_profile.hpp>
#include <phantora/simulation/session_report.hpp>
#include <phantora/simulation/simulation.hpp>
#include <phantora/simulation/step_observer.hpp>
#include <phantora/simulation/trace.hpp>
#include <phantora/simulation/widen.hpp>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace phantora::run {
namespace {

/// What the record does not say, and the command line does not either, comes from where we are.
NcclVariables nccl_of(const Workload& recorded, const Variant& variant) {
  NcclVariables variables;
  if (recorded.origin().empty()) variables = nccl_environment();
  for (const auto& [name, value] : recorded.origin())
    if (name.starts_with("NCCL_")) variables[name] = value;
  for (const std::string& text : variant.nccl) {
    const std::size_t equals = text.find('=');
    if (equals == text.npos || !text.starts_with("NCCL_"))
      throw ConfigError{"--nccl " + text + ": expected NAME=VALUE, as in NCCL_ALGO=Ring"};
    variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return variables;
}

/// @param text  as in "8x". @throws ConfigError
std::uint32_t factor_of(const std::string& text) {
  std::uint32_t factor = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, factor);
  if (read.ec != std::errc{} || std::string_view{read.ptr, end} != "x" || factor == 0)
    throw ConfigError{"--widen " + text + ": expected a factor, as in 8x"};
  return factor;
}

/// How long host work takes of what was recorded. @throws ConfigError
double host_scale(const Variant& variant) {
  if (variant.host.empty()) return variant.host_scale;
  return slowness(host_profile(variant.host), host_presets().front()).work;
}

/// Whether the variant is another workload than what was recorded.
bool changes_workload(const Variant& variant) {
  return !variant.widen.empty() || host_scale(variant) != 1;
}
Workload changed(const Workload& recorded, const Variant& variant) {
  try {
    Workload workload = recorded;
    if (!variant.widen.empty()) {
      const std::uint32_t factor = factor_of(variant.widen);
      workload = variant.narrower.empty()
                     ? widen(recorded, factor, variant.replica)
                     : widen(recorded, factor, variant.replica, Workload::load(variant.narrower));
    }
    workload.scale_host_time(host_scale(variant));
    return workload;
  } catch (const ArgumentError& error) {
    throw ConfigError{error.what()};
  }
}

/// Runs what was recorded, or another variant of it.
phantora::Report run(const Workload& recorded, const Variant& variant, const Simulation& simulation,
                     std::span<SessionObserver* const> observers) {
  std::optional<Workload> other;
  if (changes_workload(variant)) other = changed(recorded, variant);
  return simulation.run(other ? *other : recorded, {}, observers);
}

/// On the cluster of the record where none is named.
Variant on_a_cluster(const Workload& recorded, Variant variant) {
  const Workload::Origin& origin = recorded.origin();
  const auto cluster = origin.find("cluster");
  if (!variant.cluster.empty() || cluster == origin.end()) return variant;
  variant.cluster = cluster->second;
  const auto memory = origin.find("gpu_memory");
  if (!variant.gpu_memory && memory != origin.end()) variant.gpu_memory = memory->second;
  return variant;
}

Simulation simulation_of(const Workload& recorded, const Variant& variant,
                         const std::vector<std::string>& databases) {
  if (variant.cluster.empty())
    throw ConfigError{"expected a --cluster, as in h200:2x8: the record names none"};
  const Cluster cluster = cluster_of(variant.cluster, variant.gpu_memory);
  return Simulation{cluster,
                    {.costs = costs_of(databases, cluster), .nccl = nccl_of(recorded, variant)}};
}

using Json = nlohmann::ordered_json;

void write(const std::string& path, const Json& json) {
  std::ofstream file{path};
  file << json.dump(1, ' ', false, Json::error_handler_t::replace) << '\n';
  file.close();
  if (!file) throw Error{"cannot write the report " + path};
}

void add_variant(CLI::App& command, Variant& variant) {
  command.add_option("--cluster", variant.cluster,
                     "PRESET:HOSTSxGPUS, as in h200:2x8, or a TOML file (default: that of the "
                     "record)");
  command.add_option("--gpu-memory", variant.gpu_memory,
                     "memory of each GPU of the cluster, whatever its kind, as in 80GB");
  CLI::Option* const host = command.add_option(
      "--host", variant.host,
      "as if on this host: a preset of phantora host --list, or a file that phantora host wrote;\n"
      "the record counts as one of the default host");
  command
      .add_option(
          "--host-scale", variant.host_scale,
          "how long host work takes of what was recorded, as in 0.5 for hosts twice as fast")
      ->check(CLI::NonNegativeNumber)
      ->check([](const std::string& text) {  // nan is not below 0 either
        const bool finite = std::isfinite(std::strtod(text.c_str(), nullptr));
        return std::string{finite ? "" : "expected a finite number, not " + text};
      })
      ->capture_default_str();
  command.get_option("--host-scale")->excludes(host);
  command
      .add_option("--nccl", variant.nccl,
                  "NAME=VALUE: a variable of NCCL's, as in NCCL_ALGO=Ring; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_option("--widen", variant.widen,
                     "so many times as many data-parallel replicas, as in 8x");
  command
      .add_option("--replica", variant.replica,
                  "ranks of one data-parallel replica: tensor times pipeline parallelism")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--narrower", variant.narrower,
                     "with --widen: a record of the job with fewer replicas, which tells how sizes "
                     "of shards (FSDP, ZeRO) follow their number");
}

/// The options of each line; those of the command line hold where a line has none.
std::vector<std::pair<std::string, Variant>> read_variants(const ReplayOptions& options) {
  std::ifstream file{options.variants};
  if (!file) throw ConfigError{options.variants + ": expected a file, got none that can be read"};
  std::vector<std::pair<std::string, Variant>> variants;
  std::size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == line.npos || line.front() == '#') continue;
    Variant variant = options.variant;
    CLI::App app;
    add_variant(app, variant);
    const std::string place = options.variants + ":" + std::to_string(number) + ": ";
    try {
      app.parse(line);
    } catch (const CLI::ParseError& problem) {
      throw ConfigError{place + problem.what()};
    }
    variants.emplace_back(line, std::move(variant));
  }
  return variants;
}

/// A bar on the terminal, if there is one, and how long the rest will take.
class Bar {
 public:
  explicit Bar(std::size_t all) : all_{all}, shown_{isatty(STDERR_FILENO) != 0} {}
  void show(std::size_t done) const {
    if (!shown_) return;
    constexpr std::size_t width = 40;
    const std::size_t filled = done * width / all_;
    const double passed = std::chrono::duration<double>(Clock::now() - began_).count();
    fmt::print(stderr, "\r[{:#<{}}{:.<{}}] {}/{}, {:.0f} s left ", "", filled, "", width - filled,
               done, all_,
               passed * static_cast<double>(all_ - done) /
                   static_cast<double>(std::max<std::size_t>(done, 1)));
    if (done == all_) fmt::print(stderr, "\n");
    std::fflush(stderr);
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::size_t all_;
  bool shown_;
  Clock::time_point began_ = Clock::now();
};

/// What many variants are compared by.
struct Outcome {
  std::optional<Duration> step{};
  Time end{};
  Duration exposed{};
  Bytes peak{};
  bool fits = true;
  std::string error{};  ///< why it cannot be run
};

Outcome outcome_of(const Workload& recorded, const Variant& given, const ReplayOptions& options) {
  try {
    const Variant variant = on_a_cluster(recorded, given);
    StepObserver observed{options.step_marker};
    SessionObserver* const observers[] = {&observed};
    const phantora::Report report =
        run(recorded, variant, simulation_of(recorded, variant, options.kernels), observers);
    return {observed.step(report.gpus), observed.makespan(), report.exposed(),
            report.peak_memory(),       report.fits(),       {}};
  } catch (const Error& error) {
    return {.error = error.what()};
  }
}

int replay_all(const ReplayOptions& options) {
  const auto variants = read_variants(options);
  const Workload workload = Workload::load(options.record);
  std::vector<Outcome> outcomes(variants.size());
  std::mutex mutex;
  std::size_t next = 0, done = 0;
  const Bar bar{variants.size()};
  const auto work = [&] {
    std::unique_lock lock{mutex};
    while (next < variants.size()) {
      const std::size_t mine = next++;
      lock.unlock();
      Outcome outcome = outcome_of(workload, variants[mine].second, options);
      lock.lock();
      outcomes[mine] = std::move(outcome);
      bar.show(++done);
    }
  };
  const auto began = std::chrono::steady_clock::now();
  {
    const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
    std::vector<std::jthread> threads;
    for (unsigned i = 1; i < (options.jobs > 0 ? static_cast<unsigned>(options.jobs) : cores); ++i)
      threads.emplace_back(work);
    work();
  }
  Json json = Json::array();
  bool failed = false;
  std::cout << fmt::format("{:>12} {:>12} {:>12} {:>10}  {}\n", "step", "whole", "exposed",
                           "memory", "variant");
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const Outcome& it = outcomes[i];
    Json entry{{"variant", variants[i].first}};
    if (!it.error.empty()) {
      failed = true;
      std::cout << fmt::format("{:>49}  {}: {}\n", "", variants[i].first, it.error);
      entry["error"] = it.error;
    } else {
      std::cout << fmt::format(
          "{:>12} {:>12} {:>12} {:>10}  {}{}\n", it.step ? fmt::format("{}", *it.step) : "-",
          fmt::format("{}", it.end.time_since_epoch()), fmt::format("{}", it.exposed),
          fmt::format("{:.2GiB}", it.peak), variants[i].first, it.fits ? "" : " (does not fit)");
      entry["step_s"] = it.step ? Json(to_seconds(*it.step)) : Json(nullptr);
      entry["simulated_s"] = to_seconds(it.end.time_since_epoch());
      entry["exposed_s"] = to_seconds(it.exposed);
      entry["peak_memory_bytes"] = it.peak.count();
      entry["fits"] = it.fits;
    }
    json.push_back(std::move(entry));
  }
  std::cout << fmt::format(
      "{} variants in {:.1f} s\n", variants.size(),
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  if (!options.report.empty()) write(options.report, json);
  return failed ? 2 : 0;
}

}  // namespace

void add_options(CLI::App& command, ReplayOptions& options) {
  add_variant(command, options.variant);
  command.add_option("--variants", options.variants,
                     "a file with the options above on each line: a row for each of them");
  command.add_option("--jobs", options.jobs, "variants at a time (default: the cores)")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--kernels", options.kernels,
                  "a kernel database, of phantora measure; repeatable, first hit wins")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_option("--report", options.report, "write a JSON report");
  command.add_option("--trace", options.trace, "write a trace for Perfetto");
  command.add_option(
      "--step-marker", options.step_marker,
      "what ends a step: an NVTX range or mark, a part of a kernel's name, or \"optimizer\"");
}

int replay(ReplayOptions options) {
  check_writable("report", options.report);
  check_writable("trace", options.trace);
  if (!options.variants.empty()) {
    if (!options.trace.empty()) throw ConfigError{"--trace: expected one replay, got --variants"};
    return replay_all(options);
  }
  const auto began = std::chrono::steady_clock::now();
  const Workload workload = Workload::load(options.record);
  options.variant = on_a_cluster(workload, options.variant);
  const Simulation simulation = simulation_of(workload, options.variant, options.kernels);
  const Cluster& cluster = simulation.cluster();
  remove_old(options.report);
  remove_old(options.trace);
  std::optional<TraceWriter> trace;
  if (!options.trace.empty()) {
    // A rank is the process after the one that the simulation itself is.
    trace.emplace(
        options.trace, [](ProcessIndex process) { return static_cast<int>(process) - 1; },
        names_of_unlike_gpus(cluster));
  }
  StepObserver observed{options.step_marker};
  std::vector<SessionObserver*> observers{&observed};
  if (trace) observers.push_back(&*trace);
  phantora::Report replayed = run(workload, options.variant, simulation, observers);
  if (trace) trace->close();
  if (replayed.ranks.empty()) throw ConfigError{options.record + ": no rank used a GPU"};
  const auto cut_short = workload.origin().find("cut_short");
  SessionReport simulated = session_report(cluster, replayed, observed);
  const Report report{{.cluster = options.variant.cluster,
                       .record = options.record,
                       .widen = options.variant.widen.empty() ? "1x" : options.variant.widen,
                       .host_time = "recorded",
                       .host_scale = host_scale(options.variant),
                       .host = options.variant.host,
                       .step_marker = options.step_marker,
                       .cut_short = cut_short == workload.origin().end() ? "" : cut_short->second},
                      std::move(simulated),
                      std::move(replayed)};
  report.print(std::cout,
               std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  if (!options.report.empty()) report.write(options.report);
  return 0;
}

}  // namespace phantora::run
