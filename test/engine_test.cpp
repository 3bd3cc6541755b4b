#include "run/engine.hpp"

#include "channel_fake.hpp"

#include <phantora/kernels/query_text.hpp>
#include <phantora/kernels/roofline.hpp>

#include <array>
#include <csignal>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace phantora::run {
namespace {

using channel::Op;
using channel::Record;

const std::string socket_name = "phantora-engine-test-" + std::to_string(getpid());

/// A job of H200s: its session and the engine.
struct Job {
  explicit Job(const char* gpus, EngineOptions options = {})
      : cluster{parse_cluster(gpus)},
        session{cluster, gpu_model("h200"), Roofline{gpu_model("h200")}},
        engine{cluster, session, with_socket(std::move(options))} {}

  static EngineOptions with_socket(EngineOptions options) {
    options.socket_name = socket_name;
    return options;
  }

  Cluster cluster;
  Session session;
  Engine engine;
};

/// What the engine says once rank 0 of two has done this.
std::string refusal(const std::function<void(FakeRank&)>& does) {
  Job job{"h200:1x2"};
  FakeRank first{job.engine, socket_name, 0}, second{job.engine, socket_name, 1};
  try {
    does(first);
    job.engine.step(std::chrono::milliseconds{0});
    job.engine.finish();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void expect_refused(const std::function<void(FakeRank&)>& does) {
  const std::string message = refusal(does);
  EXPECT_NE(message.find("rank 0 sent what no rank sends"), std::string::npos) << message;
}

std::vector<std::byte> with_payload(Record record, std::span<const std::byte> payload) {
  record.payload_bytes = static_cast<std::uint32_t>(payload.size());
  std::vector<std::byte> bytes(sizeof record + payload.size());
  std::memcpy(bytes.data(), &record, sizeof record);
  std::memcpy(bytes.data() + sizeof record, payload.data(), payload.size());
  return bytes;
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all{"/proc/self/fd"};
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST(Engine, LeavesNoDescriptorsWhereItCannotBegin) {
  const Cluster cluster = parse_cluster("h200:1x2");
  const GpuModel gpu = gpu_model("h200");
  Session session{cluster, gpu, Roofline{gpu}};
  const std::size_t before = open_descriptors();
  {
    const Engine first{cluster, session, {.socket_name = socket_name}};
    const std::size_t with_one = open_descriptors();
    EXPECT_THROW((Engine{cluster, session, {.socket_name = socket_name}}), Error);  // it is taken
    EXPECT_EQ(open_descriptors(), with_one);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Engine, TakesWhatRanksSend) {
  EXPECT_EQ(refusal([](FakeRank& rank) { rank.append({.op = Op::create_stream, .stream = 1}); }),
            "");
}

TEST(Engine, TellsAProcessOfItsTaggedSpansThatHaveEndedByTheClockOfWhoAsks) {
  Job job{"h200:1x1"};
  FakeRank rank{job.engine, socket_name, 0};
  channel::RankShared& shared = rank.shared();
  shared.threads[0].state = channel::ThreadState::running;
  shared.thread_count = 1;
  KernelQuery query;
  query.name = "memset";
  query.bytes = 1 << 20;
  const std::string text = to_text(query);
  rank.append({.op = Op::create_stream, .stream = 1});
  rank.append(with_payload({.op = Op::define_query, .a = 0}, std::as_bytes(std::span{text})));
  constexpr std::int64_t second = 1'000'000'000'000, much_later = 100 * second;
  rank.append({.op = Op::launch, .stream = 1, .a = 0, .b = 5});
  rank.append({.op = Op::launch, .stream = 1, .a = 0});
  rank.append({.op = Op::launch, .clock_ps = 2 * second, .stream = 1, .a = 0, .b = 6});
  shared.threads[0].clock_ps = much_later;  // nothing earlier comes: all of it is simulated
  job.engine.step(std::chrono::milliseconds{0});
  const auto take = [&](std::int64_t clock_ps) {
    rank.append({.op = Op::take_spans, .clock_ps = clock_ps});
    job.engine.step(std::chrono::milliseconds{0});
    EXPECT_EQ(shared.threads[0].reply.clock_ps, clock_ps);
    return rank.delivery<channel::TaggedSpan>();
  };
  const auto first = take(second);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].tag, 5U);
  EXPECT_GT(first[0].end_ps, first[0].start_ps);
  EXPECT_LT(first[0].end_ps, second);
  const auto later = take(3 * second);
  ASSERT_EQ(later.size(), 1U);
  EXPECT_EQ(later[0].tag, 6U);
  EXPECT_GE(later[0].start_ps, 2 * second);
  EXPECT_EQ(take(much_later).size(), 0U);
}

TEST(Engine, StreamsHaveTheirPriority) {
  Job job{"h200:1x1"};
  FakeRank rank{job.engine, socket_name, 0};
  channel::RankShared& shared = rank.shared();
  shared.threads[0].state = channel::ThreadState::running;
  shared.thread_count = 1;
  const std::string text = to_text(KernelQuery{.name = "mine", .bytes = 1 << 30});
  rank.append(with_payload({.op = Op::define_query, .a = 0}, std::as_bytes(std::span{text})));
  rank.append({.op = Op::create_stream, .stream = 1});
  rank.append({.op = Op::create_stream, .stream = 2, .a = 5});
  rank.append({.op = Op::launch, .stream = 1, .a = 0, .b = 5});
  rank.append({.op = Op::launch, .stream = 2, .a = 0, .b = 6});
  constexpr std::int64_t much_later = 1'000'000'000'000;
  shared.threads[0].clock_ps = much_later;
  job.engine.step(std::chrono::milliseconds{0});
  rank.append({.op = Op::take_spans, .clock_ps = much_later});
  job.engine.step(std::chrono::milliseconds{0});
  auto spans = rank.delivery<channel::TaggedSpan>();
  ASSERT_EQ(spans.size(), 2U);
  if (spans[0].tag == 6) std::swap(spans[0], spans[1]);
  EXPECT_EQ(spans[0].start_ps, spans[1].start_ps);
  EXPECT_EQ(spans[0].end_ps - spans[0].start_ps, 2 * (spans[1].end_ps - spans[1].start_ps));
}

// A program may write anywhere, and so over the memory that its hooks share with the engine: the
// run ends with the rank's name, and nothing outside of that memory is read.
TEST(Engine, RecordsThatGoBeyondTheRingAreRefused) {
  expect_refused([](FakeRank& rank) { rank.shared().written = 2 * channel::ring_bytes; });
  expect_refused([](FakeRank& rank) { rank.append({.op = Op::counter, .payload_bytes = ~0U}); });
  expect_refused([](FakeRank& rank) {
    rank.append(std::vector<std::byte>(3));
    rank.shared().written = 3;
  });
}

TEST(Engine, RecordsThatNameWhatIsNotThereAreRefused) {
  expect_refused([](FakeRank& rank) { rank.append({.op = Op::launch, .stream = 1, .a = 7}); });
  expect_refused([](FakeRank& rank) { rank.append({.op = Op::create_stream, .device = 9}); });
  expect_refused([](FakeRank& rank) { rank.append({.op = Op::create_stream, .a = ~0U}); });
  expect_refused([](FakeRank& rank) { rank.append({.op = Op::synchronize, .thread = 1U << 20U}); });
  expect_refused([](FakeRank& rank) { rank.append({.op = Op::record, .clock_ps = -1}); });
  expect_refused(
      [](FakeRank& rank) { rank.append({.op = Op::join_communicator, .a = 2, .b = 2}); });
  expect_refused([](FakeRank& rank) { rank.append({.op = Op::collective}); });
}

TEST(Engine, MoreThreadsThanThereIsRoomForAreNotLookedFor) {
  EXPECT_EQ(refusal([](FakeRank& rank) { rank.shared().thread_count = ~0U; }), "");
}

TEST(Engine, CollectivesOfNoKindAreRefused) {
  const auto joined = [](channel::CollectiveRecord call) {
    call.communicator |= std::uint64_t{1} << 20U;
    return [call](FakeRank& rank) {
      const std::array<std::byte, 128> id{};
      rank.append(with_payload({.op = Op::join_communicator, .a = 1}, id));
      rank.append({.op = Op::create_stream, .stream = 1});
      rank.append(
          with_payload({.op = Op::collective, .stream = 1}, std::as_bytes(std::span{&call, 1})));
    };
  };
  EXPECT_EQ(refusal(joined({.count = 4, .type = 7})), "");
  expect_refused(joined({.communicator = 1, .count = 4, .type = 7}));  // rank 1 of 1
  expect_refused(joined({.count = 4, .type = 12}));
  expect_refused(joined({.count = 4, .op = 10, .type = 7}));
  expect_refused(joined({.count = 4, .type = 7, .peer = 1}));
  expect_refused(joined({.count = ~std::uint64_t{0}, .type = 7}));
}

/// A process with one thread, which sleeps until something is sent to it and computes from then on.
class Reader {
 public:
  Reader() {
    if (pipe(ends_) != 0) throw std::runtime_error{"no pipe"};
    pid_ = fork();
    if (pid_ != 0) return;
    char byte = 0;
    [[maybe_unused]] const ssize_t got = read(ends_[0], &byte, 1);
    while (true) asm volatile("");
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(ends_[0]);
    close(ends_[1]);
  }
  [[nodiscard]] pid_t pid() const { return pid_; }
  void wake() { ASSERT_EQ(write(ends_[1], "!", 1), 1); }

 private:
  int ends_[2] = {-1, -1};
  pid_t pid_ = -1;
};

void begin_thread(FakeRank& rank, pid_t tid, channel::ThreadState state, std::int64_t clock_ps) {
  channel::ThreadSlot& slot = rank.shared().threads.at(rank.shared().thread_count);
  slot.tid = tid;
  slot.clock_ps = clock_ps;
  slot.state = state;
  ++rank.shared().thread_count;
}

// Rank 1 waits from 10 us on. While nothing is sent, whoever wakes it does so later than the clock
// of rank 0 shows: it holds nobody up. Something that rank 0 sends at 20 us wakes it at 20 us, so
// that nothing later is safe before rank 1 has gone on, wherever rank 0 has come to by then.
TEST(Engine, WhoMayHaveBeenSentSomethingHoldsOthersUp) {
  constexpr std::int64_t us = 1'000'000;
  Job job{"h200:1x2"};
  Reader busy, waiter;
  FakeRank first{job.engine, socket_name, 0, busy.pid()},
      second{job.engine, socket_name, 1, waiter.pid()};
  busy.wake();
  begin_thread(first, 0, channel::ThreadState::running, 50 * us);
  begin_thread(first, busy.pid(), channel::ThreadState::running, 15 * us);
  begin_thread(second, waiter.pid(), channel::ThreadState::waiting, 10 * us);
  second.append({.op = Op::create_stream, .stream = 1});
  // One thread of rank 0 waits for what comes at 50 us.
  first.append({.op = Op::create_stream, .stream = 1});
  first.append({.op = Op::record, .clock_ps = 50 * us, .stream = 1, .a = 1});
  first.append({.op = Op::synchronize, .clock_ps = 50 * us, .a = 1});
  // Looks at who sleeps are part of it.
  for (int i = 0; i < 200; ++i) job.engine.step(std::chrono::milliseconds{1});
  EXPECT_EQ(job.session.now(), Time{} + std::chrono::microseconds{15});

  waiter.wake();
  ++first.run().sends;
  first.shared().threads[1].clock_ps = 20 * us;
  const std::array<std::byte, 128> id{};
  first.append(
      with_payload({.op = Op::join_communicator, .thread = 1, .clock_ps = 20 * us, .a = 2}, id));
  job.engine.step(std::chrono::milliseconds{0});
  EXPECT_EQ(job.session.now(), Time{} + std::chrono::microseconds{15});
}

// To look for each other instead of sleeping takes a core for each process and one for the engine.
TEST(Engine, RanksLookForAnswersWhereThereAreCoresToSpare) {
  Job job{"h200:1x2", {.runnable = 2, .cores = 2}};
  FakeRank first{job.engine, socket_name, 0};
  EXPECT_TRUE(first.run().cores_to_spare);
  {
    FakeRank second{job.engine, socket_name, 1};
    EXPECT_FALSE(first.run().cores_to_spare);
  }
  job.engine.step(std::chrono::milliseconds{0});
  EXPECT_TRUE(first.run().cores_to_spare);
}

TEST(Engine, RanksAreToldWhetherTheRunIsRecorded) {
  {
    Job job{"h200:1x1"};
    FakeRank rank{job.engine, socket_name, 0};
    EXPECT_FALSE(rank.run().recorded);
  }
  const Cluster cluster = parse_cluster("h200:1x1");
  const GpuModel gpu = gpu_model("h200");
  Session session{cluster, gpu, Roofline{gpu}};
  Recorder recorder{session, 1};
  Engine engine{cluster, session, {.socket_name = socket_name, .recorder = &recorder}};
  FakeRank rank{engine, socket_name, 0};
  EXPECT_TRUE(rank.run().recorded);
}

TEST(Engine, RanksThatRingOnAndOnDoNotKeepOthersFromBeingHeard) {
  Job job{"h200:1x1", {.runnable = 1, .cores = 2}};
  FakeRank rank{job.engine, socket_name, 0};
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  job.engine.watch(ends[0]);
  EXPECT_FALSE(job.engine.step(std::chrono::milliseconds{0}));
  ASSERT_EQ(write(ends[1], "!", 1), 1);
  int steps = 0;
  do {
    ++rank.run().bells;
    ++steps;
  } while (!job.engine.step(std::chrono::milliseconds{0}) && steps < 1000);
  EXPECT_GT(steps, 1);  // a bell alone is heard without that
  EXPECT_LT(steps, 100);
  for (const int end : ends) close(end);
}

// Linux wakes the thread that reads a socket when the other end has emptied the socket of what was
// sent the other way: each doorbell wakes the receiver of its process. That nobody else runs is
// seen all the same, so that rank 1, which waits from 10 us on, holds nobody up; a receiver that
// has something to handle may do anything.
TEST(Engine, DoorbellsDoNotLookLikeActivity) {
  constexpr std::int64_t us = 1'000'000;
  for (const bool handled_all : {true, false}) {
    Job job{"h200:1x3", {.runnable = 3}};
    Reader busy, waiter, receiver;
    FakeRank first{job.engine, socket_name, 0, busy.pid()},
        second{job.engine, socket_name, 1, waiter.pid()},
        third{job.engine, socket_name, 2, receiver.pid()};
    busy.wake();
    receiver.wake();  // runs, and has no part in time
    third.shared().receiver = receiver.pid();
    if (!handled_all) third.shared().handled.raise();
    begin_thread(first, 0, channel::ThreadState::running, 50 * us);
    begin_thread(first, busy.pid(), channel::ThreadState::running, 20 * us);
    begin_thread(second, waiter.pid(), channel::ThreadState::waiting, 10 * us);
    begin_thread(third, 0, channel::ThreadState::waiting, 60 * us);
    // Looks are taken while somebody waits for what is not safe yet.
    first.append({.op = Op::create_stream, .stream = 1});
    first.append({.op = Op::record, .clock_ps = 50 * us, .stream = 1, .a = 1});
    first.append({.op = Op::synchronize, .clock_ps = 50 * us, .a = 1});
    const Time expected = Time{} + std::chrono::microseconds{handled_all ? 20 : 10};
    // As many looks as a busy machine needs to come so far, and enough to go on beyond.
    for (int i = 0; i < 20'000 && job.session.now() != expected; ++i)
      job.engine.step(std::chrono::milliseconds{1});
    for (int i = 0; i < 200; ++i) job.engine.step(std::chrono::milliseconds{1});
    EXPECT_EQ(job.session.now(), expected);
  }
}

// As where a program has not chosen a device: its ranks are all on the first.
TEST(Engine, RanksOfOneGpuCannotShareACommunicator) {
  EXPECT_EQ(refusal([](FakeRank& rank) {
              const std::array<std::byte, 128> id{};
              for (const std::uint64_t one : {0U, 1U})
                rank.append(with_payload({.op = Op::join_communicator, .a = 2, .b = one}, id));
            }),
            "ranks 0 and 1 of a communicator of 2 are both on GPU 0: NCCL takes one rank of each "
            "GPU. Has every process chosen its device?");
}

TEST(Engine, RanksThatDisagreeOnACollectiveAreNamed) {
  const auto said = [&](const channel::CollectiveRecord& one,
                        const channel::CollectiveRecord& other) -> std::string {
    Job job{"h200:1x2", {.runnable = 2}};
    std::deque<FakeRank> ranks;
    // Those that join in the other order are other ranks of the communicator.
    for (const int rank : {0, 1}) ranks.emplace_back(job.engine, socket_name, rank);
    const std::array<std::byte, 128> id{};
    for (const std::uint64_t rank : {0U, 1U}) {
      ranks[rank].append(with_payload({.op = Op::join_communicator,
                                       .device = static_cast<std::uint16_t>(rank),
                                       .a = 2,
                                       .b = 1 - rank},
                                      id));
    }
    job.engine.step(std::chrono::milliseconds{0});
    for (const std::uint64_t rank : {0U, 1U}) {
      channel::CollectiveRecord call = rank == 0 ? one : other;
      call.communicator = (std::uint64_t{1} << 20U) | (1 - rank);
      ranks[rank].append({.op = Op::create_stream, .device = static_cast<std::uint16_t>(rank)});
      ranks[rank].append(with_payload({.op = Op::collective}, std::as_bytes(std::span{&call, 1})));
    }
    try {
      job.engine.step(std::chrono::milliseconds{0});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(said({.count = 4, .type = 7}, {.count = 5, .type = 7}),
            "the ranks of a communicator do not agree on its collective number 1: rank 1 calls "
            "all_reduce of 20 bytes (root 0), rank 0 calls all_reduce of 16 bytes (root 0). All "
            "ranks must call the same operations in the same order.");
  EXPECT_EQ(said({.count = 4, .type = 7}, {.count = 4, .type = 2}),
            "the ranks of a communicator do not agree on its collective number 1: rank 1 calls "
            "all_reduce of 16 bytes (root 0, type 2), rank 0 calls all_reduce of 16 bytes (root 0, "
            "type 7). All ranks must call the same operations in the same order.");
  EXPECT_EQ(said({.count = 4, .type = 7}, {.count = 4, .type = 7}), "");
}

}  // namespace
}  // namespace phantora::run
