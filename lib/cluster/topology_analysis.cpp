#include <phantora/cluster/topology_analysis.hpp>
#include <phantora/cluster/topology_graph.hpp>
#include <phantora/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

// As in topology_graph.hpp.
#pragma GCC diagnostic push
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <boost/graph/connected_components.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/graph/dominator_tree.hpp>

namespace phantora {
namespace {

using Vertex = std::uint32_t;

/// A link that is up.
struct Arc {
  LinkId link;
  Vertex from;
  Vertex to;
  Bandwidth bandwidth;
  Duration latency;
};

/// A cluster's network at an instant, and in which site each node is: nodes joined without passing
/// a network switch are in one, as those of a host are. Switches are in none.
struct Network {
  static constexpr std::size_t no_site = std::numeric_limits<std::size_t>::max();

  Network(const Cluster& cluster, Time at)
      : topology{cluster.topology}, nodes{topology.node_count()} {
    const std::vector<Bandwidth> bandwidths = bandwidths_at(cluster, at);
    boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS> inside{nodes};
    for (std::uint32_t l = 0; l < bandwidths.size(); ++l) {
      const LinkId link{l};
      const Vertex from = topology.source(link).value, to = topology.target(link).value;
      // Also one that is down: a host does not become two.
      if (!is_switch(from) && !is_switch(to)) boost::add_edge(from, to, inside);
      if (bandwidths[l] > Bandwidth{})
        arcs.push_back({link, from, to, bandwidths[l], topology.latency(link)});
    }
    sites.resize(nodes);
    site_count = boost::connected_components(inside, sites.data());
    switches.resize(nodes);
    for (Vertex v = 0; v < nodes; ++v) {
      if (!is_switch(v)) continue;
      sites[v] = no_site;
      switches[v] = switch_count++;
    }
  }

  [[nodiscard]] bool is_switch(Vertex v) const {
    return topology.kind(NodeId{v}) == NodeKind::network_switch;
  }
  /// Whether paths may pass through a node, rather than only end there.
  [[nodiscard]] bool forwards(Vertex v) const {
    const NodeKind kind = topology.kind(NodeId{v});
    return kind != NodeKind::gpu && kind != NodeKind::memory;
  }

  const Topology& topology;
  std::size_t nodes;
  std::vector<Arc> arcs{};
  std::vector<std::size_t> sites{};
  std::size_t site_count = 0;
  std::vector<std::size_t> switches{};  ///< of a switch, which it is among them
  std::size_t switch_count = 0;
};

// ---- Cuts --------------------------------------------------------------------------------------

struct Pipe;
using PipeTraits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
/// An edge of the flow graph, as Boost's max-flow wants it.
struct Pipe {
  std::int64_t capacity = 0;  ///< bytes per second: integers, so that full is full
  std::int64_t residual = 0;
  PipeTraits::edge_descriptor reverse{};
};
using FlowGraph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Pipe>;

void add_pipe(FlowGraph& graph, std::size_t from, std::size_t to, std::int64_t capacity) {
  const auto ahead = boost::add_edge(from, to, Pipe{.capacity = capacity}, graph).first;
  const auto back = boost::add_edge(to, from, Pipe{}, graph).first;
  graph[ahead].reverse = back;
  graph[back].reverse = ahead;
}

/// One side of a cut: its nodes, and the sites that hold them.
struct Side {
  Side(const Network& network, std::span<const NodeId> members)
      : nodes(network.nodes, 0), sites(network.site_count, 0) {
    for (const NodeId node : members) {
      PHANTORA_EXPECTS(node.value < network.nodes, "the sides of a cut are nodes of the topology");
      nodes[node.value] = 1;
      if (network.sites[node.value] != Network::no_site) sites[network.sites[node.value]] = 1;
    }
  }
  std::vector<char> nodes, sites;
};

Cut narrowest_cut(const Network& network, std::span<const NodeId> from,
                  std::span<const NodeId> to) {
  PHANTORA_EXPECTS(!from.empty() && !to.empty(), "both sides of a cut have nodes");
  const Side near{network, from}, far{network, to};
  for (const NodeId node : from)
    PHANTORA_EXPECTS(!far.nodes[node.value], "the sides of a cut share no node");

  const std::size_t source = network.nodes, sink = source + 1;
  FlowGraph graph{network.nodes + 2};
  std::vector<const Arc*> crossable;
  std::int64_t all = 0;
  for (const Arc& arc : network.arcs) {
    const std::size_t here = network.sites[arc.from], there = network.sites[arc.to];
    // Out of one side, into the other, and through no node or host that only ends paths.
    if (far.nodes[arc.from] || near.nodes[arc.to]) continue;
    if (!near.nodes[arc.from] && !network.forwards(arc.from)) continue;
    if (!far.nodes[arc.to] && !network.forwards(arc.to)) continue;
    if (here != Network::no_site && !near.sites[here] && !(here == there && far.sites[here]))
      continue;
    if (there != Network::no_site && !far.sites[there] && !(here == there && near.sites[there]))
      continue;
    const std::int64_t capacity = std::llround(arc.bandwidth.bytes_per_second());
    add_pipe(graph, arc.from, arc.to, capacity);
    crossable.push_back(&arc);
    all += capacity;
  }
  // As wide as all links together, these are never what binds.
  for (Vertex v = 0; v < network.nodes; ++v) {
    if (near.nodes[v]) add_pipe(graph, source, v, all);
    if (far.nodes[v]) add_pipe(graph, v, sink, all);
  }

  std::vector<boost::default_color_type> colors(network.nodes + 2);
  const std::int64_t flow = boost::boykov_kolmogorov_max_flow(
      graph, boost::get(&Pipe::capacity, graph), boost::get(&Pipe::residual, graph),
      boost::get(&Pipe::reverse, graph), colors.data(), boost::get(boost::vertex_index, graph),
      source, sink);
  Cut cut{.bandwidth = Bandwidth{static_cast<double>(flow)}};
  // Black is what the source still reaches over links that are not full.
  const auto reached = [&](Vertex v) { return colors[v] == boost::black_color; };
  for (const Arc* arc : crossable)
    if (reached(arc->from) && !reached(arc->to)) cut.links.push_back(arc->link);
  return cut;
}

// ---- Distances ---------------------------------------------------------------------------------

/// How far it is over the fewest links, and at most over so few.
struct Distance {
  std::uint32_t links = std::numeric_limits<std::uint32_t>::max();
  Duration latency{};
  [[nodiscard]] bool known() const noexcept { return links != Distance{}.links; }
  friend Distance operator+(Distance a, Distance b) noexcept {
    return {a.links + b.links, a.latency + b.latency};
  }
  auto operator<=>(const Distance&) const = default;
};

/// Which of two paths between the same nodes counts.
bool prevails(Distance a, Distance b) noexcept {
  return a.links != b.links ? a.links < b.links : a.latency > b.latency;
}

using HopGraph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Distance>;
/// Nodes at known distances.
using Reached = std::vector<std::pair<std::size_t, Distance>>;

Distance one(const Arc& arc) { return {1, arc.latency}; }

/// Distances over a graph from where some nodes have been reached already.
std::vector<Distance> spread(const HopGraph& graph, const Reached& reached) {
  std::vector<Distance> distances(boost::num_vertices(graph));
  std::vector<std::size_t> starts;
  for (const auto& [v, distance] : reached) {
    if (!distances[v].known()) starts.push_back(v);
    if (prevails(distance, distances[v])) distances[v] = distance;
  }
  std::vector<std::size_t> before(distances.size());
  const auto index = boost::get(boost::vertex_index, graph);
  boost::dijkstra_shortest_paths_no_init(graph, starts.begin(), starts.end(), before.data(),
                                         distances.data(), boost::get(boost::edge_bundle, graph),
                                         index, prevails, std::plus<Distance>{}, Distance{0, {}},
                                         boost::default_dijkstra_visitor{});
  return distances;
}

/// How the GPUs of a site reach one another, and the switches around it.
struct GpuPaths {
  Vertex gpu = 0;
  Reached out{};    ///< from the GPU to switches, by their number
  Reached in{};     ///< from switches to the GPU
  Reached peers{};  ///< from the GPU to others of its site, without leaving it
};

std::vector<GpuPaths> paths_inside(const Network& network, const std::vector<const Arc*>& arcs,
                                   const std::vector<Vertex>& gpus) {
  std::vector<Vertex> locals;
  for (const Arc* arc : arcs) locals.insert(locals.end(), {arc->from, arc->to});
  locals.insert(locals.end(), gpus.begin(), gpus.end());
  std::sort(locals.begin(), locals.end());
  locals.erase(std::unique(locals.begin(), locals.end()), locals.end());
  const auto local = [&](Vertex v) {
    return static_cast<std::size_t>(std::lower_bound(locals.begin(), locals.end(), v) -
                                    locals.begin());
  };
  // Only nodes of the site that forward lead on, so that all others end paths.
  const auto leads = [&](Vertex v) { return !network.is_switch(v) && network.forwards(v); };
  HopGraph ahead{locals.size()}, back{locals.size()};
  for (const Arc* arc : arcs) {
    if (leads(arc->from)) boost::add_edge(local(arc->from), local(arc->to), one(*arc), ahead);
    if (leads(arc->to)) boost::add_edge(local(arc->to), local(arc->from), one(*arc), back);
  }
  std::vector<GpuPaths> all;
  for (const Vertex gpu : gpus) {
    GpuPaths& paths = all.emplace_back(GpuPaths{.gpu = gpu});
    Reached next, previous;
    for (const Arc* arc : arcs) {
      if (arc->from == gpu) next.emplace_back(local(arc->to), one(*arc));
      if (arc->to == gpu) previous.emplace_back(local(arc->from), one(*arc));
    }
    const std::vector<Distance> out = spread(ahead, next), in = spread(back, previous);
    for (std::size_t i = 0; i < locals.size(); ++i) {
      const Vertex v = locals[i];
      if (network.is_switch(v)) {
        if (out[i].known()) paths.out.emplace_back(network.switches[v], out[i]);
        if (in[i].known()) paths.in.emplace_back(network.switches[v], in[i]);
      } else if (v != gpu && network.topology.kind(NodeId{v}) == NodeKind::gpu && out[i].known()) {
        paths.peers.emplace_back(v, out[i]);
      }
    }
  }
  return all;
}

// ---- Single points -----------------------------------------------------------------------------

using PathGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS>;

/// How many GPUs lie behind each node, and behind each link as vertex nodes + id: those to which
/// every path from `root` passes it.
std::vector<std::size_t> gpus_behind(const Network& network, NodeId root) {
  const std::size_t links = network.topology.link_count();
  PathGraph graph{network.nodes + links};
  const std::size_t home = network.sites[root.value];
  for (const Arc& arc : network.arcs) {
    const std::size_t here = network.sites[arc.from], there = network.sites[arc.to];
    if (arc.to == root.value) continue;
    if (arc.from != root.value && !network.forwards(arc.from)) continue;
    // Who has entered a host stays there.
    if (here != Network::no_site && here != home && here != there) continue;
    const std::size_t link = network.nodes + arc.link.value;
    boost::add_edge(arc.from, link, graph);
    boost::add_edge(link, arc.to, graph);
  }
  const std::size_t size = boost::num_vertices(graph);
  const std::size_t none = PathGraph::null_vertex();
  std::vector<std::size_t> order(size, none), parent(size, none), visited(size, none),
      dominator(size, none);
  const auto index = boost::get(boost::vertex_index, graph);
  const auto map = [&](std::vector<std::size_t>& values) {
    return boost::make_iterator_property_map(values.begin(), index);
  };
  boost::lengauer_tarjan_dominator_tree(graph, root.value, index, map(order), map(parent), visited,
                                        map(dominator));
  std::vector<std::size_t> behind(size, 0);
  for (std::size_t i = size; i-- > 0;) {
    const std::size_t v = visited[i];
    if (v == none || v == root.value) continue;
    const bool gpu =
        v < network.nodes && network.topology.kind(NodeId{static_cast<Vertex>(v)}) == NodeKind::gpu;
    if (dominator[v] != none) behind[dominator[v]] += behind[v] + (gpu ? 1 : 0);
  }
  return behind;
}

}  // namespace

Cut narrowest_cut(const Cluster& cluster, std::span<const NodeId> from, std::span<const NodeId> to,
                  Time at) {
  return narrowest_cut(Network{cluster, at}, from, to);
}

Cut narrowest_cut(const Cluster& cluster, const Host& from, const Host& to, Time at) {
  return narrowest_cut(cluster, from.gpus, to.gpus, at);
}

Cut bisection(const Cluster& cluster, Time at) {
  PHANTORA_EXPECTS(cluster.gpus.size() >= 2, "a bisection takes at least two GPUs");
  std::vector<NodeId> gpus = cluster.gpus;
  std::size_t half = gpus.size() / 2;
  if (cluster.hosts.size() >= 2) {
    gpus.clear();
    for (std::size_t h = 0; h < cluster.hosts.size(); ++h) {
      if (h == cluster.hosts.size() / 2) half = gpus.size();
      gpus.insert(gpus.end(), cluster.hosts[h].gpus.begin(), cluster.hosts[h].gpus.end());
    }
  }
  const std::span<const NodeId> all{gpus}, first = all.first(half), second = all.subspan(half);
  const Network network{cluster, at};
  Cut there = narrowest_cut(network, first, second), back = narrowest_cut(network, second, first);
  return back.bandwidth < there.bandwidth ? back : there;
}

LongestPath longest_path(const Cluster& cluster, Time at) {
  PHANTORA_EXPECTS(cluster.gpus.size() >= 2, "a path takes at least two GPUs");
  const Network network{cluster, at};
  const Topology& topology = cluster.topology;

  // Inside each site, then between switches, then both together: cost is that of the fabric times
  // the classes of GPUs, not times the GPUs.
  std::vector<std::vector<const Arc*>> site_arcs(network.site_count);
  std::vector<std::vector<Vertex>> site_gpus(network.site_count);
  HopGraph fabric{network.switch_count};
  for (const Arc& arc : network.arcs) {
    const std::size_t here = network.sites[arc.from], there = network.sites[arc.to];
    if (here != Network::no_site) site_arcs[here].push_back(&arc);
    if (there != Network::no_site && there != here) site_arcs[there].push_back(&arc);
    if (here == Network::no_site && there == Network::no_site)
      boost::add_edge(network.switches[arc.from], network.switches[arc.to], one(arc), fabric);
  }
  for (const NodeId gpu : cluster.gpus) site_gpus[network.sites[gpu.value]].push_back(gpu.value);
  std::vector<std::vector<GpuPaths>> sites;
  // GPUs that are alike to the fabric: as far from the same switches.
  std::map<std::pair<Reached, Reached>, std::vector<const GpuPaths*>> classes;
  std::vector<const GpuPaths*> paths_of(network.nodes);
  for (std::size_t s = 0; s < network.site_count; ++s)
    sites.push_back(paths_inside(network, site_arcs[s], site_gpus[s]));
  for (const auto& site : sites) {
    for (const GpuPaths& paths : site) {
      paths_of[paths.gpu] = &paths;
      classes[{paths.out, paths.in}].push_back(&paths);
    }
  }

  Distance longest{0, {}};
  LongestPath found;
  const auto consider = [&](Vertex from, Vertex to, Distance distance) {
    if (!distance.known())
      throw RouteError{"no path from \"" + topology.name(NodeId{from}) + "\" to \"" +
                       topology.name(NodeId{to}) + "\""};
    if (distance <= longest) return;
    longest = distance;
    found = {NodeId{from}, NodeId{to}, distance.links, distance.latency};
  };
  for (const auto& [ways, alike] : classes) {
    const std::vector<Distance> to_switch = spread(fabric, ways.first);
    const auto over_fabric = [&](const Reached& in) {
      Distance best;
      for (const auto& [at_switch, rest] : in) {
        if (!to_switch[at_switch].known()) continue;
        const Distance sum = to_switch[at_switch] + rest;
        if (prevails(sum, best)) best = sum;
      }
      return best;
    };
    for (const auto& [other_ways, others] : classes) {
      // Two GPUs of these classes and of different sites.
      const Vertex first = alike.front()->gpu;
      const auto apart = [&](const GpuPaths* a, Vertex b) {
        return network.sites[a->gpu] != network.sites[b];
      };
      const auto other = std::find_if(others.begin(), others.end(),
                                      [&](const GpuPaths* it) { return apart(it, first); });
      if (other != others.end()) {
        consider(first, (*other)->gpu, over_fabric(other_ways.second));
        continue;
      }
      const Vertex last = others.front()->gpu;
      const auto mine = std::find_if(alike.begin(), alike.end(),
                                     [&](const GpuPaths* it) { return apart(it, last); });
      if (mine != alike.end()) consider((*mine)->gpu, last, over_fabric(other_ways.second));
    }
    for (const GpuPaths* paths : alike) {
      for (const Vertex peer : site_gpus[network.sites[paths->gpu]]) {
        if (peer == paths->gpu) continue;
        Distance best = over_fabric(paths_of[peer]->in);
        for (const auto& [reached, inside] : paths->peers)
          if (reached == peer && prevails(inside, best)) best = inside;
        consider(paths->gpu, peer, best);
      }
    }
  }
  return found;
}

std::vector<SinglePoint> single_points(const Cluster& cluster, Time at) {
  if (cluster.gpus.size() < 2) return {};
  const Network network{cluster, at};
  // By node, or by the ends of a cable: the fewer GPUs that either root sees behind it.
  std::map<NodeId, std::size_t> nodes;
  std::map<std::pair<NodeId, NodeId>, std::size_t> cables;
  for (const NodeId root : {cluster.gpus.front(), cluster.gpus.back()}) {
    const std::vector<std::size_t> behind = gpus_behind(network, root);
    for (std::size_t v = 0; v < behind.size(); ++v) {
      if (behind[v] == 0 || v == root.value) continue;
      const auto count = [&](auto& known, const auto& key) {
        const auto [entry, added] = known.emplace(key, behind[v]);
        if (!added) entry->second = std::min(entry->second, behind[v]);
      };
      if (v < network.nodes) {
        count(nodes, NodeId{static_cast<Vertex>(v)});
      } else {
        const LinkId link{static_cast<std::uint32_t>(v - network.nodes)};
        count(cables, std::minmax({cluster.topology.source(link), cluster.topology.target(link)}));
      }
    }
  }
  std::vector<SinglePoint> points;
  for (const auto& [node, gpus] : nodes) points.push_back({node, std::nullopt, gpus});
  for (const auto& [ends, gpus] : cables) points.push_back({ends.first, ends.second, gpus});
  return points;
}

}  // namespace phantora
#pragma GCC diagnostic pop
