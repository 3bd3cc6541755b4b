#include <phantora/error.hpp>
#include <phantora/simulation/simulation.hpp>
#include <phantora/simulation/widen.hpp>

#include <cstdlib>
#include <initializer_list>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

namespace phantora {
namespace {

using namespace std::chrono_literals;

/// Any price.
struct Told {
  [[nodiscard]] static std::optional<CostEstimate> estimate(const KernelQuery&) {
    return CostEstimate{.duration = 1us};
  }
};

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

/// A sharded job: the weights of all replicas are gathered and the gradients scattered, and each
/// updates its own. What all tell of themselves is gathered too.
Workload sharded(Rank replicas, const std::string& update = "update") {
  Workload w;
  std::vector<Rank> all(replicas);
  std::iota(all.begin(), all.end(), Rank{0});
  const double share = 1.0 / replicas;
  for (const Rank r : all) {
    w.allocate(r, 64_MiB * share, "weights");
    const Workload::Block gathered = w.allocate(r, 64_MiB, "gathered");
    w.collective(r, all, CollectiveOp::all_gather, 64_MiB, 1);
    w.launch(r, KernelQuery{.name = "copy_out", .grid = {{1024}}, .bytes = 128e6});
    w.launch(r, gemm(512, 512, 512)).free(gathered);
    w.collective(r, all, CollectiveOp::reduce_scatter, 128_MiB, 1);
    w.collective(r, all, CollectiveOp::all_gather, 4_KiB * replicas, 2);
    // What a loop over tensors launches: fewer and smaller ones where there are more replicas.
    for (Rank i = 0; i < 64 / replicas; ++i)
      w.launch(r,
               KernelQuery{
                   .name = update, .grid = {{32}}, .bytes = 3e6, .features = {{"numel", 250'000}}});
    w.launch(r, KernelQuery{.name = "norm",
                            .grid = {{4096 / replicas}},
                            .bytes = 4e6 + 32e6 * share,
                            .features = {{"numel", 4096.0 / replicas}}});
  }
  return w;
}

TEST(Widen, SizesOfShardsFollowTheNumberOfReplicas) {
  const Workload wide = widen(sharded(8), 4, 1, sharded(4)), live = sharded(32);
  ASSERT_EQ(wide.rank_count(), 32U);
  EXPECT_EQ(wide.operation_count(), live.operation_count() + 32 * 6);  // of the updates, 8 and 2
  const auto sums = [](const Workload& w, const std::string& name) {
    std::vector<double> of(3);
    for (const Workload::Operation& operation : w.operations(17)) {
      const auto* launch = std::get_if<Workload::Launch>(&operation);
      if (launch == nullptr || w.kernels()[launch->kernel].query.name != name) continue;
      const KernelQuery& query = w.kernels()[launch->kernel].query;
      of[0] += query.bytes;
      of[1] += query.grid ? query.grid->x : 0;
      if (query.features.contains("numel")) of[2] += query.features.at("numel");
    }
    return of;
  };
  for (const char* name : {"copy_out", "update", "norm"})
    EXPECT_EQ(sums(wide, name), sums(live, name)) << name;
  const auto collectives = [](const Workload& w) {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < w.operations(17).size(); ++i)
      if (std::holds_alternative<Workload::Collective>(w.operations(17)[i]))
        all.push_back(w.describe(17, i));
    return all;
  };
  EXPECT_EQ(collectives(wide), collectives(live));
  const Simulation simulation{parse_cluster("h200:4x8"),
                              {.costs = [](const GpuModel&) { return KernelCostModel{Told{}}; }}};
  // Pieces are rounded to bytes.
  EXPECT_NEAR(static_cast<double>(simulation.run(wide).peak_memory().count()),
              static_cast<double>(simulation.run(live).peak_memory().count()), 2);
}

/// What FSDP2 of eight layers (bench/replay/fsdp.py) takes of a GPU, by PyTorch's allocator: as
/// recorded of live runs.
Workload segments(Rank replicas) {
  static const std::map<Rank, std::vector<std::pair<int, Bytes>>> taken{
      {4, {{8, 64_MiB}, {1, 2_MiB}, {1, 16_MiB}, {3, 66_MiB}, {7, 18_MiB}, {2, 64_MiB}}},
      {8, {{8, 64_MiB}, {1, 2_MiB}, {1, 20_MiB}, {3, 66_MiB}, {4, 20_MiB}}},
      {16, {{8, 64_MiB}, {1, 2_MiB}, {1, 20_MiB}, {3, 66_MiB}, {2, 20_MiB}}},
      {32, {{8, 64_MiB}, {1, 2_MiB}, {1, 20_MiB}, {3, 66_MiB}, {1, 20_MiB}}}};
  Workload w;
  for (Rank r = 0; r < replicas; ++r) {
    for (const auto& [count, size] : taken.at(replicas))
      for (int i = 0; i < count; ++i) w.allocate(r, size);
    w.free(w.allocate(r, 1_MiB));
  }
  return w;
}

/// The most that a rank of the widened job holds.
Bytes widened_peak(const Workload& many, const Workload& few, std::uint32_t factor) {
  return Simulation{parse_cluster("h200:4x8")}.run(widen(many, factor, 1, few)).peak_memory();
}
Bytes peak(const Workload& w) { return Simulation{parse_cluster("h200:4x8")}.run(w).peak_memory(); }

TEST(Widen, ShardsThatShareSegmentsOfPyTorchsAllocatorFillFewer) {
  // Pieces are rounded to bytes.
  const auto near = [](Bytes a, Bytes b) { return std::abs((a - b).count()) < 32; };
  const Bytes at_16 = peak(segments(16)), at_32 = peak(segments(32));
  EXPECT_TRUE(near(widened_peak(segments(8), segments(4), 2), at_16));
  EXPECT_TRUE(near(widened_peak(segments(8), segments(4), 4), at_32));
  EXPECT_TRUE(near(widened_peak(segments(16), segments(8), 2), at_32));
}

TEST(Widen, SegmentsOfAShardEachFallWithTheNumberOfReplicas) {
  // Shards of 256 MiB and 4 KiB divided by the replicas; beside them what stays.
  const auto job = [](Rank replicas, std::initializer_list<Bytes> shards) {
    Workload w;
    for (Rank r = 0; r < replicas; ++r) {
      w.allocate(r, 512_MiB);
      w.free(w.allocate(r, Bytes{3'000'000}));
      for (const Bytes size : shards) w.allocate(r, size);
    }
    return w;
  };
  const Workload two = job(2, {130_MiB, 130_MiB}), four = job(4, {66_MiB, 66_MiB});
  const auto near = [](Bytes a, Bytes b) { return std::abs((a - b).count()) < 32; };
  // 34 MiB each with 8; with 16, 18 MiB; with 32, 10 MiB.
  EXPECT_TRUE(near(widened_peak(four, two, 2), peak(job(8, {34_MiB, 34_MiB}))));
  EXPECT_TRUE(near(widened_peak(four, two, 4), peak(job(16, {18_MiB, 18_MiB}))));
  EXPECT_TRUE(near(widened_peak(four, two, 8), peak(job(32, {10_MiB, 10_MiB}))));
}

TEST(Widen, WithoutChangesOfSizeItIsWhatItWas) {
  EXPECT_EQ(widen(job(4), 2, 2, job(2)), widen(job(4), 2, 2));
}

TEST(Widen, RefusesJobsThatDoNotDoTheSame) {
  try {
    (void)widen(sharded(8), 2, 1, sharded(4, "other"));
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_NE(std::string{error.what()}.find("rank 0 has update on stream 0, where of fewer rank "
                                             "0 has other"),
              std::string::npos)
        << error.what();
  }
  EXPECT_THROW((void)widen(sharded(4), 2, 1, sharded(4)), ArgumentError);
  EXPECT_THROW((void)widen(sharded(4), 2, 1, sharded(8)), ArgumentError);
  EXPECT_THROW((void)widen(sharded(4), 2, 1, Workload{}), ArgumentError);
  EXPECT_THROW((void)widen(job(4), 2, 2, sharded(1)), ArgumentError);  // half a replica
}

TEST(Widen, RefusesWhatCannotBe) {
  try {
    (void)widen(job(2), 0);
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_EQ(std::string{error.what()}.find("0 times 4 ranks: expected 1 to 4194304"), 0U)
        << error.what();
  }
  EXPECT_THROW((void)widen(job(2), 2, 3), ArgumentError);
  EXPECT_THROW((void)widen(job(2), 2, 0), ArgumentError);
  EXPECT_THROW((void)widen(job(2), 1U << 22U), ArgumentError);
}

}  // namespace
}  // namespace phantora
