#include "channel/sequence.hpp"

#include <cstdint>
#include <thread>

#include <gtest/gtest.h>

namespace phantora::channel {
namespace {

TEST(ChannelSequence, WhoFindsItRaisedDoesNotSleep) {
  Sequence sequence;
  const std::uint32_t seen = sequence.value();
  sequence.raise();
  EXPECT_EQ(sequence.value(), seen + 1);
  EXPECT_TRUE(sequence.sleep(seen));
  EXPECT_EQ(sequence.sleepers(), 0U);
}

TEST(ChannelSequence, ASleeperIsCountedAndWoken) {
  Sequence sequence;
  bool woken = false;
  std::thread sleeper{[&] {
    while (sequence.value() == 0) woken = sequence.sleep(0);
  }};
  while (sequence.sleepers() == 0) std::this_thread::yield();
  sequence.raise();
  sleeper.join();
  EXPECT_TRUE(woken);
  EXPECT_EQ(sequence.sleepers(), 0U);
}

/// Waits until `sequence` is no longer `seen`, now and then without a sleep. A sleep that lasts for
/// all of its second though the number was raised was not told of that.
void wait_beyond(Sequence& sequence, std::uint32_t seen) {
  for (std::uint32_t look = 0; look < seen % 50; ++look) {
    if (sequence.value() != seen) return;
  }
  while (sequence.value() == seen) {
    const bool in_time = sequence.sleep(seen);
    EXPECT_TRUE(in_time || sequence.value() == seen) << "round " << seen;
  }
}

TEST(ChannelSequence, NoWakeUpIsLost) {
  constexpr std::uint32_t rounds = 20'000;
  Sequence there, back;
  std::uint32_t told = 0;
  std::thread other{[&] {
    for (std::uint32_t i = 0; i < rounds; ++i) {
      wait_beyond(there, i);
      EXPECT_EQ(told, i + 1);  // what was written before is seen
      back.raise();
    }
  }};
  for (std::uint32_t i = 0; i < rounds; ++i) {
    told = i + 1;
    there.raise();
    wait_beyond(back, i);
  }
  other.join();
  EXPECT_EQ(there.sleepers(), 0U);
  EXPECT_EQ(back.sleepers(), 0U);
}

}  // namespace
}  // namespace phantora::channel
