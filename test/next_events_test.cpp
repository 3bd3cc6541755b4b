#include "../lib/simulation/next_events.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace phantora::detail {
namespace {

TEST(NextEvents, AreThoseOfAPlainSearch) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    std::mt19937_64 random{seed};
    const auto below = [&](std::uint64_t n) { return random() % n; };
    const std::uint64_t slots = 1 + below(seed % 4 == 0 ? 3000 : 20);
    NextEvents events;
    EXPECT_EQ(events.earliest(), never);
    EXPECT_EQ(events.first_due(0, Time{}), NextEvents::none);
    std::vector<Time> plain(slots, never);
    for (int step = 0; step < 2000; ++step) {
      const std::uint64_t slot = below(slots);
      // Few distinct instants, so that many are equal.
      plain[slot] = below(4) == 0 ? never : Time{Duration{static_cast<std::int64_t>(below(50))}};
      events.set(static_cast<std::uint32_t>(slot), plain[slot]);
      ASSERT_EQ(events.earliest(), *std::min_element(plain.begin(), plain.end()))
          << "seed " << seed;
      const Time now{Duration{static_cast<std::int64_t>(below(50))}};
      const auto from = static_cast<std::uint32_t>(below(slots + 1));
      const auto due =
          std::find_if(plain.begin() + from, plain.end(), [&](Time next) { return next <= now; });
      ASSERT_EQ(events.first_due(from, now), due == plain.end()
                                                 ? NextEvents::none
                                                 : static_cast<std::uint32_t>(due - plain.begin()))
          << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace phantora::detail
