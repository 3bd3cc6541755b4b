#include "check_cluster.hpp"
#include "fuzz.hpp"

#include <phantora/error.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace phantora;
  const std::string_view text = fuzz::text_of(data, size);
  if (fuzz::may_be_large(text, 3)) return -1;
  fuzz::accepts<ConfigError>("cluster.toml", [&] {
    const Cluster cluster = parse_cluster_toml(text, "cluster.toml");
    fuzz::check(cluster);
    FlowNetwork network{cluster.topology.view(cluster.routing)};
    schedule_failures(cluster, network);
    network.advance_to(never);
  });
  return 0;
}
