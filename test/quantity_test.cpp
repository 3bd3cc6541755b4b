#include <phantora/quantity.hpp>

#include <gtest/gtest.h>

namespace phantora {
namespace {

using namespace std::chrono_literals;

TEST(Quantity, UnitsAreThoseOfDataSheets) {
  EXPECT_EQ(parse_bandwidth("400Gbps"), 400_Gbps);
  EXPECT_EQ(parse_bandwidth("57.6 GB/s"), 57.6_GBps);
  EXPECT_EQ(parse_duration("1.5us"), 1500ns);
  EXPECT_EQ(parse_bytes("141GB"), 141_GB);
  EXPECT_EQ(parse_bytes("64K"), 64_KiB);
  EXPECT_EQ(parse_flop_rate("989.4 TFLOPS"), 989.4_TFLOPS);
  EXPECT_EQ(parse_flop_rate("4.5PFLOP/s"), 4500_TFLOPS);
  EXPECT_EQ(parse_frequency("1980MHz"), 1.98e9);
  EXPECT_EQ(parse_power("500W"), 500.0);
  EXPECT_EQ(parse_power("1.2 kW"), 1200.0);
}

TEST(Quantity, OtherTextIsNone) {
  for (const char* text : {"", "Gbps", "fast", "-1Gbps", "0x10Gbps", "nanGbps", "4 0Gbps"}) {
    EXPECT_FALSE(parse_bandwidth(text)) << text;
    EXPECT_FALSE(parse_duration(text)) << text;
    EXPECT_FALSE(parse_bytes(text)) << text;
    EXPECT_FALSE(parse_flop_rate(text)) << text;
    EXPECT_FALSE(parse_frequency(text)) << text;
  }
}

// 1e307 is a number and 1e307 Gbps is not.
TEST(Quantity, WhatNothingCanHoldIsRefused) {
  EXPECT_FALSE(parse_bandwidth("1e307Gbps"));
  EXPECT_FALSE(parse_bandwidth("infGbps"));
  EXPECT_FALSE(parse_duration("1e7s"));  // 115 days
  EXPECT_FALSE(parse_bytes("1e4PB"));
}

TEST(Quantity, SomethingDoesNotBecomeNothing) {
  EXPECT_FALSE(parse_duration("0.4ps"));
  EXPECT_FALSE(parse_duration("1e-30s"));
  EXPECT_FALSE(parse_bytes("0.001"));
  EXPECT_EQ(parse_duration("0s"), 0s);
  EXPECT_EQ(parse_bandwidth("0GB/s"), 0_GBps);
  EXPECT_EQ(parse_bytes("0"), 0_B);
}

}  // namespace
}  // namespace phantora
