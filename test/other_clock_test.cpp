#include "measure/other_clock.hpp"

#include <gtest/gtest.h>

namespace phantora::measure {
namespace {

// Nanoseconds since 1970, and a counter of 2.5 ticks for each of them that began later.
std::uint64_t own_time = 1'764'000'000'000'000'000;
std::uint64_t ticks() { return (own_time - 1'763'999'000'000'000'000) / 2 * 5; }
std::uint64_t own() { return own_time; }

TEST(OtherClock, CuptisOwnTimesAreNanoseconds) {
  OtherClock clock{own};
  EXPECT_EQ(clock.nanoseconds(own_time, own_time + 4000), 4000U);
}

TEST(OtherClock, AnothersAreTakenToNanoseconds) {
  OtherClock clock{own};
  clock.use(ticks);
  const std::uint64_t start = ticks();
  own_time += 50'000'000;
  EXPECT_EQ(clock.nanoseconds(start, start + 10'000), 4000U);
  EXPECT_EQ(clock.nanoseconds(start, start), 0U);
}

TEST(OtherClock, WhatWasRecordedBeforeKeepsItsTimes) {
  OtherClock clock{own};
  const std::uint64_t before = own_time;
  own_time += 1'000'000;
  clock.use(ticks);
  own_time += 50'000'000;
  EXPECT_EQ(clock.nanoseconds(before, before + 4000), 4000U);
}

}  // namespace
}  // namespace phantora::measure
