#include "rank/kernels/kept_by_hash.hpp"
#include "rank/kernels/word_hash.hpp"

#include <atomic>
#include <bit>
#include <cstdint>
#include <set>
#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace phantora::rank {
namespace {

TEST(KeptByHash, FindsWhatIsWantedAmongEqualHashes) {
  KeptByHash<std::string> kept;
  const auto is = [](const char* text) { return [=](const std::string& s) { return s == text; }; };
  EXPECT_EQ(kept.find(7, is("one")), nullptr);
  kept.add(7, "one");
  kept.add(7, "two");
  kept.add(8, "three");
  const std::string* const one = kept.find(7, is("one"));
  ASSERT_NE(one, nullptr);
  EXPECT_EQ(*one, "one");
  EXPECT_NE(kept.find(7, is("two")), nullptr);
  EXPECT_EQ(kept.find(7, is("three")), nullptr);
  EXPECT_NE(kept.find(8, is("three")), nullptr);
}

/// Hashes that differ only in bits that small tables do not look at.
TEST(KeptByHash, GrowsAndValuesStayWhereTheyAre) {
  KeptByHash<std::uint64_t> kept;
  constexpr std::uint64_t count = 5000;
  const auto hash = [](std::uint64_t i) { return i << 4U; };
  kept.add(hash(0), 0);
  const std::uint64_t* const first = kept.find(hash(0), [](std::uint64_t) { return true; });
  for (std::uint64_t i = 1; i < count; ++i) kept.add(hash(i), i);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t* const found = kept.find(hash(i), [](std::uint64_t) { return true; });
    ASSERT_NE(found, nullptr) << i;
    EXPECT_EQ(*found, i);
  }
  EXPECT_EQ(kept.find(hash(0), [](std::uint64_t) { return true; }), first);
  EXPECT_EQ(kept.find(hash(count), [](std::uint64_t) { return true; }), nullptr);
}

TEST(KeptByHash, WhatWasAddedIsFoundByOtherThreads) {
  KeptByHash<std::uint64_t> kept;
  std::atomic<std::uint64_t> added{0};
  constexpr std::uint64_t count = 3000;
  std::thread reader{[&] {
    for (std::uint64_t seen = 0; seen < count;) {
      seen = added.load(std::memory_order_acquire);
      for (std::uint64_t i = seen > 8 ? seen - 8 : 0; i < seen; ++i) {
        const std::uint64_t* const found = kept.find(i, [](std::uint64_t) { return true; });
        ASSERT_NE(found, nullptr);
        EXPECT_EQ(*found, i);
      }
    }
  }};
  for (std::uint64_t i = 0; i < count; ++i) {
    kept.add(i, i);
    added.store(i + 1, std::memory_order_release);
  }
  reader.join();
}

/// Sizes of launches and products: powers of two and small multiples of them, in each place.
TEST(WordHash, TellsWordsAndTheirPlacesApart) {
  std::set<std::uint64_t> whole, low;
  std::size_t hashed = 0;
  for (std::uint64_t m = 0; m < 16; ++m) {
    for (std::uint64_t n = 0; n < 16; ++n) {
      for (std::uint64_t k = 0; k < 16; ++k) {
        WordHash hash;
        hash.mix(m << 10U, n << 10U);
        hash.mix(std::bit_cast<std::uint64_t>(static_cast<double>(k) * 1024));
        whole.insert(hash.value());
        low.insert(hash.value() % 8192);
        ++hashed;
      }
    }
  }
  EXPECT_EQ(whole.size(), hashed);
  // 4,096 into 8,192 places at random: 3,223 places on average, 25 more or less.
  EXPECT_GT(low.size(), 3100U);
}

}  // namespace
}  // namespace phantora::rank
