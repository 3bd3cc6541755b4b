#include "channel/host_time.hpp"

#include <cstdlib>
#include <limits>

#include <gtest/gtest.h>

namespace phantora::channel {
namespace {

using namespace std::chrono_literals;

TEST(HostTime, IsReadAsTheOptionIsWritten) {
  EXPECT_EQ(parse_host_time("measured"), HostTimePolicy{});
  EXPECT_EQ(parse_host_time("off"), HostTimePolicy{.kind = HostTime::off});
  EXPECT_EQ(parse_host_time("fixed:1500"),
            (HostTimePolicy{.kind = HostTime::fixed, .per_call = 1500ns}));
  for (const char* text : {"measured", "off", "fixed:0", "fixed:999999999999"}) {
    EXPECT_EQ(to_string(*parse_host_time(text)), text);
  }
}

TEST(HostTime, AnythingElseIsRefused) {
  for (const char* text : {"", "sometimes", "Off", "off ", "fixed", "fixed:", "fixed:x", "fixed:-1",
                           "fixed:+1", "fixed:1.5", "fixed: 1", "fixed:1ns", "fixed:1000000000000"})
    EXPECT_EQ(parse_host_time(text), std::nullopt) << text;
}

TEST(HostTime, RanksReadWhatTheLauncherWrites) {
  for (const HostTimePolicy& policy :
       {HostTimePolicy{}, HostTimePolicy{.kind = HostTime::off},
        HostTimePolicy{.kind = HostTime::fixed, .per_call = 7ns}, HostTimePolicy{.scale = 0.0},
        HostTimePolicy{.scale = 0.1}, HostTimePolicy{.scale = 1.0 / 3},
        HostTimePolicy{.scale = std::numeric_limits<double>::max()},
        HostTimePolicy{.scale = std::numeric_limits<double>::denorm_min()}}) {
    for (const auto& [name, value] : environment_of(policy)) setenv(name.c_str(), value.c_str(), 1);
    EXPECT_EQ(host_time_of_environment(), policy) << to_string(policy);
  }
}

TEST(HostTime, AProcessThatIsToldNothingMeasures) {
  for (const auto& [name, value] : environment_of({})) unsetenv(name.c_str());
  EXPECT_EQ(host_time_of_environment(), HostTimePolicy{});
}

}  // namespace
}  // namespace phantora::channel
