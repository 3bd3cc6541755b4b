#include "run/topology_command.hpp"

#include <phantora/cluster/cluster.hpp>
#include <phantora/cluster/topology_analysis.hpp>
#include <phantora/cluster/topology_render.hpp>
#include <phantora/error.hpp>
#include <phantora/format.hpp>
#include <phantora/quantity.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <system_error>
#include <tuple>

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

const Host& host_of(const Cluster& cluster, const std::string& name) {
  const auto host = std::find_if(cluster.hosts.begin(), cluster.hosts.end(),
                                 [&](const Host& each) { return each.name == name; });
  if (host == cluster.hosts.end())
    throw ConfigError{"--cut " + name + ": expected the name of a host, as " +
                      cluster.hosts.front().name};
  return *host;
}

Time instant_of(const std::string& text) {
  const auto at = parse_duration(text);
  if (!at) throw ConfigError{"--at " + text + ": expected a time, as 10ms"};
  return Time{*at};
}

std::string counted(std::size_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

/// A row below the table: name and value.
void row(std::ostream& out, std::string_view name, std::string_view value) {
  out << fmt::format("{:<22}{}\n", name, value);
}

/// Single points of failure of a kind, all of which part as many GPUs.
struct PointKind {
  NodeKind node{};
  std::optional<NodeKind> other_end{};
  std::size_t gpus = 0;
  auto operator<=>(const PointKind&) const = default;
};
std::map<PointKind, std::size_t> kinds_of(const Cluster& cluster,
                                          const std::vector<SinglePoint>& points) {
  std::map<PointKind, std::size_t> kinds;
  for (const SinglePoint& point : points) {
    PointKind kind{cluster.topology.kind(point.node), std::nullopt, point.gpus};
    if (point.other_end) {
      kind.other_end = cluster.topology.kind(*point.other_end);
      if (*kind.other_end < kind.node) std::swap(kind.node, *kind.other_end);
    }
    ++kinds[kind];
  }
  return kinds;
}

/// What the network bears, and whose loss it does not.
void print_analysis(const Cluster& cluster, Time at, std::ostream& out) {
  if (cluster.gpus.size() < 2) return;
  out << '\n';
  const auto cut_text = [](const Cut& cut) {
    return fmt::format("{} over {}", cut.bandwidth, counted(cut.links.size(), "link"));
  };
  const std::size_t hosts = cluster.hosts.size();
  row(out, "bisection",
      fmt::format("{}, {}", cut_text(bisection(cluster, at)),
                  hosts < 2 ? "half of the GPUs to the others"
                            : fmt::format("{} to the other {}", counted(hosts / 2, "host"),
                                          hosts - hosts / 2)));
  if (hosts >= 2) {
    const Host &first = cluster.hosts.front(), &last = cluster.hosts.back();
    row(out, "narrowest cut",
        fmt::format("{}, {} to {}", cut_text(narrowest_cut(cluster, first, last, at)), first.name,
                    last.name));
  }
  try {
    const LongestPath longest = longest_path(cluster, at);
    row(out, "longest path",
        fmt::format("{}, {:ns}, {} to {}", counted(longest.links, "link"), longest.latency,
                    cluster.topology.name(longest.from), cluster.topology.name(longest.to)));
  } catch (const RouteError& error) {
    row(out, "longest path", error.what());
  }
  std::string_view name = "single points";
  for (const auto& [kind, count] : kinds_of(cluster, single_points(cluster, at))) {
    const std::string what = kind.other_end ? fmt::format("{} - {}", kind.node, *kind.other_end)
                                            : fmt::format("{}", kind.node);
    row(out, name,
        fmt::format("{} x {}: each cuts off {}", count, what, counted(kind.gpus, "GPU")));
    name = "";
  }
  if (!name.empty()) row(out, name, "none");
}

/// The same for programs, as a member of the cluster's description.
nlohmann::json analysis_json(const Cluster& cluster, Time at) {
  using nlohmann::json;
  if (cluster.gpus.size() < 2) return nullptr;
  const auto cut_json = [](const Cut& cut) {
    json links = json::array();
    for (const LinkId link : cut.links) links.push_back(link.value);
    return json{{"bytes_per_second", cut.bandwidth.bytes_per_second()}, {"links", links}};
  };
  json out{{"at_ps", at.time_since_epoch().count()},
           {"bisection", cut_json(bisection(cluster, at))},
           {"longest_path", nullptr},
           {"single_points", json::array()}};
  try {
    const LongestPath longest = longest_path(cluster, at);
    out["longest_path"] = {{"from", longest.from.value},
                           {"to", longest.to.value},
                           {"links", longest.links},
                           {"latency_ps", longest.latency.count()}};
  } catch (const RouteError&) {
    // Stays null: some GPUs have no path.
  }
  for (const SinglePoint& point : single_points(cluster, at)) {
    json& entry =
        out["single_points"].emplace_back(json{{"node", point.node.value}, {"gpus", point.gpus}});
    if (point.other_end) entry["other_end"] = point.other_end->value;
  }
  return out;
}

}  // namespace

void describe_topology(const TopologyOptions& options, std::ostream& out) {
  const Cluster cluster = parse_cluster(options.cluster);
  const Time at = instant_of(options.at);
  if (!options.route.empty()) {
    out << render_route(cluster, node_of(cluster, options.route.at(0)),
                        node_of(cluster, options.route.at(1)));
    return;
  }
  if (!options.cut.empty()) {
    const Host &from = host_of(cluster, options.cut.at(0)),
               &to = host_of(cluster, options.cut.at(1));
    if (&from == &to) throw ConfigError{"--cut: expected two different hosts"};
    const auto bandwidths = bandwidths_at(cluster, at);
    const Cut cut = narrowest_cut(cluster, from, to, at);
    for (const LinkId link : cut.links)
      row(out, fmt::format("{}", bandwidths[link.value]), cluster.topology.name(link));
    out << fmt::format("{} to {}: {} over {}\n", from.name, to.name, cut.bandwidth,
                       counted(cut.links.size(), "link"));
    return;
  }
  if (options.format == "dot") {
    out << render_dot(cluster);
  } else if (options.format == "svg") {
    out << render_svg(cluster);
  } else if (options.format == "json") {
    auto description = nlohmann::json::parse(render_json(cluster));
    description["analysis"] = analysis_json(cluster, at);
    out << description.dump(1) << '\n';
  } else {
    out << render_table(cluster);
    print_analysis(cluster, at, out);
  }
}

}  // namespace phantora::run
