#include <phantora/cluster/topology_render.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace phantora {
namespace {

/// Shortest decimal of at most 4 significant digits.
std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}
std::string bandwidth_text(Bandwidth b) { return number(b.bytes_per_second() / 1e9) + " GB/s"; }
std::string latency_text(Duration d) { return number(to_seconds(d) * 1e9) + " ns"; }

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

/// Columns as wide as their widest cell, two spaces apart; the last is not padded.
std::string columns(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string out;
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c)
      out += c + 1 < row.size() ? padded(row[c], widths[c] + 2) : row[c];
    out += '\n';
  }
  return out;
}

std::vector<NodeId> nodes_of(const Topology& topology) {
  std::vector<NodeId> nodes;
  for (std::uint32_t v = 0; v < topology.node_count(); ++v) nodes.push_back(NodeId{v});
  return nodes;
}

/// Pairs of joined nodes, each once, with the sum of the bandwidths of one direction.
struct Cable {
  NodeId a, b;
  int links = 0;
  Bandwidth bandwidth{};
};
std::vector<Cable> cables_of(const Topology& topology) {
  std::map<std::pair<NodeId, NodeId>, Cable> cables;
  for (std::uint32_t l = 0; l < topology.link_count(); ++l) {
    NodeId a = topology.source(LinkId{l}), b = topology.target(LinkId{l});
    if (b < a) std::swap(a, b);
    Cable& it = cables[{a, b}];
    it.a = a;
    it.b = b;
    if (topology.source(LinkId{l}) == a) {
      ++it.links;
      it.bandwidth = Bandwidth{it.bandwidth.bytes_per_second() +
                               topology.bandwidth(LinkId{l}).bytes_per_second()};
    }
  }
  std::vector<Cable> out;
  for (const auto& [ends, cable] : cables) out.push_back(cable);
  return out;
}

/// JSON's text. A cluster may be called after its file, and those have any bytes for names: what is
/// not UTF-8 is replaced.
std::string text_of(const nlohmann::json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string xml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string_view color(NodeKind kind) {
  switch (kind) {
    case NodeKind::gpu:
      return "#76b900";
    case NodeKind::nvswitch:
      return "#2f6f4f";
    case NodeKind::nic:
      return "#d9822b";
    case NodeKind::network_switch:
      return "#2b6cb0";
    case NodeKind::memory:
      return "#8e6bbf";
    case NodeKind::pcie_switch:
    case NodeKind::host_bridge:
      return "#8a8f98";
  }
  return "#000000";
}

}  // namespace

std::string render_table(const Cluster& cluster) {
  const Topology& topology = cluster.topology;
  std::string out = cluster.name + ": " + std::to_string(cluster.gpus.size()) + " GPUs in " +
                    std::to_string(cluster.hosts.size()) + " hosts, " +
                    std::to_string(topology.node_count()) + " nodes, " +
                    std::to_string(topology.link_count()) + " directed links\n\n";
  std::vector<std::vector<std::string>> rows{{"hosts", "GPUs", "NICs", "NVSwitch"}};
  // Runs of alike hosts in one line.
  for (std::size_t h = 0; h < cluster.hosts.size();) {
    const Host& host = cluster.hosts[h];
    const auto nics = [](const Host& it) {
      return std::set(it.nics.begin(), it.nics.end()).size();
    };
    std::size_t end = h + 1;
    while (end < cluster.hosts.size() && cluster.hosts[end].gpu_model == host.gpu_model &&
           cluster.hosts[end].gpu_memory == host.gpu_memory &&
           cluster.hosts[end].gpus.size() == host.gpus.size() &&
           nics(cluster.hosts[end]) == nics(host))
      ++end;
    const std::string memory =
        host.gpu_memory ? ", " + number(static_cast<double>(host.gpu_memory->count()) / 1e9) + " GB"
                        : "";
    rows.push_back({end == h + 1 ? host.name : host.name + ".." + cluster.hosts[end - 1].name,
                    std::to_string(host.gpus.size()) + " x " + host.gpu_model + memory,
                    std::to_string(nics(host)), host.nvswitch ? "yes" : "no"});
    h = end;
  }
  if (rows.size() > 1) out += columns(rows) + "\n";

  std::map<std::tuple<NodeKind, NodeKind, double, Duration>, std::size_t> kinds;
  for (std::uint32_t l = 0; l < topology.link_count(); ++l) {
    const LinkId link{l};
    ++kinds[{topology.kind(topology.source(link)), topology.kind(topology.target(link)),
             topology.bandwidth(link).bytes_per_second(), topology.latency(link)}];
  }
  rows = {{"from", "to", "links", "each", "latency"}};
  for (const auto& [kind, count] : kinds)
    rows.push_back({std::string{to_string(std::get<0>(kind))},
                    std::string{to_string(std::get<1>(kind))}, std::to_string(count),
                    bandwidth_text(Bandwidth{std::get<2>(kind)}), latency_text(std::get<3>(kind))});
  out += columns(rows);
  if (cluster.failures.empty()) return out;
  rows = {{"fails at", "until", "left", "links"}};
  for (const Failure& failure : cluster.failures) {
    std::string links = topology.name(failure.links.front());
    if (failure.links.size() > 1)
      links += " and " + std::to_string(failure.links.size() - 1) + " more";
    rows.push_back({number(to_seconds(failure.at.time_since_epoch())) + " s",
                    failure.until == never
                        ? "the end"
                        : number(to_seconds(failure.until.time_since_epoch())) + " s",
                    number(100 * failure.speed) + " %", links});
  }
  return out + "\n" + columns(rows);
}

std::string render_dot(const Cluster& cluster) {
  const Topology& topology = cluster.topology;
  const auto quoted = [](const std::string& name) { return text_of(name, -1); };
  std::string out =
      "graph " + quoted(cluster.name) + " {\n  node [style=filled, fontcolor=white];\n";
  for (const NodeId node : nodes_of(topology))
    out += "  " + quoted(topology.name(node)) +
           " [shape=" + (topology.kind(node) == NodeKind::gpu ? "box" : "ellipse") +
           ", fillcolor=\"" + std::string{color(topology.kind(node))} + "\"];\n";
  for (const Cable& it : cables_of(topology))
    out += "  " + quoted(topology.name(it.a)) + " -- " + quoted(topology.name(it.b)) +
           " [label=\"" + (it.links > 1 ? std::to_string(it.links) + " x, " : "") +
           bandwidth_text(it.bandwidth) + "\"];\n";
  return out + "}\n";
}

std::string render_json(const Cluster& cluster) {
  using nlohmann::json;
  const Topology& topology = cluster.topology;
  const auto ids = [](const std::vector<NodeId>& nodes) {
    json out = json::array();
    for (const NodeId node : nodes) out.push_back(node.value);
    return out;
  };
  json out{{"name", cluster.name},
           {"hosts", json::array()},
           {"nodes", json::array()},
           {"links", json::array()}};
  for (const Host& host : cluster.hosts) {
    json& entry = out["hosts"].emplace_back(json{{"name", host.name},
                                                 {"gpu_model", host.gpu_model},
                                                 {"gpus", ids(host.gpus)},
                                                 {"nics", ids(host.nics)},
                                                 {"memory", host.memory.value}});
    if (host.gpu_memory) entry["gpu_memory_bytes"] = host.gpu_memory->count();
  }
  for (const NodeId node : nodes_of(topology))
    out["nodes"].push_back({{"id", node.value},
                            {"name", topology.name(node)},
                            {"kind", to_string(topology.kind(node))}});
  for (std::uint32_t l = 0; l < topology.link_count(); ++l) {
    const LinkId link{l};
    out["links"].push_back({{"id", l},
                            {"name", topology.name(link)},
                            {"from", topology.source(link).value},
                            {"to", topology.target(link).value},
                            {"bytes_per_second", topology.bandwidth(link).bytes_per_second()},
                            {"latency_ps", topology.latency(link).count()}});
  }
  return text_of(out, 1) + "\n";
}

std::string render_svg(const Cluster& cluster) {
  const Topology& topology = cluster.topology;
  constexpr double box_width = 54, box_height = 22, gap = 10, level_height = 74, margin = 24;
  constexpr std::size_t most_hosts = 16, most_insides = 4;

  // Hosts that are drawn: all, or the first and last few.
  std::vector<std::size_t> drawn;
  for (std::size_t h = 0; h < cluster.hosts.size(); ++h)
    if (cluster.hosts.size() <= most_hosts || h < most_hosts / 2 ||
        h + most_hosts / 2 >= cluster.hosts.size())
      drawn.push_back(h);
  const bool insides = cluster.hosts.size() <= most_insides;

  std::map<NodeId, std::pair<double, double>> at;  // centres
  std::map<NodeId, NodeId> stands_for;             // inside of a closed host -> its box
  // Level of each switch: hops from the nearest NIC or GPU.
  std::map<NodeId, int> level;
  std::vector<NodeId> frontier;
  std::map<NodeId, std::vector<NodeId>> neighbours;
  const auto cables = cables_of(topology);
  for (const Cable& it : cables) {
    neighbours[it.a].push_back(it.b);
    neighbours[it.b].push_back(it.a);
  }
  for (const NodeId node : nodes_of(topology))
    if (topology.kind(node) != NodeKind::network_switch) frontier.push_back(node);
  for (int depth = 1; !frontier.empty(); ++depth) {
    std::vector<NodeId> next;
    for (const NodeId node : frontier)
      for (const NodeId other : neighbours[node])
        if (topology.kind(other) == NodeKind::network_switch && level.emplace(other, depth).second)
          next.push_back(other);
    frontier = std::move(next);
  }
  int levels = 0;
  std::map<int, std::vector<NodeId>> rows;
  for (const auto& [node, depth] : level) {
    rows[depth].push_back(node);
    levels = std::max(levels, depth);
  }
  const double host_top = margin + levels * level_height + 20;

  double x = margin;
  std::string boxes;
  const auto text = [&](double cx, double cy, std::string_view what, const char* fill) {
    return "<text x=\"" + number(cx) + "\" y=\"" + number(cy) + "\" fill=\"" + fill +
           "\" text-anchor=\"middle\" font-size=\"9\">" + xml(what) + "</text>\n";
  };
  const auto frame = [&](double left, double width, double height, std::string_view title) {
    boxes += "<rect x=\"" + number(left) + "\" y=\"" + number(host_top) + "\" width=\"" +
             number(width) + "\" height=\"" + number(height) +
             "\" rx=\"6\" fill=\"#f4f6f8\" stroke=\"#9aa3ad\"/>\n" +
             text(left + width / 2, host_top + height + 12, title, "#333333");
  };
  double bottom = host_top;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const Host& host = cluster.hosts[drawn[i]];
    if (i > 0 && drawn[i] != drawn[i - 1] + 1) {
      boxes += text(x + 30, host_top + 20,
                    "... " + std::to_string(drawn[i] - drawn[i - 1] - 1) + " more", "#333333");
      x += 70;
    }
    if (!insides) {
      frame(x, box_width + 8, box_height + 8,
            host.name + ": " + std::to_string(host.gpus.size()) + " x " + host.gpu_model);
      for (const NodeId nic : host.nics) {
        at[nic] = {x + box_width / 2 + 4, host_top + 4 + box_height / 2};
        stands_for[nic] = host.memory;
      }
      bottom = std::max(bottom, host_top + box_height + 30);
      x += box_width + 8 + 2 * gap;
      continue;
    }
    // Six rows: NICs; CPU and memory; PCIe ports; PCIe switches; NVSwitch; GPUs.
    const double width =
        static_cast<double>(std::max<std::size_t>(host.gpus.size(), 3)) * (box_width + gap) + gap;
    frame(x, width, 6 * (box_height + 18) + 4,
          host.name + ": " + std::to_string(host.gpus.size()) + " x " + host.gpu_model);
    const auto row_y = [&](int r) {
      return host_top + 14 + box_height / 2 + r * (box_height + 18);
    };
    const auto spread = [&](const std::vector<NodeId>& nodes, int r) {
      for (std::size_t k = 0; k < nodes.size(); ++k)
        at[nodes[k]] = {
            x + width * (static_cast<double>(k) + 0.5) / static_cast<double>(nodes.size()),
            row_y(r)};
    };
    std::vector<NodeId> nics, middle, ports, slots, nvswitches;
    for (const NodeId node : nodes_of(topology)) {
      const std::string& name = topology.name(node);
      if (!name.starts_with(host.name + "/")) continue;
      switch (topology.kind(node)) {
        case NodeKind::nic:
          nics.push_back(node);
          break;
        case NodeKind::memory:
          middle.push_back(node);
          break;
        case NodeKind::host_bridge:
          (name == host.name + "/cpu" ? middle : ports).push_back(node);
          break;
        case NodeKind::pcie_switch:
          slots.push_back(node);
          break;
        case NodeKind::nvswitch:
          nvswitches.push_back(node);
          break;
        default:
          break;
      }
    }
    spread(nics, 0);
    spread(middle, 1);
    spread(ports, 2);
    spread(slots, 3);
    spread(nvswitches, 4);
    spread(host.gpus, 5);
    bottom = std::max(bottom, host_top + 6 * (box_height + 18) + 24);
    x += width + 2 * gap;
  }
  if (cluster.hosts.empty()) {
    for (const NodeId gpu : cluster.gpus) {
      at[gpu] = {x + box_width / 2, host_top + box_height / 2};
      x += box_width + gap;
    }
    bottom = host_top + box_height + 10;
  }
  double width = std::max(x + margin, 260.0);
  for (const auto& [depth, nodes] : rows)
    width = std::max(width, static_cast<double>(nodes.size()) * (box_width + gap) + 2 * margin);
  for (const auto& [depth, nodes] : rows)
    for (std::size_t k = 0; k < nodes.size(); ++k)
      at[nodes[k]] = {margin + (width - 2 * margin) * (static_cast<double>(k) + 0.5) /
                                   static_cast<double>(nodes.size()),
                      margin + 20 + (levels - depth) * level_height};

  std::string lines;
  for (const Cable& it : cables) {
    const auto a = at.find(it.a), b = at.find(it.b);
    if (a == at.end() || b == at.end() || a->second == b->second) continue;
    lines += "<line x1=\"" + number(a->second.first) + "\" y1=\"" + number(a->second.second) +
             "\" x2=\"" + number(b->second.first) + "\" y2=\"" + number(b->second.second) +
             "\" stroke=\"#b3bac2\" stroke-width=\"" +
             number(std::clamp(it.bandwidth.bytes_per_second() / 1e11, 0.6, 4.0)) + "\"><title>" +
             xml(topology.name(it.a) + " - " + topology.name(it.b) + ": " +
                 bandwidth_text(it.bandwidth)) +
             "</title></line>\n";
  }
  std::string nodes;
  for (const auto& [node, centre] : at) {
    if (stands_for.contains(node)) continue;
    const std::string& name = topology.name(node);
    nodes += "<rect x=\"" + number(centre.first - box_width / 2) + "\" y=\"" +
             number(centre.second - box_height / 2) + "\" width=\"" + number(box_width) +
             "\" height=\"" + number(box_height) + "\" rx=\"3\" fill=\"" +
             std::string{color(topology.kind(node))} + "\"><title>" + xml(name) +
             "</title></rect>\n" +
             text(centre.first, centre.second + 3, name.substr(name.find('/') + 1), "#ffffff");
  }
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(width) + "\" height=\"" +
         number(bottom + margin) +
         "\" font-family=\"sans-serif\">\n<rect width=\"100%\" height=\"100%\" "
         "fill=\"#ffffff\"/>\n" +
         text(width / 2, 14, cluster.name + ": " + std::to_string(cluster.gpus.size()) + " GPUs",
              "#111111") +
         boxes + lines + nodes + "</svg>\n";
}

std::string render_route(const Cluster& cluster, NodeId from, NodeId to) {
  const Topology& topology = cluster.topology;
  std::vector<std::vector<std::string>> rows{{"link", "bandwidth", "latency"}};
  Bandwidth least{};
  Duration latency{};
  for (const LinkId link : topology.route(from, to, 0, cluster.routing.seed)) {
    rows.push_back({topology.name(link), bandwidth_text(topology.bandwidth(link)),
                    latency_text(topology.latency(link))});
    if (rows.size() == 2 || topology.bandwidth(link) < least) least = topology.bandwidth(link);
    latency += topology.latency(link);
  }
  return columns(rows) + "\n" + topology.name(from) + " to " + topology.name(to) + ": " +
         std::to_string(rows.size() - 1) + " links, " + bandwidth_text(least) + ", " +
         latency_text(latency) + "\n";
}

}  // namespace phantora
