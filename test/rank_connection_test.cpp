#include "engine_fake.hpp"
#include "rank/runtime/connection.hpp"

#include <array>
#include <cstdint>
#include <memory>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace phantora::rank {
namespace {

/// How many bytes can be read from `socket`.
std::size_t waiting_bytes(int socket) {
  std::array<char, 64> bytes{};
  const ssize_t got = recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
  return got < 0 ? 0 : static_cast<std::size_t>(got);
}

TEST(RankConnection, OnlyAnEngineThatSleepsIsSentABellAndOnlyOne) {
  std::array<int, 2> ends{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  const auto shared = std::make_unique<channel::RankShared>();
  const auto run = std::make_unique<channel::RunShared>();
  Connection connection{ends[0], {}, {.rank = shared.get(), .run = run.get()}};
  connection.ring();
  EXPECT_EQ(run->bells, 1U);
  EXPECT_EQ(waiting_bytes(ends[1]), 0U);
  run->engine_sleeps = true;
  connection.ring();
  connection.ring();
  EXPECT_EQ(run->bells, 3U);
  EXPECT_EQ(waiting_bytes(ends[1]), 1U);
  EXPECT_FALSE(run->engine_sleeps);
  for (const int end : ends) close(end);
}

TEST(RankConnection, WhoFindsTheRingFullWaitsAndLosesNothing) {
  FakeEngine engine;
  constexpr std::uint64_t count = 5 * channel::ring_bytes / sizeof(channel::Record);
  for (std::uint64_t i = 0; i < count; ++i)
    engine.connection->append({.op = channel::Op::launch, .a = i});
  const auto records = engine.records();
  ASSERT_EQ(records.size(), count);
  for (std::uint64_t i = 0; i < count; ++i) ASSERT_EQ(records[i].a, i);
}

TEST(RankConnection, AnAnswerIsTheSameWhetherItWasLookedForOrSleptFor) {
  FakeEngine engine;
  engine.answer = [](const channel::Record& record) {
    return channel::Reply{.clock_ps = 3, .value = static_cast<std::int64_t>(record.a)};
  };
  HostThread thread;
  for (const bool spare : {false, true}) {
    engine.run().cores_to_spare = spare;
    for (std::uint64_t i = 0; i < 2'000; ++i) {
      const channel::Reply reply =
          engine.connection->request(thread, {.op = channel::Op::query, .a = i});
      ASSERT_EQ(reply.value, static_cast<std::int64_t>(i));
    }
  }
  EXPECT_EQ(thread.slot->replies.value(), 4'000U);
  EXPECT_EQ(thread.slot->replies.sleepers(), 0U);
}

}  // namespace
}  // namespace phantora::rank
