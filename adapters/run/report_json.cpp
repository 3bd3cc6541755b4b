// A report as JSON, and what was written read again (README.md lists the fields).

#include "run/report.hpp"

#include <phantora/error.hpp>
#include <phantora/version.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace phantora::run {
namespace {

using Json = nlohmann::ordered_json;

/// Near the end of what a Duration holds.
constexpr double most_seconds = 9e6;

/// An object of the report, which complains about what is wrong with its fields.
class Fields {
 public:
  /// @param name  of the object as errors call it, such as "ranks[3]"; empty: the report itself.
  Fields(const Json& object, std::string_view source, std::string name = {})
      : object_{object}, source_{source}, name_{std::move(name)} {
    if (!object_.is_object())
      throw wrong_value(name_, "an object, as phantora run and replay --report write it", &object_);
  }

  [[nodiscard]] bool has(const char* field) const { return object_.contains(field); }
  [[nodiscard]] bool is_null(const char* field) const {
    const Json* const value = find(field);
    return value != nullptr && value->is_null();
  }
  [[nodiscard]] std::string text(const char* field) const {
    return of(field, "text", &Json::is_string).get<std::string>();
  }
  [[nodiscard]] std::string text_if_any(const char* field) const {
    return has(field) ? text(field) : std::string{};
  }
  template <class Whole>
  [[nodiscard]] Whole whole(const char* field) const {
    return whole<Whole>(field, of(field, expected_whole, &Json::is_number_integer));
  }
  template <class Whole>
  [[nodiscard]] Whole whole(const char* field, const Json& value) const {
    // Not below 0 either: such a number is not of an unsigned type.
    if (!value.is_number_unsigned() ||
        value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<Whole>::max()))
      throw wrong(field, expected_whole);
    return value.get<Whole>();
  }
  [[nodiscard]] double number(const char* field) const {
    const Json& value = of(field, "a number", &Json::is_number);
    if (!std::isfinite(value.get<double>())) throw wrong(field, "a number");
    return value.get<double>();
  }
  [[nodiscard]] Duration seconds(const char* field) const {
    return seconds(field, of(field, expected_seconds, &Json::is_number));
  }
  [[nodiscard]] Duration seconds(const char* field, const Json& value) const {
    if (!value.is_number() || !(value.get<double>() >= 0 && value.get<double>() <= most_seconds))
      throw wrong(field, expected_seconds);
    return Duration{std::llround(value.get<double>() * 1e12)};
  }
  [[nodiscard]] const Json& list(const char* field) const {
    return of(field, "a list", &Json::is_array);
  }
  [[nodiscard]] Fields object(const char* field) const {
    return {of(field, "an object", &Json::is_object), source_, path(field)};
  }
  /// The objects of a list.
  [[nodiscard]] std::vector<Fields> objects(const char* field) const {
    std::vector<Fields> all;
    for (const Json& each : list(field))
      all.emplace_back(each, source_, fmt::format("{}[{}]", path(field), all.size()));
    return all;
  }
  [[nodiscard]] const Json& json() const noexcept { return object_; }

  [[nodiscard]] ConfigError wrong(const char* field, std::string_view expected) const {
    return wrong_value(path(field), expected, find(field));
  }

 private:
  static constexpr std::string_view expected_whole = "a whole number from 0 on",
                                    expected_seconds = "seconds from 0 to 9e6";

  [[nodiscard]] const Json* find(const char* field) const {
    const auto found = object_.find(field);
    return found == object_.end() ? nullptr : &*found;
  }
  [[nodiscard]] const Json& of(const char* field, std::string_view expected,
                               bool (Json::*is)() const noexcept) const {
    const Json* const value = find(field);
    if (value == nullptr || !(value->*is)()) throw wrong(field, expected);
    return *value;
  }
  [[nodiscard]] std::string path(const char* field) const {
    return name_.empty() ? field : name_ + "." + field;
  }
  [[nodiscard]] ConfigError wrong_value(std::string_view path, std::string_view expected,
                                        const Json* got) const {
    constexpr std::size_t longest = 60;
    std::string text =
        got == nullptr ? "nothing" : got->dump(-1, ' ', true, Json::error_handler_t::replace);
    if (text.size() > longest) text = text.substr(0, longest) + "...";
    return ConfigError{fmt::format("{}: {}{}expected {}, got {}", source_, path,
                                   path.empty() ? "" : ": ", expected, text)};
  }

  const Json& object_;
  std::string source_, name_;
};

template <class Kind, class Kinds>
Kind named(const Fields& fields, const char* field, const Kinds& kinds) {
  std::string known;
  const std::string name = fields.text(field);
  for (const Kind kind : kinds) {
    if (to_string(kind) == name) return kind;
    known += (known.empty() ? "" : ", ") + std::string{to_string(kind)};
  }
  throw fields.wrong(field, "one of " + known);
}

Steps read_steps(const Fields& rank) {
  Steps steps{.items = rank.whole<std::size_t>("kernels_per_step")};
  for (const Json& start : rank.list("step_starts_s")) {
    const Time bound{rank.seconds("step_starts_s", start)};
    if (!steps.bounds.empty() && bound < steps.bounds.back())
      throw rank.wrong("step_starts_s", "instants in order");
    steps.bounds.push_back(bound);
  }
  for (const Json& typical : rank.list("typical_steps")) {
    if (!typical.is_boolean()) throw rank.wrong("typical_steps", "true or false for each step");
    steps.typical.push_back(typical.get<bool>());
  }
  if (steps.typical.size() != steps.count())
    throw rank.wrong("typical_steps", fmt::format("as many as there are steps, {}", steps.count()));
  if (rank.whole<std::size_t>("steps") != steps.count())
    throw rank.wrong("steps", fmt::format("{}, one less than step_starts_s", steps.count()));
  const bool one = steps.count() > 0;
  if (one ? rank.seconds("step_s") != steps.median() : !rank.is_null("step_s"))
    throw rank.wrong("step_s", one ? fmt::format("{}, the median of the typical steps",
                                                 to_seconds(steps.median()))
                                   : "null, there being no step");
  if (rank.has("step_unsure")) {
    const Fields rival = rank.object("step_unsure");
    steps.rival = {.count = rival.whole<std::size_t>("steps"), .length = rival.seconds("step_s")};
  }
  return steps;
}

GpuUse read_use(const Fields& rank) {
  GpuUse use{.busy = rank.seconds("busy_s"),
             .communication = rank.seconds("communication_s"),
             .exposed = rank.seconds("exposed_communication_s"),
             .kernels = rank.whole<std::uint64_t>("kernels")};
  const Fields sources = rank.object("kernel_s_by_source");
  for (const CostSource source : shown_sources) {
    const std::string name{to_string(source)};
    if (sources.has(name.c_str()))
      use.by_source[static_cast<std::size_t>(source)] = sources.seconds(name.c_str());
  }
  return use;
}

StepParts read_parts(const Fields& rank) {
  if (rank.whole<std::size_t>("steps") == 0) return {};
  const Fields parts = rank.object("step_parts_s");
  return {.computing = parts.seconds("computing"),
          .exposed = parts.seconds("exposed_communication"),
          .idle = parts.seconds("idle")};
}

RunFacts read_facts(const Fields& fields) {
  RunFacts facts{.cluster = fields.text("cluster"),
                 .host_time = fields.text("host_time"),
                 .step_marker = fields.text_if_any("step_marker"),
                 .routing = fields.text_if_any("routing")};
  if (fields.has("record")) {
    facts.record = fields.text("record");
    if (facts.record.empty()) throw fields.wrong("record", "the path of a record");
    facts.widen = fields.text("widen");
  } else {
    for (const Json& word : fields.list("command")) {
      if (!word.is_string()) throw fields.wrong("command", "a list of text");
      facts.command.push_back(word.get<std::string>());
    }
    facts.status = fields.whole<int>("status");
  }
  if (!fields.is_null("partial")) facts.cut_short = fields.text("partial");
  if (!fields.has("host_scale") || fields.json()["host_scale"] != "auto")
    facts.host_scale = fields.number("host_scale");
  if (fields.has("wall_s")) facts.wall_seconds = fields.number("wall_s");
  return facts;
}

/// All but the kernels.
SessionReport read_ranks(const Fields& fields) {
  SessionReport simulated{.makespan = Time{fields.seconds("simulated_s")}};
  for (const Fields& rank : fields.objects("ranks")) {
    if (rank.whole<std::size_t>("rank") != simulated.gpus.size())
      throw rank.wrong("rank", fmt::format("{}, its place", simulated.gpus.size()));
    // Where all GPUs are alike, the report says it once.
    const Fields& of_gpu = rank.has("gpu") ? rank : fields;
    const GpuKind kind{of_gpu.text("gpu"), Bytes{of_gpu.whole<std::int64_t>("gpu_memory_bytes")}};
    auto known = std::find(simulated.kinds.begin(), simulated.kinds.end(), kind);
    if (known == simulated.kinds.end()) known = simulated.kinds.insert(known, kind);
    simulated.gpus.push_back({.host = rank.text("host"),
                              .kind = static_cast<std::size_t>(known - simulated.kinds.begin()),
                              .steps = read_steps(rank),
                              .parts = read_parts(rank),
                              .use = read_use(rank)});
  }
  if (simulated.gpus.empty()) throw fields.wrong("ranks", "at least one rank");
  return simulated;
}

std::vector<std::uint64_t> read_peak_memory(const Fields& fields) {
  std::vector<std::uint64_t> bytes;
  for (const Fields& rank : fields.objects("ranks"))  // Bytes have a sign
    bytes.push_back(static_cast<std::uint64_t>(rank.whole<std::int64_t>("peak_memory_bytes")));
  return bytes;
}

std::vector<NamedKernel> read_kernels(const Fields& fields) {
  std::map<std::string, Duration> by_grid;
  if (fields.has("unread")) {
    for (const Fields& kernel : fields.object("unread").objects("kernels"))
      by_grid[kernel.text("name")] = kernel.seconds("total_s");
  }
  std::vector<NamedKernel> kernels;
  for (const Fields& kernel : fields.objects("kernels")) {
    NamedKernel read{.name = kernel.text("name"),
                     .count = kernel.whole<std::uint64_t>("count"),
                     .total = kernel.seconds("total_s"),
                     .source = named<CostSource>(kernel, "source", shown_sources),
                     .deviation = kernel.seconds("deviation_s")};
    if (const auto found = by_grid.find(read.name); found != by_grid.end())
      read.by_grid = std::min(found->second, read.total);
    kernels.push_back(std::move(read));
  }
  return kernels;
}

RunCounters read_counters(const Fields& fields) {
  RunCounters counters;
  counters.forced_answers = fields.whole<std::uint64_t>("forced_answers");
  const Fields named = fields.object("counters");
  for (const auto& [name, n] : named.json().items())
    counters.named[name] = named.whole<std::uint64_t>(name.c_str(), n);
  if (fields.has("wall_s"))
    counters.answers_at_rest = fields.whole<std::uint64_t>("answers_at_rest");
  return counters;
}

/// What a replay says besides.
phantora::Report read_workload(const Fields& fields) {
  phantora::Report workload{.makespan = fields.seconds("makespan_s")};
  for (const Fields& rank : fields.objects("ranks")) {
    RankReport& read = workload.ranks.emplace_back();
    read.computing = rank.seconds("computing_s");
    read.exposed = rank.seconds("exposed_s");
    read.waiting = rank.seconds("waiting_s");
    read.idle = rank.seconds("idle_s");
    read.communicating = rank.seconds("communicating_s");
    read.peak_memory = Bytes{rank.whole<std::int64_t>("peak_memory_bytes")};
    read.memory = Bytes{rank.whole<std::int64_t>("memory_bytes")};
  }
  constexpr std::array kinds = {PathKind::kernel, PathKind::communication, PathKind::host,
                                PathKind::launch, PathKind::queueing};
  for (const Fields& part : fields.objects("critical_path"))
    workload.critical_path.push_back({.kind = named<PathKind>(part, "kind", kinds),
                                      .name = part.text("name"),
                                      .count = part.whole<std::uint64_t>("count"),
                                      .time = part.seconds("total_s")});
  return workload;
}

/// Sums of these are made, which have to be Durations too.
void expect_sums(const SessionReport& simulated, std::string_view source) {
  double by_source = 0, kernels = 0;
  for (const GpuReport& gpu : simulated.gpus)
    for (const Duration time : gpu.use.by_source) by_source += to_seconds(time);
  for (const NamedKernel& kernel : simulated.kernels) kernels += to_seconds(kernel.total);
  for (const auto& [field, sum] :
       {std::pair{"ranks: kernel_s_by_source", by_source}, std::pair{"kernels: total_s", kernels}})
    if (sum > most_seconds)
      throw ConfigError{fmt::format("{}: {}: expected a sum of up to {:g} s, got {:g} s", source,
                                    field, most_seconds, sum)};
}

HostSensitivity read_sensitivity(const Fields& host, std::optional<Duration> step) {
  if (!step || *step == Duration{})
    throw host.wrong("share_of_step", "nothing, there being no step");
  const HostSensitivity read{.step = *step,
                             .free = host.seconds("step_s_if_free"),
                             .faster = host.seconds("step_s_if_20_percent_faster"),
                             .slower = host.seconds("step_s_if_20_percent_slower")};
  if (!(std::abs(host.number("share_of_step") - read.share()) < 1e-6))
    throw host.wrong("share_of_step", fmt::format("{}, as step_s_if_free has it", read.share()));
  return read;
}

}  // namespace

std::string Report::to_json() const {
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
    if (facts_.sensitivity) {
      const HostSensitivity& of = *facts_.sensitivity;
      json["host"]["share_of_step"] = of.share();
      json["host"]["step_s_if_free"] = seconds(of.free);
      json["host"]["step_s_if_20_percent_faster"] = seconds(of.faster);
      json["host"]["step_s_if_20_percent_slower"] = seconds(of.slower);
    } else if (!facts_.no_sensitivity.empty()) {
      json["host"]["share_not_known"] = facts_.no_sensitivity;
    }
  }
  if (!facts_.step_marker.empty()) json["step_marker"] = facts_.step_marker;
  if (!facts_.routing.empty()) json["routing"] = facts_.routing;
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
    if (gpu.steps.count() > 0) {
      entry["step_parts_s"] = {{"computing", seconds(gpu.parts.computing)},
                               {"exposed_communication", seconds(gpu.parts.exposed)},
                               {"idle", seconds(gpu.parts.idle)}};
    }
    entry["busy_s"] = seconds(gpu.use.busy);
    entry["communication_s"] = seconds(gpu.use.communication);
    entry["exposed_communication_s"] = seconds(gpu.use.exposed);
    entry["kernels"] = gpu.use.kernels;
    for (const CostSource source : shown_sources) {
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
                               {"source", to_string(kernel.source)},
                               {"deviation_s", seconds(kernel.deviation)}});
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
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + '\n';
}

void Report::write(const std::string& path) const {
  std::ofstream file{path};
  file << to_json();
  file.close();
  if (!file) throw Error{"cannot write the report " + path};
}

Report Report::parse(std::string_view text, std::string_view source) {
  const Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded())
    throw ConfigError{
        fmt::format("{}: expected JSON, as phantora run and replay --report write it", source)};
  const Fields fields{document, source};
  if (fields.text("phantora") != PHANTORA_VERSION_STRING)
    throw fields.wrong("phantora", "a report of this version, \"" PHANTORA_VERSION_STRING "\"");
  RunFacts facts = read_facts(fields);
  SessionReport simulated = read_ranks(fields);
  simulated.kernels = read_kernels(fields);
  expect_sums(simulated, source);
  std::optional<Fields> host;
  if (fields.has("host")) {
    host.emplace(fields.object("host"));
    facts.host = host->text("name");
    facts.no_sensitivity = host->text_if_any("share_not_known");
  }
  const bool replayed = !facts.record.empty();
  if (!replayed) simulated.late_operations = fields.whole<std::uint64_t>("late_operations");
  Report report = replayed ? Report{std::move(facts), std::move(simulated), read_workload(fields)}
                           : Report{std::move(facts), std::move(simulated), read_counters(fields),
                                    read_peak_memory(fields)};
  if (host && host->has("share_of_step"))
    report.facts_.sensitivity = read_sensitivity(*host, report.step());
  return report;
}

Report Report::read(const std::string& path) {
  std::ifstream file{path};
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  if (!file || text.empty())
    throw ConfigError{path + ": expected a report of phantora run or replay, cannot be read"};
  return parse(text, path);
}

}  // namespace phantora::run
