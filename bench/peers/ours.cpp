// Our FlowNetwork on the peers' workloads.
// usage: ours ft|tree open|burst COUNT LOAD [LATENESS_NS [CHECK]]
// Prints wall seconds without set-up, events, changed rates and touched incidences per event.
// FCT_OUT=FILE writes every flow's duration in seconds.
#include "workload.hpp"

#include <phantora/network/flow_network.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <numeric>
#include <string>
#include <vector>

#include <sys/resource.h>

using namespace phantora;

namespace {

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

template <class Network>
void run(const std::string& name, const std::string& kind, std::uint32_t count, double load,
         std::int64_t lateness) {
  const auto flows = workload::flows<Network>(kind, count, load);
  auto specs = workload::specs<Network>(flows);
  const auto told =
      workload::told_at(flows, static_cast<std::uint64_t>(std::max<std::int64_t>(0, lateness)));
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return told[a] < told[b]; });
  std::vector<Time> starts;
  for (const FlowSpec& spec : specs) starts.push_back(*spec.start);
  FlowNetwork net{workload::view<Network>()};
  std::vector<FlowId> ids(count);
  const double before = peak_mib();
  const std::clock_t cpu_begin = std::clock();
  const auto begin = std::chrono::steady_clock::now();
  for (const std::size_t f : order) {
    const Time at{std::chrono::nanoseconds{told[f]}};
    if (lateness > 0) {
      // Late: the flow is told after the network has run to that instant, and the next event asked.
      net.advance_to(at);
      ids[f] = net.start(std::move(specs[f]));
      (void)net.next_event();
      const Time safe = at - std::chrono::nanoseconds{lateness};
      if (safe > Time{}) net.commit(safe);
    } else {
      if (at - Duration{1} > net.now()) {
        net.advance_to(at - Duration{1});
        net.commit(net.now());
      }
      ids[f] = net.start(std::move(specs[f]));
    }
  }
  for (Time next; (next = net.next_event()) != never;) {
    net.advance_to(next);
    net.commit(next);
  }
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  const double cpu = static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC;
  double makespan = 0, sum = 0;
  std::FILE* out = std::getenv("FCT_OUT") ? std::fopen(std::getenv("FCT_OUT"), "w") : nullptr;
  for (std::size_t f = 0; f < count; ++f) {
    const Time end = *net.completion(ids[f]);
    const double fct = to_seconds(end - starts[f]);
    makespan = std::max(makespan, to_seconds(end.time_since_epoch()));
    sum += fct;
    if (out) std::fprintf(out, "%.12e\n", fct);
  }
  if (out) std::fclose(out);
  const FlowStatistics& s = net.statistics();
  const auto events = static_cast<double>(s.events);
  std::printf(
      "phantora %s %s load=%g N=%u lateness_ns=%lld wall_s=%.4f cpu_s=%.4f events=%llu "
      "replayed=%llu "
      "rates_per_event=%.1f incidences_per_event=%.1f peak_MiB=%.1f (%.1f before) "
      "makespan_us=%.6f mean_us=%.6f\n",
      name.c_str(), kind.c_str(), load, count, static_cast<long long>(lateness), wall.count(), cpu,
      static_cast<unsigned long long>(s.events), static_cast<unsigned long long>(s.replayed_events),
      static_cast<double>(s.rate_changes) / events,
      static_cast<double>(s.touched_incidences) / events, peak_mib(), before, makespan * 1e6,
      sum / count * 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5)
    return std::fprintf(stderr, "usage: ours ft|tree open|burst COUNT LOAD [LATENESS_NS]\n"), 2;
  const std::string network = argv[1], kind = argv[2];
  const auto count = static_cast<std::uint32_t>(std::atoi(argv[3]));
  const double load = std::atof(argv[4]);
  const std::int64_t lateness = argc > 5 ? std::atoll(argv[5]) : -1;
  if (network == "tree") {
    run<workload::Tree>(network, kind, count, load, lateness);
  } else {
    run<workload::FatTree>(network, kind, count, load, lateness);
  }
}
