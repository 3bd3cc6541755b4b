#include <phantora/kernels/gpu_model.hpp>
#include <phantora/kernels/kernel_limits.hpp>
#include <phantora/simulation/session.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace phantora {
namespace {

using namespace std::chrono_literals;

/// What test/programs/overlap.py measured: six collectives on one stream, kernels on another that
/// alone take about as long. Microseconds per call.
struct Measured {
  std::string op, compute;
  int world = 0, n = 0;
  std::int64_t bytes = 0;
  double comm_alone = 0, comp_alone = 0, comm_both = 0, comp_both = 0;
  [[nodiscard]] int kernels() const {
    return std::max(1, static_cast<int>(comm_alone * 6 / comp_alone));
  }
};

std::vector<Measured> read_rows(const std::string& path) {
  std::ifstream file{path};
  EXPECT_TRUE(file) << path;
  std::vector<Measured> rows;
  for (std::string line; std::getline(file, line);) {
    const auto it = nlohmann::json::parse(line);
    if (it["test"] != "overlap") continue;
    rows.push_back({it["op"], it["compute"], it["world"], it["n"], it["bytes"], it["comm_alone_us"],
                    it["comp_alone_us"], it["comm_both_us"], it["comp_both_us"]});
  }
  return rows;
}

/// Kernels take what they took alone in reality: what is judged is the interference.
struct Told {
  double us;
  [[nodiscard]] std::optional<CostEstimate> estimate(const KernelQuery& query) const {
    return with_limits({.duration = duration_from_seconds(us * 1e-6)}, query, gpu_model("h200"));
  }
};

/// torch.mm of square bf16 matrices, or x.mul_(1.0) on 2^27 elements.
KernelQuery query_of(const Measured& row) {
  if (row.compute == "gemm") {
    const double n = row.n;
    return {.name = "gemm",
            .features = {{"m", n}, {"n", n}, {"k", n}, {"batch", 1}},
            .attributes = {{"a_type", "bf16"}, {"b_type", "bf16"}, {"c_type", "bf16"}}};
  }
  return {.name = "vectorized_elementwise_kernel",
          .grid = {{131072}},
          .block = {128},
          .bytes = 4.0 * (1 << 27)};
}

/// Microseconds per collective and per kernel of `collectives` on one stream of each GPU and
/// `kernels` on another, issued as PyTorch does: the collectives first, 40 us and then 10 us per
/// call of its host (host_cost in the same measurements).
std::pair<double, double> replay(const Measured& row, int collectives, int kernels) {
  const Cluster cluster = parse_cluster("h200:1x" + std::to_string(row.world));
  Session session{
      cluster, gpu_model("h200"), Told{row.comp_alone}, {}, {{"NCCL_NVLS_ENABLE", "0"}}};
  const auto ranks = static_cast<std::uint32_t>(row.world);
  std::vector<GpuIndex> gpus(ranks);
  std::iota(gpus.begin(), gpus.end(), 0U);
  const CommunicatorId world = session.add_communicator(gpus);
  const QueryIndex kernel = session.add_query(query_of(row));
  const CollectiveOp op = row.op == "all_reduce"   ? CollectiveOp::all_reduce
                          : row.op == "all_gather" ? CollectiveOp::all_gather
                                                   : CollectiveOp::reduce_scatter;
  std::uint64_t marker = 0;
  for (const std::uint32_t rank : gpus) {
    const StreamId side{2 * rank}, compute{2 * rank + 1};
    session.add_stream(side, rank, rank);
    session.add_stream(compute, rank, rank);
    Time now{};
    const auto record = [&](StreamId stream) { session.record(stream, now, MarkerId{++marker}); };
    record(side);
    for (int i = 0; i < collectives; ++i) {
      session.collective(side, now, world, static_cast<int>(rank), op, Bytes{row.bytes}, 0);
      now += 40us;
    }
    record(side);
    record(compute);
    for (int i = 0; i < kernels; ++i) {
      session.launch(compute, now, kernel);
      now += 10us;
    }
    record(compute);
  }
  const std::vector<Time> bounds(ranks, never);
  (void)session.advance(bounds);
  const auto took = [&](std::uint64_t from, std::uint64_t to, int count) {
    return count == 0 ? 0.0
                      : to_seconds(*session.completion(MarkerId{to}) -
                                   *session.completion(MarkerId{from})) *
                            1e6 / count;
  };
  return {took(1, 2, collectives), took(3, 4, kernels)};
}

struct Errors {
  double sum = 0, worst = 0;
  int count = 0;
  void add(double ratio) {
    sum += std::abs(ratio - 1);
    worst = std::max(worst, std::abs(ratio - 1));
    ++count;
  }
  [[nodiscard]] double mean() const { return sum / count; }
};

TEST(Interference, SlowsKernelsAndCollectivesAsMeasured) {
  auto rows = read_rows(PHANTORA_TEST_DATA "/h200_overlap_and_host_cost.jsonl");
  for (Measured& row : read_rows(PHANTORA_ACCURACY_DATA "/h200_overlap.jsonl"))
    rows.push_back(std::move(row));
  ASSERT_EQ(rows.size(), 60U);
  Errors kernels, collectives, together;
  std::cout << "| op | GPUs | MiB | kernels | kernel slowed, measured | simulated | collective "
               "slowed, measured | simulated | both done, simulated / measured |\n"
               "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
            << std::fixed << std::setprecision(2);
  for (const Measured& row : rows) {
    const double alone = replay(row, 6, 0).first;
    const auto [comm, comp] = replay(row, 6, row.kernels());
    const double comp_real = row.comp_both / row.comp_alone, comp_sim = comp / row.comp_alone;
    const double comm_real = row.comm_both / row.comm_alone, comm_sim = comm / alone;
    // The measured makespan, with the collectives' own error taken out.
    const double done_real = std::max(6 * row.comm_both, row.kernels() * row.comp_both);
    const double done_sim = std::max(6 * comm * row.comm_alone / alone, row.kernels() * comp);
    kernels.add(comp_sim / comp_real);
    collectives.add(comm_sim / comm_real);
    together.add(done_sim / done_real);
    std::cout << "| " << row.op << " | " << row.world << " | " << (row.bytes >> 20) << " | "
              << row.kernels() << " x " << row.compute
              << (row.compute == "gemm" ? " " + std::to_string(row.n) : "") << " | " << comp_real
              << " | " << comp_sim << " | " << comm_real << " | " << comm_sim << " | "
              << done_sim / done_real << " |\n";
  }
  std::cout << "kernels: mean error " << 100 * kernels.mean() << " %, worst " << 100 * kernels.worst
            << "; collectives: " << 100 * collectives.mean() << " %, " << 100 * collectives.worst
            << "; makespan: " << 100 * together.mean() << " %, " << 100 * together.worst << "\n";
  EXPECT_LT(kernels.mean(), 0.05);
  EXPECT_LT(collectives.mean(), 0.08);
  EXPECT_LT(together.mean(), 0.06);
  EXPECT_LT(together.worst, 0.25);
}

}  // namespace
}  // namespace phantora
