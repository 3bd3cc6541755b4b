#include "channel/settings.hpp"

#include <limits>

#include <gtest/gtest.h>

namespace phantora::channel {
namespace {

using namespace std::chrono_literals;

Settings some_settings() {
  return {.socket = "phantora-1-2",
          .run_memory = "/proc/1/fd/7",
          .epoch = {1'767'225'600'000'000'000, 17},
          .hosts = {{"h200-0", 8, "h200", Bytes{150'110'011'392}},
                    {"l40s, in rack 2", 3, "l40s", Bytes{1}}}};
}

TEST(Settings, ProcessesReadWhatTheLauncherWrites) {
  Settings settings = some_settings();
  EXPECT_EQ(parse_settings(to_text(settings)), settings);
  settings.host_by_rank = true;
  settings.gpus = {{.key = "mine",
                    .name = "NVIDIA H20, by its data sheet",
                    .capability_major = 9,
                    .sm_count = 78,
                    .clock_hz = 1.98e9,
                    .memory = Bytes{96'000'000'000},
                    .context_memory = Bytes{1},
                    .l2 = Bytes{62'914'560},
                    .memory_bandwidth = Bandwidth{4e12 / 3},
                    .nvlink = Bandwidth{450e9},
                    .pcie = Bandwidth{64e9},
                    .half = FlopRate{148e12},
                    .fp32 = FlopRate{1e14 / 3},
                    .tensor_power = 0.9}};
  for (const Unknown unknown : {Unknown::zero, Unknown::one, Unknown::normal}) {
    settings.unknown = unknown;
    EXPECT_EQ(parse_settings(to_text(settings)), settings) << to_string(unknown);
  }
  for (const Choice choice : {Choice::balanced, Choice::random, Choice::first, Choice::none}) {
    settings.routing = choice;
    EXPECT_EQ(parse_settings(to_text(settings)), settings) << to_string(choice);
  }
  for (const double share : {0.0, 0.1, 1.0}) {
    settings.selected = share;
    EXPECT_EQ(parse_settings(to_text(settings)), settings) << share;
  }
  for (const HostTimePolicy& policy :
       {HostTimePolicy{}, HostTimePolicy{.kind = HostTime::off},
        HostTimePolicy{.kind = HostTime::fixed, .per_call = 7ns}, HostTimePolicy{.scale = 0.0},
        HostTimePolicy{.host = {.work = 1.0 / 3, .calls = 0.1}}, HostTimePolicy{.scale = 0.1},
        HostTimePolicy{.scale = 1.0 / 3},
        HostTimePolicy{.scale = std::numeric_limits<double>::max()},
        HostTimePolicy{.scale = std::numeric_limits<double>::denorm_min()}}) {
    settings.host_time = policy;
    EXPECT_EQ(parse_settings(to_text(settings)), settings) << to_text(settings);
  }
}

TEST(Settings, AnythingElseIsRefused) {
  const std::string text = to_text(some_settings());
  ASSERT_TRUE(parse_settings(text));
  for (const char* line :
       {"colour red", "host_time sometimes", "host_scale", "slowness 1", "slowness a 1", "epoch 5",
        "epoch a 5", "unknown 2", "routing 1", "selected 2", "selected -1", "selected all",
        "host x h200 5 name", "host 8 h200 5x name", "host", "gpu mine", "gpu mine 9 0 x"}) {
    EXPECT_EQ(parse_settings(text + '\n' + line), std::nullopt) << line;
  }
  EXPECT_EQ(parse_settings(""), std::nullopt);
  EXPECT_EQ(parse_settings("socket s"), std::nullopt);              // no host
  EXPECT_EQ(parse_settings("host 8 h200 5 h200-0"), std::nullopt);  // no socket
}

TEST(Settings, UnknownsAreThoseOfTheOption) {
  for (const char* text : {"0", "1", "normal"}) EXPECT_EQ(to_string(*parse_unknown(text)), text);
  for (const char* text : {"", "2", "Normal", "00"}) EXPECT_EQ(parse_unknown(text), std::nullopt);
}

TEST(Settings, RanksSitInTheOrderOfTheHosts) {
  const Settings settings = some_settings();
  EXPECT_EQ(seat_of_rank(settings, 0), (Seat{0, 0}));
  EXPECT_EQ(seat_of_rank(settings, 7), (Seat{0, 7}));
  EXPECT_EQ(seat_of_rank(settings, 8), (Seat{1, 0}));
  EXPECT_EQ(seat_of_rank(settings, 10), (Seat{1, 2}));
  EXPECT_EQ(seat_of_rank(settings, 11), std::nullopt);
}

}  // namespace
}  // namespace phantora::channel
