#include <phantora/error.hpp>
#include <phantora/units.hpp>

#include <gtest/gtest.h>

namespace phantora {
namespace {

using namespace std::chrono_literals;

TEST(Units, TransferTimeRoundsUpToWholePicoseconds) {
  // 1 byte at 450 GB/s takes 2.2 ps.
  EXPECT_EQ(transfer_time(1_B, 450_GBps), Duration{3});
  EXPECT_EQ(transfer_time(50'000'000_B, 400_Gbps), Duration{1ms});
}

TEST(Units, DurationsOutOfRangeAreRefused) {
  EXPECT_THROW(transfer_time(1_B, Bandwidth{0.0}), ArgumentError);
  EXPECT_THROW(duration_from_seconds(-1.0), ArgumentError);
}

}  // namespace
}  // namespace phantora
