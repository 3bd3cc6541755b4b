#include "peers/workload.hpp"

#include <phantora/cluster/cluster.hpp>
#include <phantora/cluster/topologies.hpp>
#include <phantora/collectives/communicator.hpp>
#include <phantora/network/flow_network.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <deque>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <malloc.h>
#include <sys/resource.h>

namespace {

using namespace phantora;

/// Runs flows in order, told as they arrive and committed at once.
void run_in_order(FlowNetwork& net, std::vector<FlowSpec> flows) {
  for (FlowSpec& flow : flows) {
    if (*flow.start - Duration{1} > net.now()) {
      net.advance_to(*flow.start - Duration{1});
      net.commit(net.now());
    }
    net.start(std::move(flow));
  }
  for (Time next; (next = net.next_event()) != never;) {
    net.advance_to(next);
    net.commit(next);
  }
}

/// A digest of when the first flows complete: equal only if all do so at the same picosecond.
/// @return 52 bits, which a double holds
double digest(const FlowNetwork& net, std::size_t flows) {
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  for (std::uint64_t id = 0; id < flows; ++id) {
    const auto ps = net.completion(FlowId{id}).value_or(never).time_since_epoch().count();
    for (int byte = 0; byte < 8; ++byte)
      hash = (hash ^ (static_cast<std::uint64_t>(ps) >> (8 * byte) & 0xFF)) * 1099511628211ULL;
  }
  return static_cast<double>(hash >> 12);
}

/// Set-up is not timed.
void in_order(benchmark::State& state, const NetworkView& view,
              const std::vector<FlowSpec>& specs) {
  FlowStatistics statistics;
  double completions = 0;
  for (auto _ : state) {
    state.PauseTiming();
    auto flows = specs;
    FlowNetwork net{view};
    state.ResumeTiming();
    run_in_order(net, std::move(flows));
    state.PauseTiming();
    statistics = net.statistics();
    completions = digest(net, specs.size());
    state.ResumeTiming();
  }
  const auto events = static_cast<double>(statistics.events);
  state.counters["events"] = events;
  state.counters["digest"] = completions;
  state.counters["rates/event"] = static_cast<double>(statistics.rate_changes) / events;
  state.counters["incidences/event"] = static_cast<double>(statistics.touched_incidences) / events;
  state.counters["us/event"] = benchmark::Counter(
      events * 1e-6, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

template <class Network>
std::vector<FlowSpec> specs(const std::string& kind, std::int64_t count, double load) {
  return workload::specs<Network>(
      workload::flows<Network>(kind, static_cast<std::uint32_t>(count), load));
}

void ft(benchmark::State& state, const std::string& kind, double load) {
  in_order(state, workload::view<workload::FatTree>(),
           specs<workload::FatTree>(kind, state.range(0), load));
}
void tree(benchmark::State& state, const std::string& kind, double load) {
  in_order(state, workload::view<workload::Tree>(),
           specs<workload::Tree>(kind, state.range(0), load));
}
BENCHMARK_CAPTURE(ft, open_03, "open", 0.3)
    ->Arg(1000)
    ->Arg(10'000)
    ->Arg(100'000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(ft, open_06, "open", 0.6)->Arg(1000)->Arg(10'000)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(ft, burst, "burst", 0.6)
    ->Arg(1000)
    ->Arg(3000)
    ->Arg(10'000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(tree, open_06, "open", 0.6)
    ->Arg(1000)
    ->Arg(3000)
    ->Arg(10'000)
    ->Unit(benchmark::kMillisecond);

/// The fat tree's flows on a network that has so many times its links, most of them idle.
void links(benchmark::State& state) {
  const auto times = static_cast<std::size_t>(state.range(0));
  const std::vector<Bandwidth> capacities(times * workload::FatTree::links,
                                          Bandwidth{workload::link_rate});
  in_order(state, NetworkView{capacities}, specs<workload::FatTree>("open", 10'000, 0.3));
  state.counters["links"] = static_cast<double>(capacities.size());
}
BENCHMARK(links)->RangeMultiplier(4)->Range(1, 64)->Unit(benchmark::kMillisecond);

/// Has flows go over so many parts of the fat tree in a row. @return the links of a route, on
/// average
double lengthen(std::vector<FlowSpec>& flows, std::uint32_t times) {
  double hops = 0;
  for (FlowSpec& flow : flows) {
    const std::vector<LinkUse> once = flow.links;
    for (std::uint32_t t = 1; t < times; ++t)
      for (const LinkUse& use : once)
        flow.links.push_back({LinkId{use.link.value + t * workload::FatTree::links}, 1.0});
    hops += static_cast<double>(flow.links.size());
  }
  return hops / static_cast<double>(flows.size());
}

/// The same flows over ever longer routes.
void route_length(benchmark::State& state) {
  const auto times = static_cast<std::uint32_t>(state.range(0));
  const std::vector<Bandwidth> capacities(times * workload::FatTree::links,
                                          Bandwidth{workload::link_rate});
  auto flows = specs<workload::FatTree>("open", 10'000, 0.3);
  const double hops = lengthen(flows, times);
  in_order(state, NetworkView{capacities}, flows);
  state.counters["links per route"] = hops;
}
BENCHMARK(route_length)->RangeMultiplier(2)->Range(1, 32)->Unit(benchmark::kMillisecond);

/// Time with an observer, and with one that has unsubscribed, over the time without.
void observers(benchmark::State& state) {
  enum { none, gone, one };
  const auto flows = specs<workload::FatTree>("open", 10'000, 0.3);
  std::clock_t spent[3] = {0, 0, 0};
  for (auto _ : state) {
    for (const int how : {none, gone, one}) {
      FlowNetwork net{workload::view<workload::FatTree>()};
      FlowObserver observer;
      Subscription subscription = how == none ? Subscription{} : net.subscribe(observer);
      if (how == gone) subscription = Subscription{};
      const std::clock_t begin = std::clock();
      run_in_order(net, flows);
      spent[how] += std::clock() - begin;
    }
  }
  const auto ratio = [&](int how) {
    return static_cast<double>(spent[how]) / static_cast<double>(spent[none]);
  };
  state.counters["unsubscribed/none"] = ratio(gone);
  state.counters["subscribed/none"] = ratio(one);
}
BENCHMARK(observers)->Iterations(20)->Unit(benchmark::kMillisecond);

/// Each flow told up to so many us after its start, and the next event asked for.
void late(benchmark::State& state) {
  const auto lateness = static_cast<std::uint64_t>(state.range(0)) * 1000;
  const auto flows = workload::flows<workload::Tree>("open", 1000, 0.6);
  const auto specs = workload::specs<workload::Tree>(flows);
  const auto told = workload::told_at(flows, lateness);
  std::vector<std::size_t> order(flows.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return told[a] < told[b]; });
  double replayed = 0;
  for (auto _ : state) {
    FlowNetwork net{workload::view<workload::Tree>()};
    for (const std::size_t f : order) {
      const Time at{std::chrono::nanoseconds{told[f]}};
      net.advance_to(at);
      net.start(specs[f]);
      benchmark::DoNotOptimize(net.next_event());
      const Time safe = at - std::chrono::nanoseconds{lateness};
      if (safe > Time{}) net.commit(safe);
    }
    net.advance_to(never);
    replayed = static_cast<double>(net.statistics().replayed_events);
  }
  const auto count = static_cast<double>(flows.size());
  state.counters["lateness/us"] = static_cast<double>(state.range(0));
  state.counters["replayed/flow"] = replayed / count;
  state.counters["us/flow"] = benchmark::Counter(
      count * 1e-6, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(late)->RangeMultiplier(10)->Range(1, 1000)->Unit(benchmark::kMillisecond);

/// What is kept for changes in the past if nothing is committed.
void history(benchmark::State& state, const NetworkView& view, const std::vector<FlowSpec>& flows) {
  for (auto _ : state) {
    FlowNetwork net{view};
    for (const FlowSpec& flow : flows) net.start(flow);
    net.advance_to(never);
    const auto bytes = static_cast<double>(net.history_bytes());
    state.counters["MiB"] = bytes / (1 << 20);
    state.counters["bytes/rate change"] =
        bytes / static_cast<double>(net.statistics().rate_changes);
  }
}
void ft_history(benchmark::State& state, const std::string& kind, double load) {
  history(state, workload::view<workload::FatTree>(),
          specs<workload::FatTree>(kind, state.range(0), load));
}
void tree_history(benchmark::State& state, const std::string& kind, double load) {
  history(state, workload::view<workload::Tree>(),
          specs<workload::Tree>(kind, state.range(0), load));
}
BENCHMARK_CAPTURE(ft_history, open_03, "open", 0.3)
    ->Arg(100)
    ->Arg(1000)
    ->Arg(10'000)
    ->Iterations(1);
BENCHMARK_CAPTURE(ft_history, open_06, "open", 0.6)->Arg(1000)->Arg(10'000)->Iterations(1);
BENCHMARK_CAPTURE(ft_history, burst, "burst", 0.6)->Arg(1000)->Arg(10'000)->Iterations(1);
BENCHMARK_CAPTURE(tree_history, open_03, "open", 0.3)->Arg(1000)->Arg(10'000)->Iterations(1);
BENCHMARK_CAPTURE(tree_history, open_06, "open", 0.6)->Arg(1000)->Arg(3000)->Iterations(1);

/// Bytes of the heap for each of so many live flows, told and committed in 100 batches, whose
/// routes are so many times as long as those on the fat tree (2, 4 or 6 links).
void live_memory(benchmark::State& state) {
  const auto times = static_cast<std::uint32_t>(state.range(1));
  const std::vector<Bandwidth> capacities(times * workload::FatTree::links,
                                          Bandwidth{workload::link_rate});
  auto flows = specs<workload::FatTree>("burst", state.range(0), 0.3);
  for (FlowSpec& flow : flows) flow.size = flow.size * 1000;  // none ends meanwhile
  const double hops = lengthen(flows, times);
  const auto used = [] {
    const struct mallinfo2 info = mallinfo2();
    return static_cast<double>(info.uordblks + info.hblkhd);
  };
  for (auto _ : state) {
    FlowNetwork net{NetworkView{capacities}};
    const double before = used();
    for (const FlowSpec& flow : flows) {
      if (*flow.start > net.now()) {
        net.advance_to(*flow.start - Duration{1});
        net.commit(net.now());
      }
      net.start(flow);
    }
    net.advance_to(net.now() + Duration{1});
    net.commit(net.now());
    const auto count = static_cast<double>(flows.size());
    state.counters["links per route"] = hops;
    state.counters["bytes/flow"] = (used() - before) / count;
  }
}
BENCHMARK(live_memory)
    ->ArgsProduct({{10'000, 100'000}, {1, 2}})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

/// Flow after flow, committed and forgotten as it goes: memory must not grow with their number.
void soak(benchmark::State& state) {
  const auto flows = specs<workload::FatTree>("open", 10'000, 0.3);
  const Duration round = flows.back().start->time_since_epoch();
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
      FlowSpec flow = flows[static_cast<std::size_t>(i % 10'000)];
      *flow.start += round * (i / 10'000);
      if (*flow.start - Duration{1} > net.now()) net.advance_to(*flow.start - Duration{1});
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

/// 10,000 all_reduces of 16 ranks on 1,024 hosts of 8, one NIC per GPU, at a NIC load of 0.45:
/// every other one on two whole hosts, the others along one rail; 1 MiB to 1 GiB.
void all_reduces_on_8192(benchmark::State& state) {
  constexpr int hosts = 1024, count = 10'000;
  constexpr double load = 0.45, nic = 50e9;
  const Cluster cluster = topologies::make_cluster({{.hosts = hosts}}, topologies::RailOptimized{});
  std::mt19937_64 random{1};
  std::uniform_real_distribution<double> uniform{0, 1};
  const auto some_hosts = [&](std::size_t n) {
    std::vector<std::size_t> chosen;
    while (chosen.size() < n) {
      const std::size_t host = random() % hosts;
      if (std::find(chosen.begin(), chosen.end(), host) == chosen.end()) chosen.push_back(host);
    }
    return chosen;
  };
  std::vector<CollectivePlan> plans;
  double busy = 0;  // NICs times seconds
  for (int i = 0; i < count; ++i) {
    const Bytes size{static_cast<std::int64_t>(std::exp2(20 + 10 * uniform(random)))};
    const bool whole = i % 2 == 1;
    std::vector<NodeId> ranks;
    if (whole) {
      for (const std::size_t host : some_hosts(2))
        ranks.insert(ranks.end(), cluster.hosts[host].gpus.begin(), cluster.hosts[host].gpus.end());
    } else {
      const std::size_t rail = random() % 8;
      for (const std::size_t host : some_hosts(16)) ranks.push_back(cluster.hosts[host].gpus[rail]);
    }
    busy += 16 * (whole ? 2.0 / 8 : 1.875) * static_cast<double>(size.count()) / nic;
    plans.push_back(Communicator{cluster, ranks}.plan(CollectiveOp::all_reduce, size));
  }
  const double gap = busy / count / (hosts * 8) / load;
  double arrival = 0;
  std::vector<FlowSpec> flows;
  for (const CollectivePlan& plan : plans) {
    arrival += -std::log(1 - uniform(random)) * gap;
    for (FlowSpec flow : plan.flows) {
      flow.start = Time{duration_from_seconds(arrival)} + plan.latency;
      flows.push_back(std::move(flow));
    }
  }
  std::stable_sort(flows.begin(), flows.end(),
                   [](const FlowSpec& a, const FlowSpec& b) { return *a.start < *b.start; });
  in_order(state, cluster.topology.view(cluster.routing), flows);
}
BENCHMARK(all_reduces_on_8192)->Unit(benchmark::kMillisecond)->Iterations(1);

void build_16384(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(parse_cluster("h200:2048x8"));
}
BENCHMARK(build_16384)->Unit(benchmark::kMillisecond);

}  // namespace
