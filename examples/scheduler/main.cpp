// A queue of training jobs on 16 hosts, four to a leaf switch, with four times less bandwidth above
// the leaves than below: how much sooner are they done if each is placed on as few leaves as it
// can?
#include <phantora/cluster/cluster.hpp>
#include <phantora/format.hpp>
#include <phantora/simulation/simulation.hpp>

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

using namespace phantora;
using namespace std::chrono_literals;

constexpr unsigned gpus_per_leaf = 32;
using Policy = std::vector<GpuIndex> (*)(std::vector<GpuIndex> free, std::size_t count);

std::vector<GpuIndex> first_fit(std::vector<GpuIndex> free, std::size_t count) {
  free.resize(count);
  return free;
}
/// The leaf that it fits into most tightly, else whole leaves, the emptiest first.
std::vector<GpuIndex> compact(std::vector<GpuIndex> free, std::size_t count) {
  std::map<GpuIndex, std::size_t> room;
  for (const GpuIndex gpu : free) ++room[gpu / gpus_per_leaf];
  const auto rank = [&](GpuIndex gpu) {
    const std::size_t leaf = room[gpu / gpus_per_leaf];
    return std::pair{leaf < count, leaf < count ? free.size() - leaf : leaf};
  };
  std::stable_sort(free.begin(), free.end(), [&](auto a, auto b) { return rank(a) < rank(b); });
  return first_fit(std::move(free), count);
}

/// Data parallel: each step computes, then reduces the gradients.
Workload training(unsigned gpus, Duration compute, Bytes gradients, unsigned steps) {
  Workload job;
  std::vector<Rank> all(gpus);
  std::iota(all.begin(), all.end(), 0);
  for (unsigned step = 0; step < steps; ++step) {
    for (const Rank rank : all) job.launch(rank, known_time(compute));
    job.all_reduce(all, gradients).end_step();
  }
  return job;
}

void run(const char* name, const Simulation& simulation, Policy place) {
  Jobs jobs{simulation};
  Duration waited{};
  for (unsigned i = 0; i < 24; ++i) {  // the queue is served in its order
    const unsigned gpus = 8 * (1 + 3 * i % 5);
    while (jobs.free_gpus().size() < gpus) (void)jobs.next();
    waited += jobs.now().time_since_epoch();
    jobs.add(training(gpus, 40ms, 14_GB, 10 + 7 * (i % 3)), place(jobs.free_gpus(), gpus));
  }
  while (jobs.next()) {
  }
  fmt::print("{:10} all done after {:.3s}, mean wait {:.3s}\n", name, jobs.now(), waited / 24);
}

int main() {
  const Simulation simulation{parse_cluster("h200:16x8/leaf_spine,oversubscription=4")};
  run("first fit", simulation, first_fit);
  run("compact", simulation, compact);
}
