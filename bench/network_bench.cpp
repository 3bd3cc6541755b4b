#include "peers/workload.hpp"

#include <phantora/cluster.hpp>
#include <phantora/collectives.hpp>
#include <phantora/flow_network.hpp>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <sys/resource.h>

namespace {

using namespace phantora;

/// Runs a workload in order, told as it arrives; set-up is not timed.
template <class Network>
void in_order(benchmark::State& state, const std::string& kind, double load, bool observed) {
  const auto count = static_cast<std::uint32_t>(state.range(0));
  const auto specs = workload::specs<Network>(workload::flows<Network>(kind, count, load));
  FlowStatistics statistics;
  FlowObserver observer;
  for (auto _ : state) {
    state.PauseTiming();
    auto flows = specs;
    FlowNetwork net{workload::view<Network>()};
    const Subscription subscription = observed ? net.subscribe(observer) : Subscription{};
    state.ResumeTiming();
    for (FlowSpec& flow : flows) {
      if (flow.start - Duration{1} > net.now()) {
        net.advance_to(flow.start - Duration{1});
        net.commit(net.now());
      }
      net.start(std::move(flow));
    }
    for (Time next; (next = net.next_event()) != never;) {
      net.advance_to(next);
      net.commit(next);
    }
    statistics = net.statistics();
  }
  const auto events = static_cast<double>(statistics.events);
  state.counters["events"] = events;
  state.counters["rates/event"] = static_cast<double>(statistics.rate_changes) / events;
  state.counters["incidences/event"] = static_cast<double>(statistics.touched_incidences) / events;
  state.counters["us/event"] = benchmark::Counter(
      events * 1e-6, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void ft(benchmark::State& state, const std::string& kind, double load, bool observed) {
  in_order<workload::FatTree>(state, kind, load, observed);
}
void tree(benchmark::State& state, const std::string& kind, double load, bool observed) {
  in_order<workload::Tree>(state, kind, load, observed);
}
BENCHMARK_CAPTURE(ft, open_03, "open", 0.3, false)
    ->Arg(1000)
    ->Arg(10'000)
    ->Arg(100'000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(ft, open_06, "open", 0.6, false)
    ->Arg(1000)
    ->Arg(10'000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(ft, burst, "burst", 0.6, false)
    ->Arg(1000)
    ->Arg(10'000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(tree, open_06, "open", 0.6, false)
    ->Arg(1000)
    ->Arg(10'000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(ft, open_03_observed, "open", 0.3, true)
    ->Arg(10'000)
    ->Unit(benchmark::kMillisecond);

/// Flow after flow, committed and forgotten as it goes: memory must not grow with their number.
void soak(benchmark::State& state) {
  const auto specs =
      workload::specs<workload::FatTree>(workload::flows<workload::FatTree>("open", 10'000, 0.3));
  const Duration round = specs.back().start.time_since_epoch();
  const auto peak_mib = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_maxrss) / 1024;
  };
  for (auto _ : state) {
    FlowNetwork net{workload::view<workload::FatTree>()};
    std::deque<FlowId> live;
    double early = 0;
    for (std::int64_t i = 0; i < state.range(0); ++i) {
      FlowSpec flow = specs[static_cast<std::size_t>(i % 10'000)];
      flow.start += round * (i / 10'000);
      if (flow.start - Duration{1} > net.now()) net.advance_to(flow.start - Duration{1});
      net.commit(net.now());
      while (!live.empty() && net.completion(live.front()) &&
             *net.completion(live.front()) < net.now()) {
        net.forget(live.front());
        live.pop_front();
      }
      live.push_back(net.start(std::move(flow)));
      if (i == state.range(0) / 10) early = peak_mib();
    }
    state.counters["MiB after a tenth"] = early;
    state.counters["MiB at the end"] = peak_mib();
  }
}
BENCHMARK(soak)->Arg(1'000'000)->Arg(10'000'000)->Iterations(1)->Unit(benchmark::kSecond);

/// Parallel flows over ever longer routes: cost by route length.
void route_length(benchmark::State& state) {
  const auto hops = static_cast<std::uint32_t>(state.range(0));
  std::vector<Bandwidth> links(hops, Bandwidth{1e9});
  for (auto _ : state) {
    FlowNetwork net{NetworkView{links}};
    for (int f = 0; f < 100; ++f) {
      FlowSpec flow{.size = Bytes{1'000'000 + f}};
      for (std::uint32_t l = 0; l < hops; ++l) flow.links.push_back({LinkId{l}, 1.0});
      net.start(std::move(flow));
    }
    net.advance_to(never);
  }
}
BENCHMARK(route_length)->RangeMultiplier(4)->Range(1, 256)->Unit(benchmark::kMillisecond);

/// A ring all_reduce over 4,096 GPUs as one flow.
void ring_of_4096(benchmark::State& state) {
  const Cluster cluster = parse_cluster("h200:512x8");
  const Communicator ring{cluster, cluster.gpus, {{"NCCL_ALGO", "Ring"}}};
  (void)ring.plan(CollectiveOp::all_reduce, 1_GiB);  // its routes are part of the set-up
  const NetworkView view = cluster.topology.view();
  for (auto _ : state) {
    state.PauseTiming();
    FlowNetwork net{view};
    state.ResumeTiming();
    CollectivePlan plan = ring.plan(CollectiveOp::all_reduce, 1_GiB);
    const FlowId flow = net.start(std::move(plan.flows.at(0)));
    net.advance_to(never);
    benchmark::DoNotOptimize(net.completion(flow));
  }
}
BENCHMARK(ring_of_4096)->Unit(benchmark::kMillisecond);

/// 16,384 GPUs, placed at random: 2,048 all_reduces of 8 ranks and 8 reduce_scatters of 2,048.
void contention_on_16384(benchmark::State& state) {
  const Cluster cluster = parse_cluster("h200:2048x8");
  std::vector<NodeId> gpus = cluster.gpus;
  std::mt19937_64 random{1};
  std::shuffle(gpus.begin(), gpus.end(), random);
  const NcclVariables ring{{"NCCL_ALGO", "Ring"}};
  std::vector<CollectivePlan> plans;
  const auto add = [&](std::ptrdiff_t first, std::ptrdiff_t ranks, CollectiveOp op, Bytes size) {
    plans.push_back(
        Communicator{cluster, {gpus.begin() + first, gpus.begin() + first + ranks}, ring}.plan(
            op, size));
  };
  for (std::ptrdiff_t i = 0; i < 2048; ++i) add(8 * i, 8, CollectiveOp::all_reduce, 256_MiB);
  for (std::ptrdiff_t i = 0; i < 8; ++i) add(2048 * i, 2048, CollectiveOp::reduce_scatter, 1_GiB);
  const NetworkView view = cluster.topology.view();
  for (auto _ : state) {
    FlowNetwork net{view};
    for (const CollectivePlan& plan : plans) {
      for (FlowSpec flow : plan.flows) {
        flow.start = Time{plan.latency};
        net.start(std::move(flow));
      }
    }
    net.advance_to(never);
    state.counters["events"] = static_cast<double>(net.statistics().events);
  }
}
BENCHMARK(contention_on_16384)->Unit(benchmark::kMillisecond)->Iterations(1);

void build_16384(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(parse_cluster("h200:2048x8"));
}
BENCHMARK(build_16384)->Unit(benchmark::kMillisecond);

}  // namespace
