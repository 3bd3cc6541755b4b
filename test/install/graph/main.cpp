#include <phantora/cluster/cluster.hpp>
#include <phantora/cluster/topology_graph.hpp>

#include <cassert>

int main() {
  const phantora::Cluster cluster = phantora::parse_cluster("h200:1x2");
  const phantora::Graph& graph = cluster.topology.graph();
  assert(boost::num_vertices(graph) == cluster.topology.node_count());
  assert(boost::num_edges(graph) == cluster.topology.link_count());
}
