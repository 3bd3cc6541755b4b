// The naive oracle: progressive filling from scratch at every event. Deliberately simple.
// usage: oracle ft|tree open|burst COUNT LOAD     FCT_OUT=FILE as in ours.cpp
#include "workload.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

namespace {

template <class Network>
void run(const std::string& name, const std::string& kind, std::uint32_t count, double load) {
  const auto flows = workload::flows<Network>(kind, count, load);
  std::vector<std::vector<std::uint32_t>> path(count);
  for (std::uint32_t i = 0; i < count; ++i) Network::route(flows[i].src, flows[i].dst, path[i]);
  std::vector<double> remaining(count), rate(count), fct(count), left(Network::links);
  std::vector<std::uint32_t> active, open(Network::links), used;
  std::vector<std::vector<std::uint32_t>> on(Network::links);
  std::vector<char> fixed(count);
  double t = 0;
  std::uint32_t next = 0;
  const std::clock_t cpu_begin = std::clock();
  const auto begin = std::chrono::steady_clock::now();
  while (next < count || !active.empty()) {
    used.clear();
    for (const std::uint32_t f : active) {
      fixed[f] = 0;
      for (const std::uint32_t l : path[f]) {
        if (open[l]++ == 0) {
          used.push_back(l);
          left[l] = Network::capacity(l);
          on[l].clear();
        }
        on[l].push_back(f);
      }
    }
    using Level = std::pair<double, std::uint32_t>;
    std::vector<Level> heap;
    for (const std::uint32_t l : used) heap.emplace_back(left[l] / open[l], l);
    const auto later = [](const Level& a, const Level& b) { return a.first > b.first; };
    std::make_heap(heap.begin(), heap.end(), later);
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end(), later);
      const auto [level, l] = heap.back();
      heap.pop_back();
      if (open[l] == 0) continue;
      const double now = left[l] / open[l];
      if (now > level * (1 + 1e-12)) {
        heap.emplace_back(now, l);
        std::push_heap(heap.begin(), heap.end(), later);
        continue;
      }
      for (const std::uint32_t f : on[l]) {
        if (fixed[f]) continue;
        fixed[f] = 1;
        rate[f] = now;
        for (const std::uint32_t m : path[f]) {
          left[m] = std::max(0.0, left[m] - now);
          --open[m];
        }
      }
    }
    for (const std::uint32_t l : used) open[l] = 0;
    double end = 1e300;
    for (const std::uint32_t f : active) end = std::min(end, t + remaining[f] / rate[f]);
    const double arrival =
        next < count ? static_cast<double>(flows[next].arrival_ns) * 1e-9 : 1e300;
    const double now = std::min(end, arrival);
    for (const std::uint32_t f : active) remaining[f] -= rate[f] * (now - t);
    t = now;
    std::erase_if(active, [&](std::uint32_t f) {
      if (remaining[f] > 1e-3) return false;
      fct[f] = t - static_cast<double>(flows[f].arrival_ns) * 1e-9;
      return true;
    });
    for (; next < count && static_cast<double>(flows[next].arrival_ns) * 1e-9 <= t; ++next) {
      remaining[next] = static_cast<double>(flows[next].bytes);
      active.push_back(next);
    }
  }
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  const double cpu = static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC;
  double sum = 0;
  std::FILE* out = std::getenv("FCT_OUT") ? std::fopen(std::getenv("FCT_OUT"), "w") : nullptr;
  for (const double x : fct) {
    sum += x;
    if (out) std::fprintf(out, "%.12e\n", x);
  }
  if (out) std::fclose(out);
  std::printf("oracle %s %s load=%g N=%u wall_s=%.4f cpu_s=%.4f makespan_us=%.6f mean_us=%.6f\n",
              name.c_str(), kind.c_str(), load, count, wall.count(), cpu, t * 1e6,
              sum / count * 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return std::fprintf(stderr, "usage: oracle ft|tree open|burst COUNT LOAD\n"), 2;
  const auto count = static_cast<std::uint32_t>(std::atoi(argv[3]));
  if (std::string{argv[1]} == "tree") {
    run<workload::Tree>(argv[1], argv[2], count, std::atof(argv[4]));
  } else {
    run<workload::FatTree>(argv[1], argv[2], count, std::atof(argv[4]));
  }
}
