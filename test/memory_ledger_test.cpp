#include <phantora/simulation/memory_ledger.hpp>

#include <atomic>
#include <limits>
#include <new>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace phantora {
namespace {

TEST(MemoryLedger, KnowsWhatIsHeldAndTheMostThatWas) {
  MemoryLedger ledger{1_GiB};
  EXPECT_EQ(ledger.peak(), 1_GiB);
  ledger.allocate(4_GiB);
  ledger.free(3_GiB);
  ledger.allocate(1_GiB);
  EXPECT_EQ(ledger.held(), 3_GiB);
  EXPECT_EQ(ledger.peak(), 5_GiB);
}

TEST(MemoryLedger, TakesNoMoreThanTheGpuHas) {
  MemoryLedger ledger{2_GiB};
  EXPECT_TRUE(ledger.allocate_within(8_GiB, 6_GiB));
  EXPECT_FALSE(ledger.allocate_within(8_GiB, 1_B));
  EXPECT_FALSE(ledger.allocate_within(8_GiB, Bytes{std::numeric_limits<std::int64_t>::max()}));
  EXPECT_EQ(ledger.held(), 8_GiB);
  ledger.free(1_GiB);
  EXPECT_TRUE(ledger.allocate_within(8_GiB, 1_GiB));
  EXPECT_EQ(ledger.peak(), 8_GiB);
}

TEST(MemoryLedger, SharedByThreadsItGivesEachByteOnce) {
  constexpr int threads = 4, attempts = 2000;
  constexpr Bytes capacity{5000};
  MemoryLedger ledger;
  std::atomic<int> taken{0};
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i)
    all.emplace_back([&] {
      for (int j = 0; j < attempts; ++j)
        taken += ledger.allocate_within(capacity, Bytes{1}) ? 1 : 0;
    });
  for (std::thread& thread : all) thread.join();
  EXPECT_EQ(taken, 5000);
  EXPECT_EQ(ledger.held(), capacity);
  EXPECT_EQ(ledger.peak(), capacity);
}

TEST(MemoryLedger, LiesInMemoryThatProcessesShare) {
  void* const memory = mmap(nullptr, sizeof(MemoryLedger), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const ledger = new (memory) MemoryLedger;
  ASSERT_TRUE(ledger->allocate_within(8_GiB, 3_GiB));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(ledger->allocate_within(8_GiB, 4_GiB) ? 0 : 1);
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(ledger->held(), 7_GiB);
  EXPECT_FALSE(ledger->allocate_within(8_GiB, 2_GiB));
  munmap(memory, sizeof(MemoryLedger));
}

}  // namespace
}  // namespace phantora
