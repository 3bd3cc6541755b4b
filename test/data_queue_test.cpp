#include "rank/memory/data_queue.hpp"

#include "rank/kernels/kernel_launch.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank_fakes.hpp"

#include <algorithm>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace phantora::rank {
namespace {

using Ticket = DataQueue::Ticket;

constexpr unsigned non_blocking = 1;

Stream& new_stream() { return create_stream(0, non_blocking, 0); }

Ticket next_ticket() {
  static Ticket ticket = 0;
  return ++ticket;
}
Marker next_marker() {
  static Marker marker = 0;
  return ++marker;
}

TEST(DataQueue, RunsAtOnceWhenNothingIsOutstanding) {
  Stream& stream = new_stream();
  bool ran = false;
  data::enqueue(stream, [&] { ran = true; });
  EXPECT_TRUE(ran);
  EXPECT_FALSE(data::pending());
}

TEST(DataQueue, HoldsBackWhatIsBehindACollective) {
  Stream& stream = new_stream();
  Stream& other = new_stream();
  std::string log;
  const Ticket ticket = next_ticket();
  fakes::exchange(
      stream, ticket, [&] { log += 's'; },
      [&](std::span<const std::byte> result) {
        log += 'r';
        log += static_cast<char>(result[0]);
      });
  data::enqueue(stream, [&] { log += 'b'; });
  EXPECT_EQ(log, "s");
  EXPECT_TRUE(data::pending(stream));
  EXPECT_FALSE(data::pending(other));
  data::enqueue(other, [&] { log += 'o'; });  // independent
  EXPECT_EQ(log, "so");
  const std::byte result{'x'};
  fakes::data().deliver(ticket, {&result, 1});
  EXPECT_EQ(log, "sorxb");
  EXPECT_FALSE(data::pending());
}

TEST(DataQueue, MarkersHoldBackOtherStreams) {
  Stream& a = new_stream();
  Stream& b = new_stream();
  std::string log;
  const Marker before = next_marker();
  const Marker after = next_marker();
  fakes::data().record(a, before);
  const Ticket ticket = next_ticket();
  fakes::exchange(a, ticket, [] {}, {});
  fakes::data().record(a, after);
  fakes::data().wait(b, before);
  data::enqueue(b, [&] { log += '1'; });
  EXPECT_EQ(log, "1");
  fakes::data().wait(b, after);
  data::enqueue(b, [&] { log += '2'; });
  EXPECT_EQ(log, "1");
  fakes::data().deliver(ticket, {});
  EXPECT_EQ(log, "12");
}

TEST(DataQueue, TheLegacyStreamAndBlockingStreamsWaitForEachOther) {
  Stream& legacy = legacy_stream(0);
  Stream& blocking = create_stream(0, 0, 0);
  Stream& free = new_stream();
  std::string log;
  Ticket ticket = next_ticket();
  fakes::exchange(blocking, ticket, [] {}, {});
  data::enqueue(legacy, [&] { log += 'l'; });
  data::enqueue(free, [&] { log += 'f'; });
  EXPECT_EQ(log, "f");
  fakes::data().deliver(ticket, {});
  EXPECT_EQ(log, "fl");
  ticket = next_ticket();
  fakes::exchange(legacy, ticket, [] {}, {});
  data::enqueue(blocking, [&] { log += 'b'; });
  data::enqueue(free, [&] { log += 'F'; });
  EXPECT_EQ(log, "flF");
  fakes::data().deliver(ticket, {});
  EXPECT_EQ(log, "flFb");
}

TEST(DataQueue, ASendMayDeliverAtOnce) {
  Stream& stream = new_stream();
  std::string log;
  const Ticket ticket = next_ticket();
  fakes::exchange(
      stream, ticket, [&] { fakes::data().deliver(ticket, {}); },
      [&](std::span<const std::byte>) { log += 'r'; });
  data::enqueue(stream, [&] { log += 'b'; });
  EXPECT_EQ(log, "rb");
  EXPECT_FALSE(data::pending());
}

TEST(DataQueue, PageableSourcesAreCapturedWhenTheCallIsMade) {
  Stream& stream = new_stream();
  void* const p = allocate(0, 4);
  const Ticket ticket = next_ticket();
  fakes::exchange(stream, ticket, [] {}, {});
  int pageable = 1;
  copy_async(p, &pageable, 4, CopyKind::host_to_device, false, false, stream);
  pageable = 2;
  fakes::data().deliver(ticket, {});
  int back = 0;
  read(&back, p, 4);
  EXPECT_EQ(back, 1);
  const Ticket second = next_ticket();
  fakes::exchange(stream, second, [] {}, {});
  int pinned = 3;
  copy_async(p, &pinned, 4, CopyKind::host_to_device, true, false, stream);
  pinned = 4;
  fakes::data().deliver(second, {});
  read(&back, p, 4);
  EXPECT_EQ(back, 4);
  deallocate(p);
}

// Random programs over 4 streams. Each operation logs its number; the reference is the partial
// order that CUDA promises: program order within a stream, and through record -> wait. Results
// arrive at random times in random order among those sent.
TEST(DataQueue, RandomProgramsKeepTheOrderThatStreamsPromise) {
  std::mt19937 random{11};
  for (int round = 0; round < 300; ++round) {
    constexpr std::size_t width = 4;
    std::vector<Stream*> streams;
    for (std::size_t i = 0; i < width; ++i) streams.push_back(&new_stream());
    struct Node {
      std::vector<std::size_t> after;
      bool done = false;
    };
    std::vector<Node> nodes;
    std::vector<std::vector<std::size_t>> tails(width);  // what the next node of a stream is after
    struct Recorded {
      Marker marker;
      std::vector<std::size_t> after;
    };
    std::vector<Recorded> recorded;
    std::vector<Ticket> outstanding;  // sent, not delivered
    std::vector<std::size_t> order;
    const auto finish = [&](std::size_t node) {
      for (const std::size_t before : nodes[node].after) ASSERT_TRUE(nodes[before].done);
      ASSERT_FALSE(nodes[node].done);
      nodes[node].done = true;
      order.push_back(node);
    };
    const auto deliver_one = [&] {
      const std::size_t which = random() % outstanding.size();
      const Ticket ticket = outstanding[which];
      outstanding.erase(outstanding.begin() + static_cast<std::ptrdiff_t>(which));
      fakes::data().deliver(ticket, {});
    };
    for (int step = 0; step < 60; ++step) {
      const std::size_t s = random() % width;
      switch (random() % 6) {
        case 0: {
          const std::size_t node = nodes.size();
          nodes.push_back({tails[s]});
          tails[s] = {node};
          const Ticket ticket = next_ticket();
          fakes::exchange(
              *streams[s], ticket, [&, ticket] { outstanding.push_back(ticket); },
              [&, node](std::span<const std::byte>) { finish(node); });
          break;
        }
        case 1:
          recorded.push_back({next_marker(), tails[s]});
          fakes::data().record(*streams[s], recorded.back().marker);
          break;
        case 2:
          if (!recorded.empty()) {
            const Recorded& r = recorded[random() % recorded.size()];
            tails[s].insert(tails[s].end(), r.after.begin(), r.after.end());
            fakes::data().wait(*streams[s], r.marker);
          }
          break;
        case 3:
          if (!outstanding.empty()) deliver_one();
          break;
        default: {
          const std::size_t node = nodes.size();
          nodes.push_back({tails[s]});
          tails[s] = {node};
          data::enqueue(*streams[s], [&, node] { finish(node); });
          // Eagerness: whatever all predecessors of are done has run by now.
          const bool ready = std::all_of(nodes[node].after.begin(), nodes[node].after.end(),
                                         [&](std::size_t before) { return nodes[before].done; });
          ASSERT_EQ(nodes[node].done, ready);
        }
      }
    }
    while (!outstanding.empty()) deliver_one();
    EXPECT_FALSE(data::pending());
    EXPECT_EQ(order.size(), nodes.size());
  }
}

}  // namespace
}  // namespace phantora::rank
