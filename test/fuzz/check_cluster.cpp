#include "check_cluster.hpp"

#include "fuzz.hpp"

#include <phantora/cluster/topology_render.hpp>

#include <nlohmann/json.hpp>

#include <cmath>

namespace phantora::fuzz {

bool may_be_large(std::string_view text, int most_digits) {
  int digits = 0;
  char before = 0;  // the number; that of a preset, as in h200, counts nothing
  for (const char c : text) {
    if (c >= '0' && c <= '9') {
      ++digits;
    } else if (c != '_') {  // TOML allows 1_000
      digits = 0;
      before = c;
    }
    if (digits > most_digits && before != 'h' && before != 'a' && before != 'b') return true;
  }
  return false;
}

void check(const Cluster& cluster) {
  expect(!cluster.gpus.empty(), "there are GPUs");
  std::size_t gpus = 0;
  for (const Host& host : cluster.hosts) {
    gpus += host.gpus.size();
    expect(!host.gpu_memory || host.gpu_memory->count() > 0, "GPUs have memory");
  }
  expect(gpus == cluster.gpus.size(), "every GPU has a host");
  const Topology& topology = cluster.topology;
  for (std::uint32_t i = 0; i < topology.link_count(); ++i) {
    const double speed = topology.bandwidth(LinkId{i}).bytes_per_second();
    expect(std::isfinite(speed) && speed > 0, "links carry something");
    expect(topology.latency(LinkId{i}) >= Duration{}, "no link goes back in time");
  }
  if (gpus > 1)
    expect(!topology.route(cluster.gpus.front(), cluster.gpus.back()).empty(), "GPUs are joined");
  for (const Failure& failure : cluster.failures) {
    expect(failure.at >= Time{} && failure.at < failure.until, "failures begin before they end");
    expect(!failure.links.empty(), "failures have links");
  }
  const auto json = nlohmann::json::parse(render_json(cluster));
  expect(json.at("links").size() == topology.link_count(), "the description has every link");
  (void)render_table(cluster);
  (void)render_dot(cluster);
  (void)render_svg(cluster);
}

}  // namespace phantora::fuzz
