#include "network/earliest_end.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace phantora {
namespace {

TEST(EarliestEnd, IsThatOfAPlainSearch) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    std::mt19937_64 random{seed};
    const auto below = [&](std::uint64_t n) { return random() % n; };
    const std::uint64_t slots = 1 + below(seed % 4 == 0 ? 20'000 : 300);
    EarliestEnd ends;
    std::vector<std::int64_t> plain(slots, EarliestEnd::none);
    EXPECT_EQ(ends.earliest(), EarliestEnd::none);
    for (int step = 0; step < 400; ++step) {
      for (std::uint64_t n = below(10); n-- > 0;) {
        const std::uint64_t slot = below(slots);
        // Few distinct instants, so that many are equal.
        plain[slot] = below(4) == 0 ? EarliestEnd::none : static_cast<std::int64_t>(below(50));
        ends.set(static_cast<std::uint32_t>(slot), plain[slot]);
      }
      const std::int64_t least = *std::min_element(plain.begin(), plain.end());
      ASSERT_EQ(ends.earliest(), least) << "seed " << seed;
      if (least == EarliestEnd::none || below(3) != 0) continue;
      std::vector<std::uint32_t> visited, expected;
      for (std::uint32_t slot = 0; slot < slots; ++slot)
        if (plain[slot] == least) expected.push_back(slot);
      ends.for_each_at(least, [&](std::uint32_t slot) {
        visited.push_back(slot);
        plain[slot] = least + static_cast<std::int64_t>(below(30));
        ends.set(slot, plain[slot]);
      });
      ASSERT_EQ(visited, expected) << "seed " << seed;
      EXPECT_EQ(ends.get(visited.front()), plain[visited.front()]);
    }
  }
}

}  // namespace
}  // namespace phantora
