#pragma once

#include <phantora/cluster/topology.hpp>

// Boost 1.74 raises these under -O2 and under sanitizers, even as a system header.
#pragma GCC diagnostic push
#ifndef __clang__  // which does not know the first
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <boost/graph/adjacency_list.hpp>
#pragma GCC diagnostic pop

#include <memory>
#include <string>
#include <vector>

namespace phantora {

/// What a vertex carries.
struct GraphNode {
  NodeKind kind = NodeKind::network_switch;  ///< what it is
  std::string name{};                        ///< unique among nodes
};

/// What an edge carries.
struct GraphLink {
  LinkId id{};      ///< its place in Graph::links
  LinkSpec spec{};  ///< what it can do
};

class RouteGraph;

/// Vertex v is NodeId{v}; edges carry their LinkId.
struct Graph
    : boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, GraphNode, GraphLink> {
  /// The edge of each LinkId.
  std::vector<edge_descriptor> links{};
  /// What the router walks; made by TopologyBuilder::build().
  std::shared_ptr<const RouteGraph> routes{};
};

}  // namespace phantora
