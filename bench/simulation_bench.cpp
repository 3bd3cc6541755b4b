#include <phantora/cluster/cluster.hpp>
#include <phantora/simulation/simulation.hpp>
#include <phantora/simulation/transformer.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

namespace {

using namespace phantora;
using namespace std::chrono_literals;

constexpr StreamNumber communication = 1;
constexpr int layers = 64;

/// Data parallel steps: in each layer two kernels, and an all_reduce beside them.
Workload job(Rank ranks) {
  Workload w;
  std::vector<Rank> all(ranks);
  for (Rank rank = 0; rank < ranks; ++rank) all[rank] = rank;
  for (int layer = 0; layer < layers; ++layer) {
    for (const Rank rank : all) {
      w.launch(rank, known_time(100us)).launch(rank, known_time(150us));
      w.order(rank, 0, communication);
    }
    w.all_reduce(all, 64_MiB, communication);
  }
  return w;
}

void count(benchmark::State& state, std::size_t operations) {
  const double all = static_cast<double>(operations) * static_cast<double>(state.iterations());
  state.counters["operations"] = static_cast<double>(operations);
  state.counters["ns/operation"] =
      benchmark::Counter(all * 1e-9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

std::string cluster_of(Rank ranks) { return "h200:" + std::to_string((ranks + 7) / 8) + "x8"; }

/// Checks, runs and reports a workload.
void simulation(benchmark::State& state) {
  const auto ranks = static_cast<Rank>(state.range(0));
  const Simulation on{parse_cluster(cluster_of(ranks))};
  const Workload w = job(ranks);
  for (auto _ : state) benchmark::DoNotOptimize(on.run(w).makespan);
  count(state, w.operation_count());
}
BENCHMARK(simulation)->Arg(2)->Arg(16)->Arg(128)->Unit(benchmark::kMillisecond);

/// The same calls to a Session, written by hand: what Simulation adds is the difference.
void session(benchmark::State& state) {
  const auto ranks = static_cast<Rank>(state.range(0));
  const Cluster cluster = parse_cluster(cluster_of(ranks));
  struct Told {
    [[nodiscard]] std::optional<CostEstimate> estimate(const KernelQuery& query) const {
      return CostEstimate{.duration = query.name == "long" ? 150us : 100us,
                          .limit = KernelLimit::memory};
    }
  };
  for (auto _ : state) {
    Session s{cluster, [](const GpuModel&) { return Told{}; }};
    const std::array kernels{s.add_query({.name = "short"}), s.add_query({.name = "long"})};
    std::vector<GpuIndex> all(ranks);
    for (Rank rank = 0; rank < ranks; ++rank) all[rank] = rank;
    const CommunicatorId world = s.add_communicator(all);
    std::uint64_t marker = 0;
    for (Rank rank = 0; rank < ranks; ++rank) {
      const StreamId compute{2 * std::uint64_t{rank}}, beside{2 * std::uint64_t{rank} + 1};
      for (const StreamId stream : {compute, beside}) s.add_stream(stream, rank, rank);
      for (int layer = 0; layer < layers; ++layer) {
        for (const QueryIndex kernel : kernels) s.launch(compute, Time{}, kernel);
        s.record(compute, Time{}, MarkerId{++marker});
        s.wait(beside, Time{}, MarkerId{marker});
        s.collective(beside, Time{}, world, static_cast<int>(rank), CollectiveOp::all_reduce,
                     64_MiB, 0);
      }
      s.record(beside, Time{}, MarkerId{++marker});
      s.synchronize(rank, 0, Time{}, MarkerId{marker});
    }
    const std::vector<Time> nobody(ranks, never);
    for (Rank left = ranks; left > 0;) left -= static_cast<Rank>(s.advance(nobody).size());
    benchmark::DoNotOptimize(s.now());
  }
  count(state, std::size_t{ranks} * layers * 5);
}
BENCHMARK(session)->Arg(2)->Arg(16)->Arg(128)->Unit(benchmark::kMillisecond);

void told(benchmark::State& state) {
  std::size_t operations = 0;
  for (auto _ : state) operations = job(16).operation_count();
  count(state, operations);
}
/// Building a workload.
BENCHMARK(told)->Unit(benchmark::kMillisecond);

void written(benchmark::State& state) {
  const Workload w = job(16);
  for (auto _ : state) benchmark::DoNotOptimize(Workload::from_binary(w.to_binary()).rank_count());
  count(state, w.operation_count());
}
/// Writing and reading it in its binary form.
BENCHMARK(written)->Unit(benchmark::kMillisecond);

}  // namespace
