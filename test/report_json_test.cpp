#include "run/report.hpp"

#include <phantora/error.hpp>
#include <phantora/kernels/builtin_cost_model.hpp>
#include <phantora/simulation/session.hpp>
#include <phantora/simulation/simulation.hpp>
#include <phantora/simulation/step_observer.hpp>
#include <phantora/version.hpp>

#include <nlohmann/json.hpp>

#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace phantora::run {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::ordered_json;

/// Steps on two GPUs of unlike kinds, one of which has a kernel without code besides.
SessionReport simulated(const Cluster& cluster, StepObserver& observed) {
  for (GpuIndex gpu = 0; gpu < 2; ++gpu) {
    Time at{};
    for (int step = 0; step < 5; ++step) {
      for (const auto* const name : {"gemm", "FusedAdam"}) {
        const bool last = std::string_view{name} == "FusedAdam";
        observed.on_span({.gpu = gpu,
                          .process = gpu + 1,
                          .stream = StreamId{gpu},
                          .kind = Span::Kind::compute,
                          .source = last ? CostSource::grid : CostSource::measured,
                          .name = name,
                          .identity = last ? 2U : 1U,
                          .start = at + 1us,
                          .end = at + 11us,
                          .stddev = 1us});
        at += 12us;
      }
    }
  }
  const Session session{cluster, builtin_cost_model};
  SessionReport report = session_report(cluster, session, observed);
  for (GpuReport& gpu : report.gpus) {
    gpu.use.busy = 100us;
    gpu.use.kernels = 10;
    gpu.use.by_source[static_cast<std::size_t>(CostSource::grid)] = 50us;
    gpu.use.by_source[static_cast<std::size_t>(CostSource::measured)] = 50us;
  }
  return report;
}

Report of_a_run() {
  const Cluster cluster = parse_cluster("h200:1x1+l40s:1x1");
  StepObserver observed;
  SessionReport report = simulated(cluster, observed);
  RunCounters counters;
  counters.forced_answers = 3;
  counters.answers_at_rest = 7;
  counters.named = {{"unread_kernels", 5}, {"unread_kernel FusedAdam", 5}, {"assumed_routing", 2}};
  return {
      {.cluster = "h200:1x1+l40s:1x1",
       .command = {"python", "train \"it\".py"},
       .host_time = "measured",
       .host = "h200",
       .sensitivity = HostSensitivity{.step = 30us, .free = 10us, .faster = 28us, .slower = 33us},
       .step_marker = "optimizer",
       .routing = "random",
       .status = 1,
       .cut_short = "rank 1 exited with status 1",
       .wall_seconds = 12.25},
      std::move(report),
      std::move(counters),
      {1U << 30U, 3U << 30U}};
}

Report of_a_replay() {
  Workload w;
  for (int step = 0; step < 4; ++step) {
    for (const Rank rank : {0U, 1U}) {
      w.launch(rank, known_time(10us, "layer"));
      w.launch(rank, known_time(5us, "FusedAdam"));
    }
    w.all_reduce({0U, 1U}, Bytes{1 << 20});
  }
  const Simulation simulation{parse_cluster("h200:1x2")};
  StepObserver observed;
  SessionObserver* const observers[] = {&observed};
  phantora::Report workload = simulation.run(w, {}, observers);
  SessionReport report = session_report(simulation.cluster(), workload, observed);
  return {{.cluster = "h200:1x2",
           .record = "job.rec",
           .widen = "1x",
           .host_time = "recorded",
           .host_scale = 0.5},
          std::move(report),
          std::move(workload)};
}

std::string printed(const Report& report) {
  std::ostringstream text;
  report.print(text, report.facts().wall_seconds);
  return text.str();
}

void expect_same(const Report& report) {
  const std::string json = report.to_json();
  const Report again = Report::parse(json, "report.json");
  EXPECT_EQ(again.to_json(), json);
  EXPECT_EQ(printed(again), printed(report));
}

TEST(ReportJson, IsReadAsItWasWritten) {
  const Report run = of_a_run();
  ASSERT_TRUE(run.step());
  EXPECT_EQ(*run.step(), 24us);
  expect_same(run);
  expect_same(of_a_replay());
}

TEST(ReportJson, AStepOfAnotherHostIsToldBesideTheRunsOwn) {
  // The record's step took 30 us and the run's 24: 28 of 30 are 22.4 of 24.
  EXPECT_EQ(of_a_run().facts().sensitivity->faster, 22'400ns);
}

std::string refusal(const std::string& text) {
  try {
    (void)Report::parse(text, "report.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

/// What may be absent: it is there where there is something to say.
bool optional_field(const std::string& field) {
  for (const char* const known :
       {"step_marker", "routing", "unread", "host", "wall_s", "step_unsure", "share_of_step",
        "database", "measured", "fitted", "roofline", "code", "grid", "unknown", "gpu", "sync",
        "unread_kernels", "unread_kernel FusedAdam", "assumed_routing"})
    if (field == known) return true;
  return false;
}

/// What is not read, since other fields say it (here GPUs differ, so that each rank says its own),
/// and what tells a replay from a run.
bool follows_from_others(const std::string& path) {
  for (const char* const known : {"/sync", "/gpu", "/gpu_memory_bytes", "/unread/launches",
                                  "/unread/total_s", "/ranks/1/fits", "/record"})
    if (path == known) return true;
  return false;
}

/// Takes each field away, and puts something in its place that it cannot be.
void expect_fields_named(const Json& whole, const Json::json_pointer& place) {
  const Json& here = whole.at(place);
  if (here.is_array() && !here.empty() && here[0].is_object())
    return expect_fields_named(whole, place / (here.size() - 1));
  if (!here.is_object()) return;
  for (const auto& [field, _] : here.items()) {
    if (follows_from_others(place.to_string() + "/" + field)) continue;
    Json wrong = whole;
    wrong[place / field] = Json::object({{"an", "object"}});
    if (!here[field].is_object()) {
      EXPECT_NE(refusal(wrong.dump()).find(field), std::string::npos) << place / field;
    }
    Json without = whole;
    without[place].erase(field);
    const std::string told = refusal(without.dump());
    if (!optional_field(field)) {
      EXPECT_NE(told.find(field + ": expected "), std::string::npos) << place / field << told;
    }
    expect_fields_named(whole, place / field);
  }
}

TEST(ReportJson, WhatIsWrongIsNamed) {
  expect_fields_named(Json::parse(of_a_run().to_json()), Json::json_pointer{});
  expect_fields_named(Json::parse(of_a_replay().to_json()), Json::json_pointer{});
}

TEST(ReportJson, ErrorsSayWhatWasExpected) {
  EXPECT_EQ(refusal("{"),
            "report.json: expected JSON, as phantora run and replay --report write it");
  EXPECT_EQ(
      refusal("[1]"),
      "report.json: expected an object, as phantora run and replay --report write it, got [1]");
  EXPECT_EQ(refusal("{}"), "report.json: phantora: expected text, got nothing");
  EXPECT_EQ(refusal(R"({"phantora": "0.0.1"})"),
            "report.json: phantora: expected a report of this version, \"" PHANTORA_VERSION_STRING
            "\", got \"0.0.1\"");
  Json json = Json::parse(of_a_run().to_json());
  json["ranks"][1]["busy_s"] = -1;
  EXPECT_EQ(refusal(json.dump()),
            "report.json: ranks[1].busy_s: expected seconds from 0 to 9e6, got -1");
}

}  // namespace
}  // namespace phantora::run
