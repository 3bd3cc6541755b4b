#include "rank/runtime/mutex.hpp"

#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace phantora::rank {
namespace {

TEST(RankMutex, IsTakenOnce) {
  Mutex mutex;
  EXPECT_TRUE(mutex.try_lock());
  EXPECT_FALSE(mutex.try_lock());
  mutex.unlock();
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

/// Whoever holds it sees what the one before wrote, and everybody gets it: a wake-up that is lost
/// would never end. The holder gives its core up now and then, so that others find it taken.
TEST(RankMutex, OneHolderAtATime) {
  constexpr int threads = 4, rounds = 20'000;
  Mutex mutex;
  long counted = 0;
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      for (int i = 0; i < rounds; ++i) {
        const std::lock_guard lock{mutex};
        const long seen = counted;
        if (i % 64 == t) std::this_thread::yield();
        counted = seen + 1;
      }
    });
  }
  for (std::thread& thread : all) thread.join();
  EXPECT_EQ(counted, long{threads} * rounds);
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

/// Two who sleep are woken one after the other, though the first takes it without knowing of the
/// second.
TEST(RankMutex, EachSleeperIsWoken) {
  Mutex mutex;
  for (int round = 0; round < 200; ++round) {
    int passed = 0;
    mutex.lock();
    const auto pass = [&] {
      const std::lock_guard lock{mutex};
      ++passed;
    };
    std::thread first{pass}, second{pass};
    std::this_thread::yield();
    mutex.unlock();
    first.join();
    second.join();
    EXPECT_EQ(passed, 2);
  }
}

}  // namespace
}  // namespace phantora::rank
