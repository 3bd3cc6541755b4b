#include "rank/runtime/legacy_order.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace phantora::rank {
namespace {

constexpr unsigned non_blocking = 1;

class RankLegacyOrder : public testing::Test {
 protected:
  RankLegacyOrder() {
    legacy.legacy = true;
    other_gpu.device = 1;
    free.flags = non_blocking;
    for (Stream* stream : {&legacy, &a, &b, &free, &other_gpu}) order.add(*stream);
  }
  std::string name_of(const Stream* stream) const {
    if (stream == &legacy) return "legacy";
    return stream == &a ? "a" : stream == &b ? "b" : stream == &free ? "free" : "other";
  }
  /// The joins before an operation on `stream`, which are carried out, and then it.
  std::vector<std::string> operation(Stream& stream) {
    std::vector<std::string> joins;
    for (const LegacyOrder::Join& join : order.before(stream)) {
      joins.push_back(name_of(join.earlier) + " " + name_of(join.later));
      order.joined(join);
    }
    LegacyOrder::operation(stream);
    return joins;
  }
  using Joins = std::vector<std::string>;

  LegacyOrder order;
  Stream legacy, a, b, free, other_gpu;
};

TEST_F(RankLegacyOrder, TheLegacyStreamWaitsForBlockingStreamsAndTheyForIt) {
  EXPECT_EQ(operation(a), Joins{});
  EXPECT_EQ(operation(b), Joins{});
  EXPECT_EQ(operation(legacy), (Joins{"a legacy", "b legacy"}));
  EXPECT_EQ(operation(a), Joins{"legacy a"});
  EXPECT_EQ(operation(legacy), Joins{"a legacy"});
}

TEST_F(RankLegacyOrder, WhatIsJoinedIsNotJoinedAgain) {
  operation(a);
  operation(legacy);
  EXPECT_EQ(operation(legacy), Joins{});
  EXPECT_EQ(operation(b), Joins{"legacy b"});
  EXPECT_EQ(operation(b), Joins{});
}

TEST_F(RankLegacyOrder, NonBlockingStreamsAndOtherGpusTakeNoPart) {
  operation(free);
  operation(other_gpu);
  EXPECT_EQ(operation(legacy), Joins{});
  EXPECT_EQ(operation(free), Joins{});
  EXPECT_EQ(operation(other_gpu), Joins{});
}

TEST_F(RankLegacyOrder, WhatADestroyedStreamHasIsWaitedForOnce) {
  operation(a);
  operation(b);
  order.remove(a);
  EXPECT_EQ(operation(legacy), (Joins{"a legacy", "b legacy"}));
  order.remove(b);
  EXPECT_EQ(operation(legacy), Joins{});
}

TEST_F(RankLegacyOrder, AThreadThatAsksBeforeAnotherHasJoinedJoinsToo) {
  operation(a);
  const auto first = order.before(legacy);
  ASSERT_EQ(first.size(), 1U);
  ASSERT_EQ(order.before(legacy).size(), 1U);  // the first has not carried it out
  LegacyOrder::operation(a);
  order.joined(first[0]);
  EXPECT_EQ(order.before(legacy).size(), 1U);  // a's second operation came later
  order.joined(order.before(legacy)[0]);
  order.joined(first[0]);  // told late: nothing is forgotten
  EXPECT_TRUE(order.before(legacy).empty());
}

}  // namespace
}  // namespace phantora::rank
