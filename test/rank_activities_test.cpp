#include "engine_fake.hpp"
#include "rank/runtime/communicators.hpp"
#include "rank/runtime/program_ticks.hpp"
#include "rank/runtime/streams.hpp"

#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>
#include <x86intrin.h>

namespace phantora::rank {
namespace {

using namespace std::chrono_literals;
using channel::Op;

class RankActivities : public testing::Test {
 protected:
  RankActivities() {
    clocks.connected(*engine.connection);
    thread.issues = true;
    KernelQuery query;
    query.name = "fill";
    fill = streams.intern(thread, query, {.name = "_Z4fillv", .registers = 12});
    stream = &streams.create(thread, 0, 1, 0);
    (void)engine.records();
  }
  /// The tags of what was launched since.
  std::vector<std::uint64_t> tags() {
    std::vector<std::uint64_t> all;
    for (const channel::Record& record : engine.records())
      if (record.op == Op::launch) all.push_back(record.b);
    return all;
  }
  void call(const CalledFunction& function, Time begin, Time end, int launches) {
    activities.call_begins(thread, function, begin);
    for (int i = 0; i < launches; ++i) streams.launch(thread, *stream, fill);
    activities.call_ends(thread, end);
  }

  FakeEngine engine;
  ThreadClocks clocks{HostTimePolicy{.kind = HostTime::off}};
  DataQueue data;
  Activities activities;
  Streams streams{clocks, data, activities, [](int device) { return device; }};
  HostThread thread;
  QueryId fill{};
  Stream* stream = nullptr;
  static constexpr CalledFunction launch{Interface::runtime, "cudaLaunchKernel"};
};

TEST_F(RankActivities, NothingIsAskedOfTheEngineWhileNobodyWantsIt) {
  call(launch, Time{1us}, Time{2us}, 1);
  EXPECT_EQ(tags(), std::vector<std::uint64_t>{0});
  EXPECT_TRUE(activities.unfinished().empty());
  EXPECT_TRUE(activities.take().empty());
}

TEST_F(RankActivities, AnOperationIsToldOfWhenItsTimesAreKnown) {
  activities.want(Activities::launches | Activities::calls);
  call(launch, Time{1us}, Time{2us}, 1);
  call(launch, Time{3us}, Time{4us}, 1);
  EXPECT_EQ(tags(), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(activities.unfinished(), std::vector<Stream*>{stream});
  EXPECT_EQ(activities.take().size(), 2U);  // the calls
  const channel::TaggedSpan ran{
      .tag = 2, .start_ps = Duration{6us}.count(), .end_ps = Duration{9us}.count()};
  activities.finish(std::span{&ran, 1});
  const std::vector<Activity> told = activities.take();
  ASSERT_EQ(told.size(), 1U);
  const auto& operation = std::get<LaunchActivity>(told[0]);
  EXPECT_EQ(operation.query->name, "fill");
  EXPECT_STREQ(operation.code.name, "_Z4fillv");
  EXPECT_EQ(operation.stream, stream);
  EXPECT_EQ(operation.call, 2U);
  EXPECT_EQ(operation.start, Time{6us});
  EXPECT_EQ(operation.end, Time{9us});
}

TEST_F(RankActivities, ALibraryLaunchesByCallsOfItsOwn) {
  activities.want(Activities::launches | Activities::calls);
  thread.clock.wait_until(Time{4us});
  call({}, Time{3us}, Time{5us}, 2);
  const std::vector<Activity> told = activities.take();
  ASSERT_EQ(told.size(), 2U);
  const auto& first = std::get<CallActivity>(told[0]);
  const auto& second = std::get<CallActivity>(told[1]);
  EXPECT_STREQ(first.function.name, "cuLaunchKernelEx");
  EXPECT_EQ(first.start, Time{3us});
  EXPECT_EQ(first.end, Time{4us});
  EXPECT_EQ(second.start, Time{4us});
  EXPECT_EQ(second.call, first.call + 1);
}

TEST_F(RankActivities, ACallBearsTheNumbersThatTheProgramHasPushed) {
  activities.want(Activities::launches | Activities::named_calls);
  EXPECT_EQ(Activities::pop_number(1), std::nullopt);
  Activities::push_number(1, 100);
  Activities::push_number(1, 101);
  Activities::push_number(2, 200);
  call(launch, Time{1us}, Time{2us}, 1);
  EXPECT_EQ(Activities::pop_number(1), 101U);
  EXPECT_EQ(Activities::pop_number(2), 200U);
  call(launch, Time{3us}, Time{4us}, 1);
  EXPECT_EQ(Activities::pop_number(1), 100U);
  std::vector<std::uint64_t> told;
  for (const Activity& activity : activities.take()) {
    const auto& named = std::get<NamedCallActivity>(activity);
    told.insert(told.end(), {named.kind, named.number, named.call});
  }
  EXPECT_EQ(told, (std::vector<std::uint64_t>{1, 101, 1, 2, 200, 1, 1, 100, 2}));
}

TEST_F(RankActivities, AGroupsCollectivesAreOneKernelAndItsMessagesAnother) {
  activities.want(Activities::launches);
  Communicators communicators{clocks, streams, activities};
  CollectiveCall reduce{.op = channel::Collective::all_reduce,
                        .count = 1 << 20,
                        .type = channel::DataType::float32,
                        .stream = stream};
  CollectiveCall message = reduce;
  message.op = channel::Collective::send;
  const std::vector<CollectiveCall> group{reduce, message, reduce, message};
  communicators.enqueue(thread, group);
  const auto records = engine.records();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].a, 1U);
  EXPECT_EQ(records[0].b, 2U);
  communicators.enqueue(thread, std::span{group}.first(1));
  EXPECT_EQ(engine.records().at(0).b, 0U);
}

TEST(ProgramTicks, ReadingsBecomeWhatTheClockShowedThen) {
  ProgramTicks ticks;
  EXPECT_FALSE(ticks.converter(Time{1us}, 0));  // PyTorch's own way does
  ticks.begin(Time{1us});
  const std::uint64_t early = __rdtsc();
  ticks.sample(Time{1us});  // host work was free
  const std::uint64_t between = __rdtsc();
  ticks.sample(Time{5ms});  // a wait
  const std::uint64_t late = __rdtsc();
  const auto convert = ticks.converter(Time{6ms}, 1'000'000'000).value();
  EXPECT_EQ(convert(early), 1'000'001'000);
  EXPECT_GE(convert(between), 1'000'001'000);
  EXPECT_LE(convert(between), 1'005'000'000);
  EXPECT_GE(convert(late), 1'005'000'000);
  EXPECT_LE(convert(late), 1'006'000'000);
  EXPECT_EQ(convert(__rdtsc()), 1'006'000'000);
  // Instants that are no readings stay what they are.
  EXPECT_EQ(convert(instant_as_ticks(1'800'000'000'123'456'789)), 1'800'000'000'123'456'789);
  ticks.end();
  EXPECT_FALSE(ticks.converter(Time{7ms}, 0));
}

TEST(ProgramTicks, TimeDoesNotGoBackBetweenThreads) {
  ProgramTicks ticks;
  ticks.begin(Time{5us});
  ticks.sample(Time{3us});  // another thread's clock
  const std::uint64_t reading = __rdtsc();
  ticks.sample(Time{9us});
  EXPECT_GE(ticks.converter(Time{9us}, 0).value()(reading), 5'000);
}

}  // namespace
}  // namespace phantora::rank
