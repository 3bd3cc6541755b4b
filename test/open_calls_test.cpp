#include "run/open_calls.hpp"

#include <phantora/error.hpp>

#include <gtest/gtest.h>

namespace phantora::run {
namespace {

std::string rank_name(int rank) { return "rank " + std::to_string(rank); }

OperationCall all_reduce(std::int64_t bytes, std::int64_t at_ns = 0) {
  return {.name = "all_reduce", .size = Bytes{bytes}, .at = Time{std::chrono::nanoseconds{at_ns}}};
}

TEST(OpenCalls, ACollectiveThatAllRanksCalledIsNotOpen) {
  OpenCalls calls{3};
  for (const int rank : {2, 0, 1}) calls.collective(rank, all_reduce(64), rank_name);
  EXPECT_TRUE(calls.all().empty());
}

TEST(OpenCalls, NamesWhoHasCalledAndWhoHasNotSinceTheFirst) {
  OpenCalls calls{4};
  calls.collective(3, all_reduce(64, 500), rank_name);
  calls.collective(1, all_reduce(64, 200), rank_name);
  const auto open = calls.all();
  ASSERT_EQ(open.size(), 1U);
  EXPECT_EQ(open[0].what, "all_reduce of 64 bytes");
  EXPECT_EQ(open[0].waiting, (std::vector<int>{1, 3}));
  EXPECT_EQ(open[0].missing, (std::vector<int>{0, 2}));
  EXPECT_EQ(open[0].since, Time{std::chrono::nanoseconds{200}});
}

TEST(OpenCalls, CallsOfARankMatchInOrder) {
  OpenCalls calls{2};
  calls.collective(0, all_reduce(64), rank_name);
  calls.collective(0, all_reduce(128), rank_name);
  calls.collective(1, all_reduce(64), rank_name);
  const auto open = calls.all();
  ASSERT_EQ(open.size(), 1U);
  EXPECT_EQ(open[0].what, "all_reduce of 128 bytes");
}

TEST(OpenCalls, DifferentCallsOfOneNumberAreRefusedLowerRankFirst) {
  OpenCalls calls{2};
  calls.collective(1, all_reduce(64), rank_name);
  try {
    calls.collective(0, {.name = "broadcast", .size = Bytes{64}, .root = 1}, rank_name);
    FAIL() << "accepted";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("number 1: rank 0 calls broadcast of 64 bytes (root 1), rank 1 calls "
                        "all_reduce of 64 bytes (root 0)"),
              std::string::npos)
        << text;
  }
}

TEST(OpenCalls, DifferentSizesAreRefused) {
  OpenCalls calls{2};
  calls.collective(0, all_reduce(64), rank_name);
  EXPECT_THROW(calls.collective(1, all_reduce(65), rank_name), Error);
}

TEST(OpenCalls, MessagesMatchPerPairAndDirection) {
  OpenCalls calls{2};
  const OperationCall send{.name = "send", .size = Bytes{4}},
      receive{.name = "recv", .size = Bytes{4}};
  calls.message(0, 1, true, send);
  calls.message(1, 0, false, receive);  // the other direction: does not match
  auto open = calls.all();
  ASSERT_EQ(open.size(), 2U);
  EXPECT_EQ(open[0].waiting, std::vector<int>{0});
  EXPECT_EQ(open[0].missing, std::vector<int>{1});
  EXPECT_EQ(open[1].waiting, std::vector<int>{0});
  calls.message(0, 1, false, receive);
  calls.message(1, 0, true, send);
  EXPECT_TRUE(calls.all().empty());
}

}  // namespace
}  // namespace phantora::run
