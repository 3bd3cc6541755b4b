#include <phantora/error.hpp>
#include <phantora/simulation/simulation.hpp>
#include <phantora/simulation/widen.hpp>

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace phantora {
namespace {

using namespace std::chrono_literals;

/// Replicas of two ranks, which share a layer and pass a message; gradients are reduced among the
/// ranks of the same place.
Workload job(Rank replicas) {
  Workload w;
  for (Rank r = 0; r < 2 * replicas; ++r) {
    w.launch(r, gemm(512, 512, 512)).host(r, 2us);
    const std::vector<Rank> pair{r / 2 * 2, r / 2 * 2 + 1};
    w.collective(r, pair, CollectiveOp::all_reduce, 1_MiB);
    if (r % 2 == 0) {
      w.send(r, r + 1, 3_KiB, 1);
    } else {
      w.receive(r, r - 1, 3_KiB, 1);
    }
    w.synchronize(r, w.record(r, 1));
    std::vector<Rank> peers;
    for (Rank replica = 0; replica < replicas; ++replica) peers.push_back(2 * replica + r % 2);
    w.collective(r, peers, CollectiveOp::reduce_scatter, 64_MiB, 2);
    w.synchronize(r, w.record(r, 2));
    w.launch(r, gemm(64, 64, 64));
  }
  return w;
}

TEST(Widen, IsTheJobOfMoreReplicas) {
  EXPECT_EQ(widen(job(2), 1, 2), job(2));
  EXPECT_EQ(widen(job(2), 4, 2), job(8));
  EXPECT_EQ(widen(widen(job(2), 2, 2), 2, 2), job(8));
}

TEST(Widen, WithoutModelParallelismEveryGroupIsDataParallel) {
  Workload two, six;
  for (Workload* w : {&two, &six}) {
    std::vector<Rank> all(w == &two ? 2 : 6);
    std::iota(all.begin(), all.end(), Rank{0});
    for (const Rank rank : all) w->launch(rank, gemm(512, 512, 512));
    w->all_reduce(all, 64_MiB);
  }
  EXPECT_EQ(widen(two, 3), six);
}

TEST(Widen, MessagesBetweenReplicasStayInTheirCopy) {
  Workload w;
  w.send(0, 1, 3_KiB).receive(1, 0, 3_KiB);
  const Workload wide = widen(w, 2);
  ASSERT_EQ(wide.rank_count(), 4U);
  EXPECT_EQ(wide.describe(2, 0), "message of 3072 bytes from rank 2 to rank 3");
  EXPECT_EQ(wide.groups().front(), (std::vector<Rank>{0, 1, 2, 3}));
  (void)Simulation{parse_cluster("h200:1x4")}.run(wide);
}

TEST(Widen, RefusesWhatCannotBe) {
  EXPECT_THROW((void)widen(job(2), 0), ArgumentError);
  EXPECT_THROW((void)widen(job(2), 2, 3), ArgumentError);
  EXPECT_THROW((void)widen(job(2), 2, 0), ArgumentError);
  EXPECT_THROW((void)widen(job(2), 1U << 22U), ArgumentError);
}

}  // namespace
}  // namespace phantora
