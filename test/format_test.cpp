#include <phantora/format.hpp>

#include <chrono>

#include <fmt/chrono.h>  // formats other durations, and may come along
#include <gtest/gtest.h>

namespace phantora {
namespace {

using namespace std::chrono_literals;

TEST(Format, DurationsChooseTheirUnit) {
  EXPECT_EQ(fmt::format("{}", Duration{3926ms}), "3.926 s");
  EXPECT_EQ(fmt::format("{}", Duration{48'034us}), "48.034 ms");
  EXPECT_EQ(fmt::format("{}", Duration{1180ns}), "1.2 us");
  EXPECT_EQ(fmt::format("{}", Duration{}), "0.0 us");
  EXPECT_EQ(fmt::format("{}", Duration{-2ms}), "-2.000 ms");
  EXPECT_EQ(fmt::format("{:ns}", Duration{468'125}), "468.1 ns");
  EXPECT_EQ(fmt::format("{:us}", Duration{48'034us}), "4.803e+04 us");
  EXPECT_EQ(fmt::format("{:.1us}", Duration{48'034us}), "48034.0 us");
}

TEST(Format, InstantsAreSeconds) {
  EXPECT_EQ(fmt::format("{}", Time{} + 1500ms), "1.500000 s");
  EXPECT_EQ(fmt::format("{:.3ms}", Time{} + 1500us), "1.500 ms");
  EXPECT_EQ(fmt::format("{}", never), "never");
}

TEST(Format, BytesChooseABinaryUnit) {
  EXPECT_EQ(fmt::format("{}", 1023_B), "1023 B");
  EXPECT_EQ(fmt::format("{}", 3_KiB), "3.00 KiB");
  EXPECT_EQ(fmt::format("{}", 139_GiB), "139.00 GiB");
  EXPECT_EQ(fmt::format("{:.2GiB}", 5_GB), "4.66 GiB");
  EXPECT_EQ(fmt::format("{:GB}", 141_GB), "141 GB");
}

TEST(Format, BandwidthsAreGigabytesPerSecond) {
  EXPECT_EQ(fmt::format("{}", 400_Gbps), "50 GB/s");
  EXPECT_EQ(fmt::format("{}", 57.6_GBps), "57.6 GB/s");
  EXPECT_EQ(fmt::format("{:Gbps}", 400_Gbps), "400 Gbps");
  EXPECT_EQ(fmt::format("{:.1MB/s}", 1_GBps), "1000.0 MB/s");
}

TEST(Format, IdsAreNumbersAndEnumsWords) {
  EXPECT_EQ(fmt::format("{} {:>4}", LinkId{17}, FlowId{2}), "17    2");
  EXPECT_EQ(fmt::format("{:<6}|{}", NodeKind::nic, CostSource::roofline), "nic   |roofline");
}

TEST(Format, WhatIsNoUnitIsRefused) {
  for (const char* text : {"{:furlongs}", "{:.ms}", "{:.3}", "{:.2GiB}"})
    EXPECT_THROW(static_cast<void>(fmt::format(fmt::runtime(text), Duration{1s})),
                 fmt::format_error)
        << text;
}

}  // namespace
}  // namespace phantora
