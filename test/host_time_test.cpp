#include <phantora/simulation/host_time.hpp>

#include <gtest/gtest.h>

namespace phantora {
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

}  // namespace
}  // namespace phantora
