#include "network/journal.hpp"

#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace phantora {
namespace {

/// A record in which little fits.
struct Small {
  std::uint32_t thing;
  std::uint32_t age = 0, back = 0;
  static constexpr std::uint32_t max_back = 7;
};

TEST(Journal, SaysWhatThingsWereAndSinceWhen) {
  // Against lists of the instants at which each thing changed. Ages and distances are often too
  // great for a record. Now and then the old or the young end goes.
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random{seed};
    const auto below = [&](std::uint64_t n) { return random() % n; };
    Journal<Small> journal;
    struct Change {
      std::int64_t at;
      std::uint64_t record;
    };
    std::vector<std::vector<Change>> changes(1 + below(12));
    std::vector<std::int64_t> instants;  // of each record
    std::int64_t now = 0, dropped_before = 0;
    for (int step = 0; step < 600; ++step) {
      now += static_cast<std::int64_t>(below(3) == 0 ? below(std::uint64_t{1} << 34) : below(3));
      const auto thing = static_cast<std::uint32_t>(below(changes.size()));
      std::vector<Change>& its = changes[thing];
      if (its.empty() || its.back().at < now) {
        const std::uint64_t last = its.empty() ? 0 : its.back().record;
        const std::int64_t since = its.empty() ? 0 : its.back().at;
        its.push_back({now, journal.push({thing}, now, last, now - since)});
        instants.push_back(now);
        ASSERT_EQ(its.back().record, instants.size());
      }
      if (below(50) == 0) {
        dropped_before = std::max(dropped_before, now - static_cast<std::int64_t>(below(1u << 31)));
        std::uint64_t visited = journal.begin();
        journal.drop_before(dropped_before, [&](std::uint64_t record) {
          EXPECT_EQ(record, ++visited);
          EXPECT_LT(instants[record - 1], dropped_before);
        });
        EXPECT_EQ(journal.begin(), visited);
      }
      if (below(100) == 0) {
        const std::int64_t to = now - static_cast<std::int64_t>(below(1u << 30));
        if (to < dropped_before) continue;
        while (!instants.empty() && instants.back() > to) instants.pop_back();
        if (instants.size() < journal.begin()) continue;
        for (auto& it : changes)
          while (!it.empty() && it.back().at > to) it.pop_back();
        journal.cut_back(instants.size(), to);
        now = to;
      }
    }
    for (const auto& its : changes) {
      for (std::size_t i = its.size(); i-- > 0 && journal.keeps(its[i].record);) {
        const std::int64_t since = i == 0 ? 0 : its[i - 1].at;
        ASSERT_EQ(journal.age(its[i].record), its[i].at - since) << "seed " << seed;
        const std::uint64_t previous = journal.previous(its[i].record);
        if (i > 0 && journal.keeps(its[i - 1].record)) {
          ASSERT_EQ(previous, its[i - 1].record) << "seed " << seed;
        } else {
          ASSERT_FALSE(journal.keeps(previous)) << "seed " << seed;
        }
      }
    }
    EXPECT_EQ(journal.end(), instants.size());
    for (std::uint64_t record = journal.begin() + 1; record <= journal.end(); ++record)
      ASSERT_GE(record, journal.first_since(instants[record - 1])) << "seed " << seed;
  }
}

TEST(Journal, FindsWhatMayBeOfAnInstantAlsoAfterAReplay) {
  // A thousand records in order; then, of the instants 300 to 399 again, some more.
  Journal<Small> journal;
  for (std::int64_t at = 0; at < 1000; ++at) journal.push({0}, at, 0, 0);
  for (std::int64_t at = 300; at < 400; ++at) journal.push({1}, at, 0, 0);
  for (std::int64_t at = 1000; at < 1100; ++at) journal.push({2}, at, 0, 0);
  EXPECT_LE(journal.first_since(350), 351U);
  EXPECT_GE(journal.first_since(350), 351U - 64);
  // All records of instants from 1,050 on are behind those 100.
  EXPECT_GE(journal.first_since(1050), 1150U - 64);
  EXPECT_LE(journal.first_since(1050), 1151U);
  journal.drop_before(1000, [](std::uint64_t) {});
  EXPECT_GE(journal.begin(), 1000U - 64);
  EXPECT_LE(journal.begin(), 1100U);
}

TEST(Trail, MovesNothingThatItKeeps) {
  Trail<int> trail;
  for (int i = 0; i < 5000; ++i) trail.push(i);
  const int* const kept = &trail[4000];
  trail.drop_to(3000);
  trail.drop_while([](int item) { return item < 4000; });
  for (int i = 5000; i < 50'000; ++i) trail.push(i);
  EXPECT_EQ(&trail[4000], kept);
  EXPECT_EQ(trail.begin(), 4000U);
  EXPECT_EQ(trail.end(), 50'000U);
  trail.cut_back(4001);
  EXPECT_EQ(&trail.back(), kept);
  EXPECT_EQ(*trail.find_first([](int item) { return item >= 7; }), 4000);
}

}  // namespace
}  // namespace phantora
