// Two all_reduces of 1 GB on all GPUs of a cluster, the second from 1 ms on: README.md shows it.
#include <phantora/cluster/cluster.hpp>
#include <phantora/collectives/communicator.hpp>
#include <phantora/network/flow_network.hpp>

#include <iostream>
#include <vector>

int main() {
  using namespace phantora;
  const Cluster cluster = parse_cluster("h200:2x8");
  const Communicator all{cluster, cluster.gpus};
  const CollectivePlan plan = all.plan(CollectiveOp::all_reduce, 1_GB);

  FlowNetwork network{cluster.topology.view()};
  std::vector<FlowId> flows;
  for (const Duration issued : {Duration{}, duration_from_seconds(1e-3)}) {
    for (FlowSpec flow : plan.flows) {
      flow.start = Time{issued + plan.latency};
      flows.push_back(network.start(flow));
    }
  }
  network.advance_to(never);
  for (const FlowId flow : flows)
    std::cout << to_string(plan.algorithm) << " ends at "
              << 1e3 * to_seconds(network.completion(flow)->time_since_epoch()) << " ms\n";
}
