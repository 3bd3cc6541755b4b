// How many GPUs should share a layer? README.md shows it.
#include <phantora/format.hpp>
#include <phantora/simulation/simulation.hpp>

#include <numeric>
#include <vector>

using namespace phantora;

int main() {
  const Simulation simulation{parse_cluster("h200:1x8")};
  for (const unsigned parts : {1U, 2U, 4U, 8U}) {
    std::vector<Rank> group(parts);
    std::iota(group.begin(), group.end(), 0);
    Workload layer;
    for (const Rank rank : group) layer.launch(rank, linear_forward(16384, 8192, 28672 / parts));
    for (const Rank rank : group) layer.launch(rank, linear_forward(16384, 28672 / parts, 8192));
    if (parts > 1) layer.all_reduce(group, 256_MiB);
    const Report report = simulation.run(layer);
    fmt::print("{} GPUs: {}, of which {} exposed communication\n", parts, report.makespan,
               report.exposed());
  }
}
