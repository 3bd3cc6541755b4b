#include <phantora/error.hpp>
#include <phantora/simulation/communicators.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace phantora {
namespace {

using Admitted = Communicators::Admitted;
using Caller = Communicators::Caller;

Time at(std::int64_t ns) { return Time{std::chrono::nanoseconds{ns}}; }
Communicators::UniqueId id_of(int number) { return {static_cast<std::byte>(number)}; }

/// Its communicators are numbered from 0; rank r is process 10 + r on GPU 20 + r.
class Ranks {
 public:
  std::vector<Admitted> join(int id, int ranks, int rank, Time clock = {},
                             std::optional<ProcessIndex> maker = {}) {
    return communicators.join(id_of(id), maker, ranks, rank, gpu(rank), caller(rank, clock));
  }
  /// All of them at once.
  CommunicatorId communicator_of(int ranks) {
    for (int rank = 0; rank + 1 < ranks; ++rank) EXPECT_TRUE(join(99, ranks, rank).empty());
    return *join(99, ranks, ranks - 1).at(0).communicator;
  }
  std::vector<Admitted> split(CommunicatorId parent, int rank, std::int64_t color, std::int64_t key,
                              Time clock = {}) {
    return communicators.split(parent, rank, color, key, caller(rank, clock));
  }
  static GpuIndex gpu(int rank) { return static_cast<GpuIndex>(20 + rank); }
  static Caller caller(int rank, Time clock) {
    return {.process = static_cast<ProcessIndex>(10 + rank), .thread = 3, .clock = clock};
  }

  std::vector<std::vector<GpuIndex>> made{};
  Communicators communicators{[this](std::vector<GpuIndex> gpus) {
    made.push_back(std::move(gpus));
    return CommunicatorId{made.size() - 1};
  }};
};

std::string refusal(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(Communicators, RanksThatJoinGoOnAtTheLastOnesClock) {
  Ranks ranks;
  EXPECT_TRUE(ranks.join(1, 3, 2, at(5)).empty());
  EXPECT_TRUE(ranks.join(2, 2, 0, at(9)).empty());  // under another id
  EXPECT_TRUE(ranks.join(1, 3, 0, at(7)).empty());
  const auto admitted = ranks.join(1, 3, 1, at(6));
  ASSERT_EQ(admitted.size(), 3U);
  for (const int rank : {0, 1, 2}) {
    const Admitted& one = admitted[static_cast<std::size_t>(rank)];
    EXPECT_EQ(one.caller.process, 10U + static_cast<ProcessIndex>(rank));
    EXPECT_EQ(one.caller.thread, 3U);
    EXPECT_EQ(one.caller.clock, at(7));
    EXPECT_EQ(one.communicator, CommunicatorId{0});
    EXPECT_EQ(one.rank, rank);
    EXPECT_EQ(one.ranks, 3);
  }
  EXPECT_EQ(ranks.made, (std::vector<std::vector<GpuIndex>>{{20, 21, 22}}));
  EXPECT_EQ(ranks.communicators.members(CommunicatorId{0}).at(2).process, 12U);
  // The id may serve again.
  EXPECT_TRUE(ranks.join(1, 2, 0).empty());
  EXPECT_EQ(ranks.join(1, 2, 1).at(0).communicator, CommunicatorId{1});
}

TEST(Communicators, WhoeverCannotShareOneIsRefused) {
  {
    Ranks ranks;
    ranks.join(1, 3, 0);
    EXPECT_EQ(refusal([&] { ranks.join(1, 4, 1); }),
              "the ranks that join a communicator do not agree on how many they are: one is of 3, "
              "another of 4");
    EXPECT_EQ(refusal([&] { ranks.join(1, 3, 0); }), "two join a communicator of 3 as its rank 0");
    EXPECT_EQ(
        refusal([&] {
          ranks.communicators.join(id_of(1), {}, 3, 2, Ranks::gpu(0), Ranks::caller(2, {}));
        }),
        "ranks 0 and 2 of a communicator of 3 are both on GPU 20: NCCL takes one rank of each "
        "GPU. Has every process chosen its device?");
    EXPECT_THROW(ranks.join(1, 3, 3), ArgumentError);
    EXPECT_THROW(ranks.join(1, 3, -1), ArgumentError);
    // They have left nothing behind.
    ranks.join(1, 3, 1);
    EXPECT_EQ(ranks.join(1, 3, 2).size(), 3U);
  }
  Ranks ranks;
  const CommunicatorId world = ranks.communicator_of(2);
  EXPECT_THROW(ranks.split(world, 2, 0, 0), ArgumentError);
  EXPECT_THROW(ranks.split(CommunicatorId{7}, 0, 0, 0), ArgumentError);
  EXPECT_THROW((void)ranks.communicators.members(CommunicatorId{7}), ArgumentError);
}

TEST(Communicators, MembersOfAColourAreOrderedByKeyAndThenByRank) {
  Ranks ranks;
  const CommunicatorId world = ranks.communicator_of(5);
  const std::int64_t colors[] = {1, 0, 1, -1, 1}, keys[] = {5, 0, -2, 0, 5};
  std::vector<Admitted> admitted;
  for (const std::size_t rank : {4U, 0U, 3U, 1U, 2U}) {
    EXPECT_TRUE(admitted.empty());
    admitted = ranks.split(world, static_cast<int>(rank), colors[rank], keys[rank],
                           at(static_cast<std::int64_t>(rank)));
  }
  // Rank 2 has the least key; 0 and 4 have equal ones.
  EXPECT_EQ(ranks.made,
            (std::vector<std::vector<GpuIndex>>{{20, 21, 22, 23, 24}, {21}, {22, 20, 24}}));
  ASSERT_EQ(admitted.size(), 5U);
  std::sort(admitted.begin(), admitted.end(), [](const Admitted& a, const Admitted& b) {
    return a.caller.process < b.caller.process;
  });
  const std::optional<CommunicatorId> alone{CommunicatorId{1}}, three{CommunicatorId{2}};
  const std::optional<CommunicatorId> communicators[] = {three, alone, three, {}, three};
  const int now[] = {1, 0, 0, 0, 2}, sizes[] = {3, 1, 3, 0, 3};
  for (std::size_t rank = 0; rank < admitted.size(); ++rank) {
    EXPECT_EQ(admitted[rank].communicator, communicators[rank]) << rank;
    EXPECT_EQ(admitted[rank].rank, now[rank]) << rank;
    EXPECT_EQ(admitted[rank].ranks, sizes[rank]) << rank;
    EXPECT_EQ(admitted[rank].caller.clock, at(4)) << rank;
  }
}

TEST(Communicators, SplitsOfARankMatchInOrder) {
  Ranks ranks;
  const CommunicatorId world = ranks.communicator_of(2);
  EXPECT_TRUE(ranks.split(world, 0, 0, 0).empty());
  EXPECT_TRUE(ranks.split(world, 0, 1, 0).empty());  // by another thread
  EXPECT_EQ(ranks.split(world, 1, 0, 0).at(0).ranks, 2);
  EXPECT_EQ(ranks.split(world, 1, 2, 0).at(0).ranks, 1);
}

TEST(Communicators, WithoutTheMakerOfAnIdNobodyJoinsUnderIt) {
  Ranks ranks;
  EXPECT_TRUE(ranks.join(1, 3, 1, at(4), 10).empty());
  EXPECT_TRUE(ranks.join(2, 2, 1, at(4)).empty());
  const auto admitted = ranks.communicators.end_process(10);
  ASSERT_EQ(admitted.size(), 1U);
  EXPECT_EQ(admitted[0].caller.process, 11U);
  EXPECT_EQ(admitted[0].caller.clock, at(4));
  EXPECT_FALSE(admitted[0].communicator);
  const auto late = ranks.join(1, 3, 2, at(8), 10);
  ASSERT_EQ(late.size(), 1U);
  EXPECT_EQ(late[0].caller.clock, at(8));
  EXPECT_FALSE(late[0].communicator);
  // Nobody knows who made the other.
  EXPECT_EQ(ranks.join(2, 2, 0).size(), 2U);
}

TEST(Communicators, AProcessThatHasEndedWaitsNoMore) {
  Ranks ranks;
  EXPECT_TRUE(ranks.join(1, 2, 0).empty());
  EXPECT_TRUE(ranks.communicators.end_process(10).empty());
  EXPECT_TRUE(ranks.communicators.pending().empty());
  // Whoever takes its place is not taken for a second one.
  EXPECT_TRUE(ranks.join(1, 2, 0).empty());
  EXPECT_EQ(ranks.join(1, 2, 1).size(), 2U);
}

TEST(Communicators, SaysWhoWaitsForWhom) {
  Ranks ranks;
  const CommunicatorId world = ranks.communicator_of(3);
  ranks.split(world, 2, 0, 0);
  ranks.split(world, 0, 0, 0);
  ranks.join(1, 4, 3);
  const auto pending = ranks.communicators.pending();
  ASSERT_EQ(pending.size(), 2U);
  EXPECT_FALSE(pending[0].splits);
  EXPECT_EQ(pending[0].ranks, 4);
  EXPECT_EQ(pending[0].waiting.at(0).rank, 3);
  EXPECT_EQ(pending[0].waiting.at(0).caller.process, 13U);
  EXPECT_EQ(pending[1].splits, world);
  EXPECT_EQ(pending[1].ranks, 3);
  ASSERT_EQ(pending[1].waiting.size(), 2U);
  EXPECT_EQ(pending[1].waiting[0].rank, 2);
  EXPECT_EQ(pending[1].waiting[1].rank, 0);
}

TEST(Communicators, TheLastMemberThatLeavesSaysSo) {
  Ranks ranks;
  const CommunicatorId world = ranks.communicator_of(2);
  EXPECT_FALSE(ranks.communicators.leave(world));
  EXPECT_TRUE(ranks.communicators.leave(world));
  EXPECT_THROW(ranks.communicators.leave(world), ArgumentError);
  EXPECT_EQ(ranks.communicators.members(world).size(), 2U);
}

}  // namespace
}  // namespace phantora
