// Graphs: their nodes and edges, copies and pictures of them.

#include "cuda/graphs/calls.hpp"

#include <fstream>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

using namespace phantora::graphs;
namespace rank = phantora::rank;

namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

void write_dot(const rank::Graph& graph, std::ostream& out) {
  const auto name = [](const rank::Node& node) { return "node_" + std::to_string(node.id); };
  out << "subgraph cluster_" << graph.id() << " {\nlabel=\"graph_" << graph.id() << "\"\n";
  for (const auto& node : graph.nodes()) {
    out << name(*node) << " [shape=box, label=" << quoted(node->work->label()) << "]\n";
    if (const rank::Graph* const child = node->work->child()) write_dot(*child, out);
  }
  for (const auto& node : graph.nodes()) {
    for (const rank::Edge& edge : node->dependencies)
      out << name(*edge.node) << " -> " << name(*node) << "\n";
  }
  out << "}\n";
}

}  // namespace

PHANTORA_EXPORT Status PHANTORA_API(GraphCreate)(GraphHandle* graph, unsigned flags) {
  return call([&] {
    expect(graph != nullptr && flags == 0);
    *graph = handle_of(new rank::Graph);
  });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphDestroy)(GraphHandle graph) {
  return call([&] { delete &graph_of(graph); });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphClone)(GraphHandle* clone, GraphHandle original) {
  return call([&] {
    expect(clone != nullptr);
    *clone = handle_of(new rank::Graph(graph_of(original)));
  });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphNodeFindInClone)(NodeHandle* node, NodeHandle original,
                                                          GraphHandle clone) {
  return call([&] {
    expect(node != nullptr);
    *node = handle_of(graph_of(clone).clone_of(node_of(original)));
    expect(*node != nullptr);
  });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphGetNodes)(GraphHandle graph, NodeHandle* nodes,
                                                   std::size_t* count) {
  return call([&] {
    const auto& all = graph_of(graph).nodes();
    give(all.size(), count, nodes != nullptr,
         [&](std::size_t i) { nodes[i] = handle_of(all[i].get()); });
  });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphGetRootNodes)(GraphHandle graph, NodeHandle* nodes,
                                                       std::size_t* count) {
  return call([&] {
    std::vector<const rank::Node*> roots;
    for (const auto& node : graph_of(graph).nodes()) {
      if (node->dependencies.empty()) roots.push_back(node.get());
    }
    give(roots.size(), count, nodes != nullptr,
         [&](std::size_t i) { nodes[i] = handle_of(roots[i]); });
  });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphGetEdges)(GraphHandle graph, NodeHandle* from,
                                                   NodeHandle* to, EdgeData* data,
                                                   std::size_t* count) {
  return call([&] {
    std::vector<std::pair<rank::Edge, const rank::Node*>> edges;
    for (const auto& node : graph_of(graph).nodes()) {
      for (const rank::Edge& edge : node->dependencies) edges.emplace_back(edge, node.get());
    }
    expect((from == nullptr) == (to == nullptr));
    give(edges.size(), count, from != nullptr, [&](std::size_t i) {
      from[i] = handle_of(edges[i].first.node);
      to[i] = handle_of(edges[i].second);
      if (data != nullptr) std::memcpy(&data[i], edges[i].first.data.data(), sizeof *data);
    });
  });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphGetId)(GraphHandle graph, unsigned* id) {
  return call([&] {
    expect(id != nullptr);
    *id = static_cast<unsigned>(graph_of(graph).id());
  });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphAddDependencies)(GraphHandle graph, const NodeHandle* from,
                                                          const NodeHandle* to,
                                                          const EdgeData* data, std::size_t count) {
  return call([&] {
    const auto edges = edges_of(from, data, count);
    const auto ends = edges_of(to, nullptr, count);
    for (std::size_t i = 0; i < count; ++i)
      expect(graph_of(graph).connect(*edges[i].node, *ends[i].node, edges[i].data));
  });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphRemoveDependencies)(GraphHandle graph,
                                                             const NodeHandle* from,
                                                             const NodeHandle* to, const EdgeData*,
                                                             std::size_t count) {
  return call([&] {
    (void)graph_of(graph);
    const auto edges = edges_of(from, nullptr, count), ends = edges_of(to, nullptr, count);
    for (std::size_t i = 0; i < count; ++i)
      expect(rank::Graph::disconnect(*edges[i].node, *ends[i].node));
  });
}

PHANTORA_EXPORT Status PHANTORA_API(GraphDebugDotPrint)(GraphHandle graph, const char* path,
                                                        unsigned) {
  return call([&] {
    expect(path != nullptr);
    std::ofstream file{path};
    file << "digraph dot {\n";
    write_dot(graph_of(graph), file);
    file << "}\n";
    file.close();
    if (!file) refuse(rank::Refusal::operating_system);
  });
}

PHANTORA_EXPORT Status PHANTORA_API(ThreadExchangeStreamCaptureMode)(CaptureModeNumber* mode) {
  return entry(Api::is_capturing, [&]() -> Status {
    expect(mode != nullptr && *mode >= 0 && *mode <= 2);
    *mode = static_cast<CaptureModeNumber>(
        rank::exchange_capture_mode(static_cast<rank::CaptureMode>(*mode)));
    return success;
  });
}
