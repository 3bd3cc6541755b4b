// SimGrid 3.32 (Debian 12) on the same platform and flows: pure max-min, no latency.
// usage: simgrid ft|tree open|burst COUNT LOAD [--cfg=...]     FCT_OUT=FILE as in ours.cpp
#include "workload.hpp"

#include <simgrid/s4u.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

namespace s4u = simgrid::s4u;
using workload::link_rate;

namespace {

s4u::Host* host(std::uint32_t i) { return s4u::Host::by_name("h" + std::to_string(i)); }

void build_tree() {
  using workload::Tree;
  auto* zone = s4u::create_star_zone("tree");
  for (std::uint32_t r = 0; r < Tree::racks; ++r) {
    auto* rack = zone->create_split_duplex_link("r" + std::to_string(r), 8 * link_rate)->seal();
    for (std::uint32_t i = r * Tree::width; i < (r + 1) * Tree::width; ++i) {
      auto* h = zone->create_host("h" + std::to_string(i), 1e9)->seal();
      auto* link = zone->create_split_duplex_link("l" + std::to_string(i), link_rate)->seal();
      const auto up = [](s4u::Link* l) {
        return s4u::LinkInRoute(static_cast<s4u::SplitDuplexLink*>(l),
                                s4u::LinkInRoute::Direction::UP);
      };
      zone->add_route(h->get_netpoint(), nullptr, nullptr, nullptr, {up(link), up(rack)}, true);
    }
  }
  zone->seal();
}

void build_fat_tree() {
  const s4u::ClusterCallbacks hosts(
      [](s4u::NetZone* zone, const std::vector<unsigned long>&, unsigned long id) {
        auto* h = zone->create_host("h" + std::to_string(id), 1e9);
        h->seal();
        return std::make_pair(h->get_netpoint(),
                              static_cast<simgrid::kernel::routing::NetPoint*>(nullptr));
      });
  const s4u::FatTreeParams shape(3, {8, 8, 16}, {1, 8, 8}, {1, 1, 1});
  s4u::create_fatTree_zone("ft", nullptr, shape, hosts, link_rate, 0,
                           s4u::Link::SharingPolicy::SPLITDUPLEX)
      ->seal();
}

}  // namespace

int main(int argc, char** argv) {
  s4u::Engine engine(&argc, argv);
  if (argc < 5) return std::fprintf(stderr, "usage: simgrid ft|tree open|burst COUNT LOAD\n"), 2;
  const std::string network = argv[1], kind = argv[2];
  const auto count = static_cast<std::uint32_t>(std::atoi(argv[3]));
  const double load = std::atof(argv[4]);
  const bool tree = network == "tree";
  const auto flows = tree ? workload::flows<workload::Tree>(kind, count, load)
                          : workload::flows<workload::FatTree>(kind, count, load);
  tree ? build_tree() : build_fat_tree();
  std::vector<s4u::Host*> hosts;
  for (std::uint32_t i = 0; i < workload::hosts; ++i) hosts.push_back(host(i));
  std::vector<double> fct(count);
  double sum = 0, makespan = 0;
  s4u::Actor::create("driver", hosts[0], [&] {
    std::vector<s4u::CommPtr> comms(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      const double at = static_cast<double>(flows[i].arrival_ns) * 1e-9;
      if (at > s4u::Engine::get_clock()) s4u::this_actor::sleep_until(at);
      comms[i] = s4u::Comm::sendto_async(hosts[flows[i].src], hosts[flows[i].dst], flows[i].bytes);
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      comms[i]->wait();
      const double end = comms[i]->get_finish_time();
      makespan = std::max(makespan, end);
      fct[i] = end - static_cast<double>(flows[i].arrival_ns) * 1e-9;
      sum += fct[i];
      comms[i] = nullptr;
    }
  });
  const std::clock_t cpu_begin = std::clock();
  const auto begin = std::chrono::steady_clock::now();
  engine.run();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  const double cpu = static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC;
  if (const char* name = std::getenv("FCT_OUT")) {
    std::FILE* out = std::fopen(name, "w");
    for (const double x : fct) std::fprintf(out, "%.12e\n", x);
    std::fclose(out);
  }
  std::printf("simgrid %s %s load=%g N=%u wall_s=%.4f cpu_s=%.4f makespan_us=%.6f mean_us=%.6f\n",
              network.c_str(), kind.c_str(), load, count, wall.count(), cpu, makespan * 1e6,
              sum / count * 1e6);
}
