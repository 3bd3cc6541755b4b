#include "rank/runtime/message_times.hpp"

#include <deque>
#include <memory>
#include <random>

#include <gtest/gtest.h>

namespace phantora::rank {
namespace {

constexpr std::uint64_t pipe = key_of(KeyKind::pipe, 5);
constexpr std::uint64_t connection = key_of(KeyKind::connection, 5);

class RankMessageTimes : public testing::Test {
 protected:
  void write(std::uint64_t key, std::size_t bytes, std::int64_t clock_ps) {
    leave_message_time(*run, key, {.clock_ps = clock_ps});
    message_was_written(*run, key, bytes);
  }
  std::int64_t read(std::uint64_t key, std::size_t bytes) {
    return message_was_read(*run, key, bytes).clock_ps;
  }
  std::unique_ptr<channel::RunShared> run = std::make_unique<channel::RunShared>();
};

TEST_F(RankMessageTimes, NobodyKnowsWhenNothingWasLeft) {
  EXPECT_EQ(read(pipe, 1), 0);
  EXPECT_EQ(read(connection, 1), 0);
}

TEST_F(RankMessageTimes, AConnectionKeepsTheLast) {
  write(connection, 10, 100);
  write(connection, 10, 300);
  EXPECT_EQ(read(connection, 10), 300);
  write(connection, 10, 0);  // nobody knows
  EXPECT_EQ(read(connection, 10), 300);
}

// Two loaders have written a batch each before the first is read.
TEST_F(RankMessageTimes, EachMessageOfAPipeHasItsOwn) {
  write(pipe, 100, 40);
  write(pipe, 50, 70);
  EXPECT_EQ(read(pipe, 4), 40);  // its length
  EXPECT_EQ(read(pipe, 96), 40);
  EXPECT_EQ(read(pipe, 50), 70);
  write(pipe, 8, 90);
  write(pipe, 8, 95);
  EXPECT_EQ(read(pipe, 16), 95);  // both at once
}

TEST_F(RankMessageTimes, AMessageOfAnUnknownTimeHasNone) {
  write(pipe, 10, 40);
  write(pipe, 10, 0);
  EXPECT_EQ(read(pipe, 10), 40);
  EXPECT_EQ(read(pipe, 10), 0);
}

// Of 100 messages the last 64 are kept: who reads the first is told of the oldest of these.
TEST_F(RankMessageTimes, WhatIsNoLongerKeptIsAsOldAsTheOldestThatIs) {
  for (int i = 1; i <= 100; ++i) write(pipe, 10, i);
  EXPECT_EQ(read(pipe, 10), 37);
  for (int i = 2; i <= 36; ++i) read(pipe, 10);
  for (int i = 37; i <= 100; ++i) EXPECT_EQ(read(pipe, 10), i);
}

// A program that was started without the hooks writes, or who writes has no part in the run.
TEST_F(RankMessageTimes, WhatWasWrittenUnseenIsAsOldAsTheLastThatWasSeen) {
  write(pipe, 10, 40);
  EXPECT_EQ(read(pipe, 500), 40);
  write(pipe, 10, 60);
  EXPECT_EQ(read(pipe, 10), 60);
}

TEST_F(RankMessageTimes, MoreKeysThanThereIsRoomForTakeEachOthersPlace) {
  for (std::uint64_t i = 1; i <= 20'000; ++i) {
    const std::uint64_t key = key_of(KeyKind::pipe, i);
    write(key, 1, static_cast<std::int64_t>(i));
    ASSERT_EQ(read(key, 1), static_cast<std::int64_t>(i));
  }
}

// Against a queue of bytes that bear their times, in writes and reads of random sizes.
TEST_F(RankMessageTimes, AreThoseOfTheBytes) {
  std::mt19937 random{1};  // NOLINT(cert-msc51-cpp,cert-msc32-c): the same in every run
  const auto up_to = [&](std::size_t most) { return 1 + random() % most; };
  std::deque<std::int64_t> bytes;
  std::size_t messages = 0;
  for (std::int64_t now = 1; now < 20'000; ++now) {
    // So few at once that all are kept.
    if (bytes.size() < 60) {
      const std::size_t size = up_to(20);
      write(pipe, size, now);
      bytes.insert(bytes.end(), size, now);
      ++messages;
    } else {
      const std::size_t size = up_to(bytes.size());
      const std::int64_t last = bytes[size - 1];
      bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      ASSERT_EQ(read(pipe, size), last);
    }
  }
  EXPECT_GT(messages, 1'000U);
}

}  // namespace
}  // namespace phantora::rank
