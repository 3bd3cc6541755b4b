#include <phantora/error.hpp>
#include <phantora/simulation/host_profile.hpp>

#include <cstdio>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace phantora {
namespace {

HostProfile some_host() {
  return {.name = "node 7",
          .processor = "A \"fast\" one",
          .sockets = 2,
          .cores = 64,
          .threads = 128,
          .measured = "2026-11-22",
          .interpreter_ns = 15'000.25,
          .allocation_ns = 9'000,
          .memory_ns = 80'000,
          .calls_ns = 8'000};
}

std::string error_of(const std::string& text) {
  try {
    (void)parse_host_profile(text, "my.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::string with(const std::string& from, const std::string& to) {
  std::string text = to_json(some_host());
  const std::size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(HostProfile, IsReadAsItIsWritten) {
  HostProfile host = some_host();
  EXPECT_EQ(parse_host_profile(to_json(host)), host);
  host.calls_ns.reset();
  host.measured.clear();
  EXPECT_EQ(parse_host_profile(to_json(host)), host);
}

TEST(HostProfile, SaysWhichFieldIsWrong) {
  EXPECT_EQ(error_of("{"), "my.json: expected JSON, as phantora host writes it");
  EXPECT_EQ(error_of("[1]"), "my.json: expected an object, got [1]");
  EXPECT_EQ(error_of("{}"), "my.json: phantora_host: expected version 1, got nothing");
  EXPECT_EQ(error_of(with("\"phantora_host\": 1", "\"phantora_host\": 2")),
            "my.json: phantora_host: expected version 1, got 2");
  EXPECT_EQ(error_of(with("\"node 7\"", "7")), "my.json: name: expected text, got 7");
  EXPECT_EQ(error_of(with("\"node 7\"", "\"\"")), "my.json: name: expected a name, got \"\"");
  EXPECT_EQ(error_of(with("\"sockets\": 2", "\"sockets\": 0")),
            "my.json: sockets: expected a whole number from 1 to 1000000, got 0");
  EXPECT_EQ(error_of(with("\"sockets\": 2", "\"sockets\": 1.5")),
            "my.json: sockets: expected a whole number from 1 to 1000000, got 1.5");
  EXPECT_EQ(error_of(with("\"cores\": 64", "\"cores\": 1")),
            "my.json: cores: expected at least as many as sockets, got 1");
  EXPECT_EQ(error_of(with("\"threads\": 128", "\"threads\": 63")),
            "my.json: threads: expected at least as many as cores, got 63");
  EXPECT_EQ(error_of(with("80000.0", "0")),
            "my.json: work_ns.memory: expected nanoseconds from 0.001 to 1e12, got 0");
  EXPECT_EQ(error_of(with("80000.0", "-1.5")),
            "my.json: work_ns.memory: expected nanoseconds from 0.001 to 1e12, got -1.5");
  EXPECT_EQ(error_of(with("\"memory\"", "\"memories\"")),
            "my.json: work_ns.memory: expected nanoseconds from 0.001 to 1e12, got nothing");
  EXPECT_EQ(error_of(with("\"allocation\"", "\"disk\": 1, \"allocation\"")),
            "my.json: there is no field \"work_ns.disk\"");
  EXPECT_EQ(error_of(with("\"measured\"", "\"colour\": 1, \"measured\"")),
            "my.json: there is no field \"colour\"");
  EXPECT_EQ(error_of(with("8000.0", "\"8000\"")),
            "my.json: calls_ns: expected nanoseconds from 0.001 to 1e12, got \"8000\"");
}

TEST(HostProfile, ASlowerHostTakesLonger) {
  const HostProfile host = some_host();
  EXPECT_EQ(slowness(host, host), HostSlowness{});
  HostProfile half = host;
  half.interpreter_ns *= 2;
  half.memory_ns *= 2;
  half.calls_ns = *host.calls_ns * 3;
  EXPECT_DOUBLE_EQ(slowness(half, host).work, 2);
  EXPECT_DOUBLE_EQ(slowness(half, host).calls, 3);
  // Calls that nobody has measured follow the work.
  half.calls_ns.reset();
  EXPECT_DOUBLE_EQ(slowness(half, host).calls, 2);
  // Of work a quarter follows memory.
  half.memory_ns *= 16;
  EXPECT_DOUBLE_EQ(slowness(half, host).work, 4);
  half.allocation_ns *= 2;
  EXPECT_DOUBLE_EQ(slowness(half, host).work, 4);
}

TEST(HostProfile, PresetsAreFoundByName) {
  ASSERT_FALSE(host_presets().empty());
  for (const HostProfile& preset : host_presets()) {
    EXPECT_EQ(host_profile(preset.name), preset);
    EXPECT_EQ(parse_host_profile(to_json(preset)), preset);
  }
}

TEST(HostProfile, IsReadFromAFile) {
  const std::string path = testing::TempDir() + "phantora_host_profile_test.json";
  std::ofstream{path} << to_json(some_host());
  EXPECT_EQ(host_profile(path), some_host());
  std::remove(path.c_str());
  try {
    (void)host_profile(path);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(std::string{error.what()}.find("host \"" + path + "\": expected one of h200, "), 0U)
        << error.what();
  }
}

}  // namespace
}  // namespace phantora
