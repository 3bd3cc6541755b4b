// What would a real training job gain from other hardware, and what does it lose if a link fails?
// The job runs once, as it is, on simulated GPUs, and is recorded:
//
//     phantora run --cluster h200:2x2 --host-time off --record gpt.rec
//       -- python examples/pytorch/train_gpt.py --steps 4
//     what_if gpt.rec
#include <phantora/format.hpp>
#include <phantora/phantora.hpp>

#include <string_view>
#include <utility>
#include <vector>

using namespace phantora;

/// Two hosts of two GPUs, each with a leaf switch of its own, and two spines; rates in Gbps.
Cluster two_hosts(std::string_view gpu, int nic, int link, std::string_view more = "") {
  return parse_cluster_toml(fmt::format(R"(
[[hosts]]
gpu = "{}"
gpus = 2
count = 2
nic = "{}Gbps"
[fabric]
kind = "leaf_spine"
hosts_per_leaf = 1
link = "{}Gbps"
[routing]
mode = "spray"
{})",
                                        gpu, nic, link, more));
}

int main(int argc, char** argv) {
  const Workload job = Workload::load(argc > 1 ? argv[1] : "gpt.rec");
  constexpr std::string_view failure = R"([[failures]]
at = "50ms"
between = ["leaf0", "spine0"])";
  const std::vector<std::pair<const char*, Cluster>> cases{
      {"as it is, 2:1", two_hosts("h200", 200, 100)},
      {"2x NICs", two_hosts("h200", 400, 200)},
      {"half the oversubscription", two_hosts("h200", 200, 200)},
      {"H100", two_hosts("h100", 200, 100)},
      {"A100", two_hosts("a100", 200, 100)},
      {"a link fails", two_hosts("h200", 200, 100, failure)},
  };
  double base = 0;
  for (const auto& [name, cluster] : cases) {
    StepObserver observed;  // a record marks no steps: they are found in its kernels
    const std::vector<SessionObserver*> observers{&observed};
    const Simulation simulation{cluster};
    const Report report = simulation.run(job, {}, observers);
    const double step = to_seconds(observed.step(report.gpus).value());
    if (base == 0) base = step;
    fmt::print("{:26} step {:7.2f} ms ({:+6.1f} %), exposed {:4.1f} %, busiest link {}\n", name,
               step * 1e3, 100 * (step / base - 1),
               100 * to_seconds(report.exposed()) / to_seconds(report.makespan),
               cluster.topology.name(simulation.link_loads(job).front().link));
  }
}
