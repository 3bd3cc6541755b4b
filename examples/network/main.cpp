// All hosts of eight leaves send to the host as far across the fabric: how long do flows take, by
// what the fabric is and how it chooses among equal paths, and if a link fails on the way?
#include <phantora/cluster/topologies.hpp>
#include <phantora/format.hpp>
#include <phantora/network/flow_network.hpp>

#include <algorithm>
#include <vector>

using namespace phantora;
using namespace std::chrono_literals;

void shift(double oversubscription, Routing routing, bool fails) {
  Cluster cluster = topologies::make_cluster({{.hosts = 32, .gpus_per_host = 1}},
                                             topologies::LeafSpine{{}, 4, oversubscription},
                                             {.routing = routing});
  FlowNetwork network{cluster.topology.view(cluster.routing)};
  std::vector<FlowId> flows;
  for (std::size_t i = 0; i < 32; ++i)
    flows.push_back(network.start(
        {.src = cluster.gpus[i], .dst = cluster.gpus[(i + 16) % 32], .size = 100_MB, .key = i}));
  const LinkId link = *cluster.topology.find_link("leaf0->spine0");
  if (fails) {  // for two milliseconds
    network.set_capacity(link, Time{1ms}, Bandwidth{0});
    network.set_capacity(link, Time{3ms}, cluster.topology.bandwidth(link));
  }
  network.advance_to(never);
  Duration sum{}, worst{};
  for (const FlowId flow : flows) {
    const Duration time = network.completion(flow)->time_since_epoch();
    sum += time;
    worst = std::max(worst, time);
  }
  fmt::print("{:>4}:1 {:9}{:12} mean {:.3ms}, worst {:.3ms}\n", oversubscription,
             routing == Routing::ecmp    ? "ecmp"
             : routing == Routing::spray ? "spray"
                                         : "adaptive",
             fails ? ", link fails" : "", sum / 32, worst);
}

int main() {
  for (const double oversubscription : {1.0, 4.0})
    for (const Routing routing : {Routing::ecmp, Routing::adaptive, Routing::spray})
      for (const bool fails : {false, true}) shift(oversubscription, routing, fails);
}
