#include <phantora/simulation/simulation.hpp>
#include <phantora/simulation/step_observer.hpp>

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace phantora {
namespace {

using namespace std::chrono_literals;

/// `steps` times: layers of 10 us each, then an update of 5 us.
Workload steps_of(int layers, int steps, const std::string& update) {
  Workload w;
  for (int step = 0; step < steps; ++step) {
    for (int layer = 0; layer < layers; ++layer) w.launch(0, known_time(10us, "layer"));
    w.launch(0, known_time(5us, update));
  }
  return w;
}

StepObserver observed(const Workload& w, const std::string& marker = {}) {
  const DeviceTiming timing{.launch_latency = Duration{}, .kernel_gap = Duration{}};
  StepObserver observer{marker};
  const std::vector<SessionObserver*> observers{&observer};
  (void)Simulation{parse_cluster("h200:1x1"), {.timing = timing}}.run(w, {}, observers);
  return observer;
}

TEST(StepObserver, StepsEndWhereParametersAreUpdated) {
  const StepObserver observer = observed(steps_of(4, 6, "FusedAdam"));
  EXPECT_EQ(observer.steps(0).median(), 45us);
  EXPECT_EQ(observer.makespan(), Time{270us});
  EXPECT_EQ(observer.kernels().at("layer").count, 24U);
  EXPECT_EQ(observer.kernels().at("layer").total, 240us);
  EXPECT_EQ(observer.steps(7).count(), 0U);
}

TEST(StepObserver, AStepOfManyIsTheirMedian) {
  const std::vector<GpuIndex> with_work{0}, without{0, 7}, none{7};
  const StepObserver observer = observed(steps_of(4, 6, "FusedAdam"));
  EXPECT_EQ(observer.step(with_work), 45us);
  EXPECT_EQ(observer.step(without), 45us);  // those without steps do not count
  EXPECT_EQ(observer.step(none), std::nullopt);
}

TEST(StepObserver, OrWhereTheUserSays) {
  EXPECT_EQ(observed(steps_of(4, 6, "mine"), "mine").steps(0).median(), 45us);
  EXPECT_EQ(observed(steps_of(4, 6, "mine"), "nothing").steps(0).count(), 0U);
}

TEST(StepObserver, OrWhereTheProgramDid) {
  StepObserver observer = observed(steps_of(4, 6, "mine"), "step");
  for (const auto end : {90us, 180us, 270us})
    observer.on_range({.process = 1, .name = "a step", .end = Time{end}});
  observer.on_range({.process = 1, .name = "other", .end = Time{100us}});
  EXPECT_EQ(observer.steps(0).bounds, (std::vector<Time>{Time{90us}, Time{180us}, Time{270us}}));
}

TEST(StepObserver, SaysWhatATypicalStepConsistsOf) {
  StepObserver observer;
  const auto span = [&](Span::Kind kind, StreamId stream, Duration from, Duration to) {
    observer.on_span(
        {.stream = stream, .kind = kind, .name = "any", .start = Time{from}, .end = Time{to}});
  };
  using Kind = Span::Kind;
  // Each step of 100 us: two streams compute until 50 us, one after and beside the other; a
  // communication goes on until 80 us.
  for (const Duration begin : {0us, 100us, 200us}) {
    span(Kind::compute, StreamId{1}, begin, begin + 30us);
    span(Kind::copy, StreamId{2}, begin + 10us, begin + 50us);
    span(Kind::communication, StreamId{3}, begin + 20us, begin + 80us);
  }
  // The first step warms up, and does not count.
  const Steps steps{.bounds = {Time{0us}, Time{100us}, Time{200us}, Time{300us}},
                    .typical = {false, true, true}};
  EXPECT_EQ(observer.parts(0, steps),
            (StepParts{.computing = 50us, .exposed = 30us, .idle = 20us}));
  EXPECT_EQ(observer.parts(1, steps), (StepParts{.idle = 100us}));
  EXPECT_EQ(observer.parts(0, {}), StepParts{});
}

TEST(StepObserver, PricesOfANameAreOffAlike) {
  StepObserver observer;
  for (const Duration off : {1us, 1us, 4us})
    observer.on_span({.name = "mine", .end = Time{10us}, .stddev = off});
  EXPECT_EQ(observer.kernels().at("mine").deviation, 6us);
}

}  // namespace
}  // namespace phantora
