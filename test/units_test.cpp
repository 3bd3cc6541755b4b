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

TEST(Units, BytesTakeWholeAndRealFactors) {
  EXPECT_EQ(3_KiB * 2, 6_KiB);
  EXPECT_EQ(2U * 3_KiB, 6_KiB);
  EXPECT_EQ(1_KiB * 0.5, 512_B);
  EXPECT_EQ(1.5 * 3_B, 5_B);  // 4.5, away from zero
  EXPECT_THROW(8_GB * 1e12, ArgumentError);
  EXPECT_THROW(1_B * (0.0 / 0.0), ArgumentError);
  // Beyond 2^53 whole factors stay exact.
  EXPECT_EQ(Bytes{(std::int64_t{1} << 60) + 1} * 1, Bytes{(std::int64_t{1} << 60) + 1});
}

TEST(Units, BytesOverTimeAreABandwidth) {
  EXPECT_EQ(50_GB / Duration{1s}, 400_Gbps);
  EXPECT_EQ(1_KiB / Duration{1us}, Bandwidth{1024e6});
  EXPECT_THROW(1_B / Duration{}, ArgumentError);
}

}  // namespace
}  // namespace phantora
