#pragma once

#include <phantora/cluster/cluster.hpp>
#include <phantora/ids.hpp>

#include <string>

/// Descriptions of a cluster, for people and for programs.
namespace phantora {

/// What there is: hosts, GPUs, nodes and links by kind, with bandwidth and latency.
std::string render_table(const Cluster& cluster);

/// Graphviz: one node per node, one edge per pair of opposite links.
std::string render_dot(const Cluster& cluster);

/// {"name", "hosts": [{name, gpu_model, gpus, nics, memory}], "nodes": [{id, name, kind}],
/// "links": [{id, name, from, to, bytes_per_second, latency_ps}]}. A host whose GPUs have another
/// memory than their model has gpu_memory_bytes, of each.
std::string render_json(const Cluster& cluster);

/// A picture: switches above, hosts in a row below. The insides of hosts are drawn while there are
/// few; of many hosts only the first and last are drawn, with a note of how many are not.
std::string render_svg(const Cluster& cluster);

/// The links of one route, hop by hop, its latency, and what a flow alone on it gets.
/// @throws RouteError if no path joins them.
std::string render_route(const Cluster& cluster, NodeId from, NodeId to);

}  // namespace phantora
