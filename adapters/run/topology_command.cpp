#include "run/topology_command.hpp"

#include <phantora/cluster/cluster.hpp>
#include <phantora/cluster/topology_render.hpp>
#include <phantora/error.hpp>

#include <charconv>
#include <system_error>

namespace phantora::run {
namespace {

/// A GPU by its rank, or any node by its name.
NodeId node_of(const Cluster& cluster, const std::string& text) {
  std::size_t rank = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (problem == std::errc{} && end == text.data() + text.size() && rank < cluster.gpus.size()) {
    return cluster.gpus[rank];
  }
  if (const auto node = cluster.topology.find_node(text)) return *node;
  throw ConfigError{"--route " + text + ": expected a rank below " +
                    std::to_string(cluster.gpus.size()) + " or the name of a node"};
}

}  // namespace

void describe_topology(const TopologyOptions& options, std::ostream& out) {
  const Cluster cluster = parse_cluster(options.cluster);
  if (!options.route.empty()) {
    out << render_route(cluster, node_of(cluster, options.route.at(0)),
                        node_of(cluster, options.route.at(1)));
    return;
  }
  if (options.format == "dot") {
    out << render_dot(cluster);
  } else if (options.format == "svg") {
    out << render_svg(cluster);
  } else if (options.format == "json") {
    out << render_json(cluster);
  } else {
    out << render_table(cluster);
  }
}

}  // namespace phantora::run
