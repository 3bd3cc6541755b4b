#include <phantora/simulation/recorder.hpp>
#include <phantora/simulation/simulation.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

namespace phantora {
namespace {

using namespace std::chrono_literals;

/// What ran, by GPU and in order of time.
class Spans final : public SessionObserver {
 public:
  void on_range(const NamedRange& range) override {
    ranges.emplace_back(std::string{range.name}, range.start, range.end);
  }
  std::vector<std::tuple<std::string, Time, Time>> ranges{};
  void on_span(const Span& span) override {
    all.emplace_back(span.gpu, span.start, span.end, std::string{span.name});
  }
  [[nodiscard]] std::vector<std::tuple<GpuIndex, Time, Time, std::string>> sorted() const {
    auto spans = all;
    std::sort(spans.begin(), spans.end());
    return spans;
  }
  std::vector<std::tuple<GpuIndex, Time, Time, std::string>> all{};
};

/// Prices that are easy to reckon with: as long as the query says.
struct Told {
  [[nodiscard]] static std::optional<CostEstimate> estimate(const KernelQuery& query) {
    return CostEstimate{.duration = Duration{static_cast<Duration::rep>(query.bytes)},
                        .source = CostSource::measured};
  }
};

KernelQuery kernel(Duration time) {
  return {.name = "kernel", .bytes = static_cast<double>(time.count())};
}

/// Ranks of one process each, driven by hand.
class Live {
 public:
  Live() { subscription_ = session.subscribe(spans); }

  StreamId stream(GpuIndex gpu, int priority = 0) {
    const StreamId id{++last_};
    recorder.add_stream(id, gpu, gpu, priority);
    session.add_stream(id, gpu, gpu, priority);
    return id;
  }
  CommunicatorId communicator(const std::vector<GpuIndex>& gpus) {
    const CommunicatorId id = session.add_communicator(gpus);
    recorder.add_communicator(id, gpus);
    return id;
  }
  void launch(const Recorder::Caller& caller, StreamId stream, Duration time) {
    const KernelQuery query = kernel(time);
    const QueryIndex index = session.add_query(query);
    recorder.add_query(index, query);
    recorder.launch(caller, stream, index);
    session.launch(stream, issued(caller, stream), index);
  }
  MarkerId record(const Recorder::Caller& caller, StreamId stream) {
    const MarkerId marker{++last_};
    recorder.record(caller, stream, marker);
    session.record(stream, issued(caller, stream), marker);
    return marker;
  }
  void all_reduce(const Recorder::Caller& caller, StreamId stream, CommunicatorId communicator,
                  int rank, Bytes size) {
    const GroupedCollective one{CollectiveOp::all_reduce, size};
    recorder.collective(caller, stream, communicator, {&one, 1});
    session.collective(stream, issued(caller, stream), communicator, rank, {&one, 1});
  }
  /// @return the thread's clock when it goes on.
  Time synchronize(const Recorder::Caller& caller, MarkerId marker) {
    recorder.synchronize(caller, marker);
    session.synchronize(caller.process, caller.thread, caller.clock, marker);
    return answer().clock;
  }
  bool query(const Recorder::Caller& caller, MarkerId marker) {
    recorder.query(caller, marker);
    session.query(caller.process, caller.thread, caller.clock, marker);
    return answer().done;
  }
  void finish() {
    while (!session.advance(bounds).empty()) {
    }
  }

  Cluster cluster = parse_cluster("h200:1x2");
  Session session{cluster, [](const GpuModel&) { return KernelCostModel{Told{}}; }};
  Recorder recorder{session, 2};
  Spans spans{};
  const std::array<Time, 2> bounds{never, never};

 private:
  [[nodiscard]] Time issued(const Recorder::Caller& caller, StreamId stream) const {
    return std::max(caller.clock, session.last_issued(stream));
  }
  Answer answer() {
    const std::vector<Answer> answers = session.advance(bounds);
    EXPECT_EQ(answers.size(), 1U);
    for (const Answer& one : answers) recorder.answered(one);
    return answers.front();
  }
  Subscription subscription_{};
  std::uint64_t last_ = 0;
};

auto replayed(const Workload& workload, const std::string& cluster = "h200:1x2") {
  Spans spans;
  const std::vector<SessionObserver*> observers{&spans};
  (void)Simulation{parse_cluster(cluster),
                   {.costs = [](const GpuModel&) { return KernelCostModel{Told{}}; }}}
      .run(workload, {}, observers);
  return spans.sorted();
}

constexpr Time at(Duration time) { return Time{time}; }

TEST(Recorder, OperationsTakePlaceWhenTheyDid) {
  Live live;
  const StreamId first = live.stream(0), second = live.stream(0), other = live.stream(1);
  const CommunicatorId all = live.communicator({0, 1});
  live.launch({0, 0, at(3us)}, first, 20us);
  const MarkerId marker = live.record({0, 0, at(5us)}, first);
  live.recorder.wait({0, 0, at(6us)}, second, marker);
  live.session.wait(second, at(6us), marker);
  live.all_reduce({0, 0, at(7us)}, second, all, 0, 1_MiB);
  live.launch({1, 0, at(100us)}, other, 10us);
  live.all_reduce({1, 0, at(101us)}, other, all, 1, 1_MiB);
  const MarkerId end = live.record({0, 0, at(8us)}, second);
  const Time clock = live.synchronize({0, 0, at(9us)}, end);
  EXPECT_GT(clock, at(110us));
  live.launch({0, 0, clock + 4us}, first, 5us);
  live.finish();
  const Workload workload = live.recorder.workload();
  EXPECT_EQ(replayed(workload), live.spans.sorted());
  EXPECT_EQ(live.spans.all.size(), 5U);
  EXPECT_EQ(Workload::from_binary(workload.to_binary()), workload);
}

TEST(Recorder, StreamsKeepTheirPriority) {
  Live live;
  const StreamId usual = live.stream(0), first = live.stream(0, -2);
  (void)live.stream(0, -1);  // nothing is put there
  live.launch({0, 0, at(0us)}, usual, 100us);
  live.launch({0, 0, at(20us)}, first, 10us);
  live.launch({0, 0, at(25us)}, first, 10us);
  live.finish();
  const Workload workload = live.recorder.workload();
  EXPECT_EQ(replayed(workload), live.spans.sorted());
  EXPECT_EQ(std::get<2>(live.spans.sorted().at(1)) - std::get<1>(live.spans.sorted().at(1)), 10us);
  const std::string text = workload.to_json();
  EXPECT_NE(text.find("[\"priority\",-2,1]"), text.npos);
  EXPECT_EQ(text.find("[\"priority\"", text.find("[\"priority\"") + 1), text.npos);
}

TEST(Recorder, ThreadsGoOnFromThoseThatWokeThem) {
  Live live;
  const StreamId stream = live.stream(0), other = live.stream(0);
  // The main thread waits for a kernel, and wakes another, which launches and waits in its turn.
  live.launch({0, 0, at(1us)}, stream, 50us);
  const Time first = live.synchronize({0, 0, at(2us)}, live.record({0, 0, at(2us)}, stream));
  live.launch({0, 1, first + 3us}, other, 70us);
  const MarkerId marker = live.record({0, 1, first + 3us}, other);
  const Time second = live.synchronize({0, 1, first + 3us}, marker);
  live.launch({0, 0, second + 1us}, stream, 10us);
  live.finish();
  const Workload workload = live.recorder.workload();
  EXPECT_EQ(replayed(workload), live.spans.sorted());

  // Where the first kernel takes another time, all that came of it is later by as much.
  const std::string text = workload.to_json();
  std::string longer = text;
  const std::string from = "\"bytes\":50000000.0";
  ASSERT_NE(longer.find(from), std::string::npos);
  longer.replace(longer.find(from), from.size(), "\"bytes\":90000000.0");
  auto expected = live.spans.sorted();
  std::get<2>(expected[0]) += 40us;
  for (std::size_t i = 1; i < expected.size(); ++i) {
    std::get<1>(expected[i]) += 40us;
    std::get<2>(expected[i]) += 40us;
  }
  EXPECT_EQ(replayed(Workload::from_json(longer)), expected);
}

TEST(Recorder, LoopsOfQueriesEndWhenTheWorkDoes) {
  Live live;
  const StreamId stream = live.stream(0);
  live.launch({0, 0, at(0us)}, stream, 20us);
  const MarkerId marker = live.record({0, 0, at(0us)}, stream);
  Time clock = at(2us);
  while (!live.query({0, 0, clock}, marker)) clock += 7us;
  live.launch({0, 0, clock}, stream, 1us);
  live.finish();
  const Workload workload = live.recorder.workload();
  EXPECT_EQ(replayed(workload), live.spans.sorted());
  const auto operations = workload.operations(0);
  EXPECT_EQ(std::count_if(
                operations.begin(), operations.end(),
                [](const auto& it) { return std::holds_alternative<Workload::Synchronize>(it); }),
            1);
}

TEST(Recorder, RangesLieWhereTheWorkDoes) {
  Live live;
  const StreamId stream = live.stream(0);
  const auto name = [&](std::uint32_t thread, Time clock, std::uint64_t range,
                        const std::string& text) {
    live.recorder.end_range({0, thread, clock}, range, text);
  };
  live.recorder.begin_range({0, 0, at(1us)}, 1);  // before the thread uses the GPU
  live.launch({0, 0, at(3us)}, stream, 20us);
  live.recorder.begin_range({0, 0, at(4us)}, 2);
  const Time done = live.synchronize({0, 0, at(5us)}, live.record({0, 0, at(5us)}, stream));
  name(0, done, 2, "inner");
  name(0, done + 2us, 0, "mark");
  live.recorder.begin_range({0, 7, done}, 3);  // of a thread that never uses one
  name(7, done + 5us, 3, "elsewhere");
  name(0, done + 3us, 1, "outer");
  live.finish();
  const Workload workload = live.recorder.workload();
  const auto ranges = [](const Workload& job) {
    Spans seen;
    const std::vector<SessionObserver*> observers{&seen};
    (void)Simulation{parse_cluster("h200:1x2"),
                     {.costs = [](const GpuModel&) { return KernelCostModel{Told{}}; }}}
        .run(job, {}, observers);
    return seen.ranges;
  };
  using Ranges = decltype(Spans::ranges);
  EXPECT_EQ(ranges(workload), (Ranges{{"inner", at(4us), done},
                                      {"mark", done + 2us, done + 2us},
                                      {"outer", at(1us), done + 3us}}));
  // Where the kernel takes longer, so do those that wait for it.
  std::string longer = workload.to_json();
  const std::string from = "\"bytes\":20000000.0";
  ASSERT_NE(longer.find(from), std::string::npos);
  longer.replace(longer.find(from), from.size(), "\"bytes\":50000000.0");
  EXPECT_EQ(ranges(Workload::from_json(longer)), (Ranges{{"inner", at(4us), done + 30us},
                                                         {"mark", done + 32us, done + 32us},
                                                         {"outer", at(1us), done + 33us}}));
}

TEST(Recorder, AQueryThatNobodyWaitsForTakesNoTime) {
  Live live;
  const StreamId stream = live.stream(0);
  live.launch({0, 0, at(0us)}, stream, 20us);
  const MarkerId marker = live.record({0, 0, at(0us)}, stream);
  EXPECT_FALSE(live.query({0, 0, at(1us)}, marker));
  live.launch({0, 0, at(2us)}, stream, 20us);
  EXPECT_TRUE(live.query({0, 0, at(60us)}, marker));
  live.launch({0, 0, at(60us)}, stream, 20us);
  live.finish();
  const Workload workload = live.recorder.workload();
  EXPECT_EQ(replayed(workload), live.spans.sorted());
  for (const auto& operation : workload.operations(0))
    EXPECT_FALSE(std::holds_alternative<Workload::Synchronize>(operation));
}

TEST(Recorder, AMarkerThatNobodyRecordedHasCome) {
  Live live;
  const StreamId stream = live.stream(0);
  EXPECT_TRUE(live.query({1, 3, at(1us)}, MarkerId{1'000}));
  EXPECT_EQ(live.synchronize({1, 3, at(1us)}, MarkerId{1'000}), at(1us));
  live.launch({0, 0, at(2us)}, stream, 20us);
  live.finish();
  EXPECT_EQ(replayed(live.recorder.workload()), live.spans.sorted());
}

TEST(Recorder, KeepsCommunicatorsOfTheSameRanksApart) {
  Live live;
  const StreamId a = live.stream(0), b = live.stream(0), c = live.stream(1), d = live.stream(1);
  const CommunicatorId unused = live.communicator({0, 1});
  const CommunicatorId one = live.communicator({0, 1}), two = live.communicator({0, 1});
  (void)unused;
  // Each rank calls them in an order of its own.
  live.all_reduce({0, 0, at(0us)}, a, one, 0, 1_MiB);
  live.all_reduce({0, 0, at(1us)}, b, two, 0, 2_MiB);
  live.all_reduce({1, 0, at(0us)}, d, two, 1, 2_MiB);
  live.all_reduce({1, 0, at(5us)}, c, one, 1, 1_MiB);
  live.finish();
  EXPECT_EQ(replayed(live.recorder.workload()), live.spans.sorted());
  EXPECT_EQ(live.spans.all.size(), 4U);
}

TEST(Recorder, CountsWhatIsHeld) {
  Live live;
  const StreamId stream = live.stream(0);
  live.recorder.hold_context(0, 0, 1_GiB, true);
  live.recorder.hold(0, 0, 3_GiB, {});
  live.recorder.hold_context(1, 0, 1_GiB, true);
  live.recorder.hold_context(1, 0, 1_GiB, false);
  live.recorder.hold(0, 0, 1_GiB, {});
  live.recorder.hold(0, 0, {}, 2_GiB);  // a part of the first
  live.recorder.hold(0, 0, 1_GiB, {});
  live.recorder.end(0);
  live.recorder.hold(1, 0, 4_GiB, {});  // the next process
  live.recorder.hold(1, 0, 1_GiB, 1_GiB);
  live.launch({0, 0, at(3us)}, stream, 1us);
  live.finish();
  const Report report = Simulation{live.cluster}.run(live.recorder.workload());
  EXPECT_EQ(report.peak_memory(), gpu_model("h200").context_memory + 4_GiB);
}

TEST(Recorder, WhatCannotRunToItsEndIsLeftOut) {
  Live live;
  const StreamId first = live.stream(0), other = live.stream(1);
  const CommunicatorId all = live.communicator({0, 1});
  for (GpuIndex rank = 0; rank < 2; ++rank) {
    const StreamId stream = rank == 0 ? first : other;
    live.launch({rank, 0, at(1us)}, stream, 5us);
    live.all_reduce({rank, 0, at(2us)}, stream, all, static_cast<int>(rank), 1_MiB);
    live.launch({rank, 0, at(3us)}, stream, 6us);
  }
  // Only one rank comes to call the next; the other waits for what the first did after it.
  live.all_reduce({0, 0, at(4us)}, first, all, 0, 1_MiB);
  live.launch({0, 0, at(5us)}, first, 7us);
  const MarkerId marker = live.record({0, 0, at(6us)}, first);
  live.recorder.wait({1, 0, at(7us)}, other, marker);
  live.session.wait(other, at(7us), marker);
  live.launch({1, 0, at(8us)}, other, 8us);
  live.finish();
  const Workload told = live.recorder.workload();
  EXPECT_EQ(replayed(told), live.spans.sorted());
  EXPECT_EQ(live.spans.all.size(), 6U);
}

}  // namespace
}  // namespace phantora
