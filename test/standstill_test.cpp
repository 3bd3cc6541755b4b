#include <phantora/simulation/standstill.hpp>

#include <gtest/gtest.h>

namespace phantora {
namespace {

using namespace std::chrono_literals;

TEST(Standstill, NamesRanksAsUsersDo) {
  EXPECT_EQ(rank_list({3}), "rank 3");
  EXPECT_EQ(rank_list({0, 1}), "ranks 0, 1");
  EXPECT_EQ(rank_list({0, 2, 4, 5, 6, 9}), "ranks 0, 2, 4-6, 9");
}

TEST(Standstill, TellsRanksThatDoTheSameTogether) {
  const Standstill seen{.ranks = {{0, "waits"}, {1, "sleeps"}, {2, "waits"}}, .ended = {3, 4, 5}};
  EXPECT_EQ(what_ranks_do(seen),
            "\n  ranks 0, 2: waits"
            "\n  rank 1: sleeps"
            "\n  ranks 3-5: ended");
}

TEST(Standstill, TellsWhoWaitsForWhom) {
  const Standstill seen{
      .operations = {{.what = "all_reduce of 64 bytes",
                      .group = {0, 1, 2, 3},
                      .waiting = {0, 1, 3},
                      .since = Time{1500ms},
                      .missing = {{"rank 2", "has ended"}}}},
      .joining = {{.call = "ncclCommInitRank of 4 ranks", .waiting = {7}, .free_places = {1, 3}},
                  {.call = "ncclCommSplit", .waiting = {0, 1}, .missing = {{"rank 2", "sleeps"}}}}};
  EXPECT_EQ(open_operations(seen),
            "\n  all_reduce of 64 bytes on the communicator of ranks 0-3: ranks 0, 1, 3 wait since "
            "1.500000 s; rank 2 has not called it and has ended"
            "\n  ncclCommInitRank of 4 ranks: rank 7 waits; nobody has called it as rank 1, 3"
            "\n  ncclCommSplit: ranks 0, 1 wait; rank 2 has not called it and sleeps");
}

// Advice about the program is given only where the network is not to blame.
TEST(Standstill, SaysWhyARunIsStalled) {
  Standstill seen{.ranks = {{0, "waits"}}};
  EXPECT_EQ(stall_in_words(seen),
            "the run is stalled: ranks wait for what does not come."
            "\n  rank 0: waits"
            "\n  Every rank of a communicator has to call the same operations in the same order.");
  seen.obstacles = {"a collective is stalled: link leaf0 is down"};
  EXPECT_EQ(stall_in_words(seen),
            "the run is stalled: ranks wait for what does not come."
            "\n  a collective is stalled: link leaf0 is down"
            "\n  rank 0: waits");
}

}  // namespace
}  // namespace phantora
