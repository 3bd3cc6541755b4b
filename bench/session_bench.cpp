#include <phantora/cluster/cluster.hpp>
#include <phantora/kernels/gpu_model.hpp>
#include <phantora/simulation/session.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <ctime>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

namespace {

using namespace phantora;
using namespace std::chrono_literals;

/// Every kernel takes as long as its feature "us" says, and draws half of the memory's bandwidth.
struct Told {
  [[nodiscard]] std::optional<CostEstimate> estimate(const KernelQuery& query) const {
    return CostEstimate{
        .duration = std::chrono::microseconds{static_cast<std::int64_t>(query.features.at("us"))},
        .limit = KernelLimit::memory,
        .demand = 0.4,
        .memory_share = 0.5};
  }
};

struct Job {
  std::uint32_t gpus = 16;
  std::uint32_t stages = 1;   ///< of the pipeline; its stages are data parallel among themselves
  std::uint32_t streams = 1;  ///< of each GPU that kernels run on, in turn
  Duration lag{};             ///< of each rank's host behind that of the rank before
};

/// Training steps of a transformer, told to a Session as a user of the library would.
class Training {
 public:
  Training(const Cluster& cluster, const Job& job)
      : job_{job},
        session_{cluster, gpu_model("h200"), Told{}},
        half_layer_{session_.add_query(kernel(100)), session_.add_query(kernel(150))},
        clocks_(job.gpus),
        ends_(job.gpus) {
    for (std::uint32_t rank = 0; rank < job_.gpus; ++rank) {
      for (std::uint32_t k = 0; k < side_streams + job_.streams; ++k)
        session_.add_stream(stream(rank, k), rank, rank);
      clocks_[rank] = Time{job_.lag * rank};
    }
    const std::uint32_t replicas = job_.gpus / job_.stages;
    for (std::uint32_t stage = 0; stage < job_.stages; ++stage) {
      std::vector<GpuIndex> gpus(replicas);
      std::iota(gpus.begin(), gpus.end(), stage * replicas);
      stage_.push_back(session_.add_communicator(gpus));
      if (stage + 1 == job_.stages) break;
      for (const GpuIndex gpu : gpus)
        for (auto* neighbours : {&forward_, &backward_})
          neighbours->push_back(session_.add_communicator({gpu, gpu + replicas}));
    }
  }

  /// One step of every rank, 1F1B.
  void step() {
    for (std::uint32_t rank = 0; rank < job_.gpus; ++rank) issue(rank);
    const std::vector<Time> nobody(job_.gpus, never);
    for (std::uint32_t blocked = job_.gpus; blocked > 0;) {
      for (const Answer& answer : session_.advance(nobody)) {
        clocks_[answer.process] = answer.clock + job_.lag * answer.process;
        session_.drop(ends_[answer.process]);
        --blocked;
      }
    }
  }

  /// What has been appended to streams so far.
  [[nodiscard]] std::uint64_t operations() const { return operations_; }

 private:
  enum Side : std::uint32_t { gradients, from_left, to_right, from_right, to_left, side_streams };
  static constexpr std::uint32_t layers = 32;

  static KernelQuery kernel(int us) { return {.name = "half_layer", .features = {{"us", us}}}; }
  [[nodiscard]] StreamId stream(std::uint32_t rank, std::uint32_t k) const {
    return StreamId{std::uint64_t{rank} * (side_streams + job_.streams) + k};
  }
  [[nodiscard]] StreamId compute(std::uint32_t rank, std::uint32_t k = 0) const {
    return stream(rank, side_streams + k);
  }

  /// `to` goes on when `from` has got here.
  void order(Time now, StreamId from, StreamId to) {
    const MarkerId marker{++last_marker_};
    session_.record(from, now, marker);
    session_.wait(to, now, marker);
    session_.drop(marker);
    operations_ += 2;
  }

  void issue(std::uint32_t rank) {
    const Time now = clocks_[rank];
    const std::uint32_t replicas = job_.gpus / job_.stages;
    const std::uint32_t stage = rank / replicas;
    const bool first = stage == 0, last = stage + 1 == job_.stages;
    // Each rank has as many layers to run, whatever the number of stages.
    const std::uint32_t depth = layers / job_.stages, batches = 2 * job_.stages;
    const auto message = [&](Side side, CommunicatorId pair, int me, bool sends) {
      const SendRecv it{sends ? me : 1 - me, sends ? 1 - me : me, 64_MiB};
      if (sends) order(now, compute(rank), stream(rank, side));
      session_.send_recv(stream(rank, side), now, pair, me, {&it, 1});
      ++operations_;
      if (!sends) order(now, stream(rank, side), compute(rank));
    };
    std::uint32_t launched = 0;
    const auto run = [&](bool has_gradients) {
      for (std::uint32_t layer = 0; layer < depth; ++layer) {
        for (const QueryIndex query : half_layer_) {
          const std::uint32_t k = launched++ % job_.streams;
          if (k != 0) order(now, compute(rank), compute(rank, k));
          session_.launch(compute(rank, k), now, query);
          if (k != 0) order(now, compute(rank, k), compute(rank));
          ++operations_;
        }
        if (!has_gradients || replicas == 1) continue;
        order(now, compute(rank), stream(rank, gradients));
        session_.collective(stream(rank, gradients), now, stage_[stage],
                            static_cast<int>(rank % replicas), CollectiveOp::all_reduce, 64_MiB, 0);
        ++operations_;
      }
    };
    const auto forward = [&] {
      if (!first) message(from_left, forward_[rank - replicas], 1, false);
      run(false);
      if (!last) message(to_right, forward_[rank], 0, true);
    };
    const auto backward = [&] {
      if (!last) message(from_right, backward_[rank], 0, false);
      run(true);
      if (!first) message(to_left, backward_[rank - replicas], 1, true);
    };
    const std::uint32_t warm = std::min(batches, job_.stages - stage - 1);
    for (std::uint32_t i = 0; i < warm; ++i) forward();
    for (std::uint32_t i = warm; i < batches; ++i) {
      forward();
      backward();
    }
    for (std::uint32_t i = 0; i < warm; ++i) backward();
    order(now, stream(rank, gradients), compute(rank));
    ends_[rank] = MarkerId{++last_marker_};
    session_.record(compute(rank), now, ends_[rank]);
    session_.synchronize(rank, 0, now, ends_[rank]);
    ++operations_;
  }

  Job job_;
  Session session_;
  std::array<QueryIndex, 2> half_layer_;
  std::vector<Time> clocks_;
  std::vector<MarkerId> ends_;  ///< of the ranks' steps
  std::vector<CommunicatorId> stage_{}, forward_{}, backward_{};
  std::uint64_t last_marker_ = 0, operations_ = 0;
};

/// One step after another; set-up, and the first step, which plans routes, are not timed.
void train(benchmark::State& state, const Job& job) {
  const Cluster cluster = parse_cluster("h200:" + std::to_string((job.gpus + 7) / 8) + "x8");
  Training training{cluster, job};
  training.step();
  const std::uint64_t before = training.operations();
  for (auto _ : state) training.step();
  const auto operations = static_cast<double>(training.operations() - before);
  state.counters["operations"] = operations / static_cast<double>(state.iterations());
  state.counters["operations/s"] = benchmark::Counter(operations, benchmark::Counter::kIsRate);
  state.counters["us/operation"] = benchmark::Counter(
      operations * 1e-6, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void gpus(benchmark::State& state, std::uint32_t stages, Duration lag) {
  train(state, {.gpus = static_cast<std::uint32_t>(state.range(0)), .stages = stages, .lag = lag});
}
/// All ranks do everything at the same instants.
BENCHMARK_CAPTURE(gpus, data_parallel, 1, Duration{})
    ->Arg(16)
    ->Arg(128)
    ->Arg(1024)
    ->Unit(benchmark::kMillisecond);
/// No two ranks do anything at the same instant, as where hosts are measured.
BENCHMARK_CAPTURE(gpus, staggered, 1, 37ns)
    ->Arg(16)
    ->Arg(128)
    ->Arg(1024)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(gpus, pipeline_of_16, 16, Duration{})
    ->Arg(16)
    ->Arg(128)
    ->Arg(1024)
    ->Unit(benchmark::kMillisecond);

void streams(benchmark::State& state) {
  train(state, {.gpus = 16, .streams = static_cast<std::uint32_t>(state.range(0)), .lag = 37ns});
}
BENCHMARK(streams)->RangeMultiplier(4)->Range(1, 256)->Unit(benchmark::kMillisecond);

void stages(benchmark::State& state) {
  train(state, {.gpus = 128, .stages = static_cast<std::uint32_t>(state.range(0))});
}
BENCHMARK(stages)->RangeMultiplier(2)->Range(1, 16)->Unit(benchmark::kMillisecond);

}  // namespace
