#pragma once

#include <phantora/cluster/cluster.hpp>
#include <phantora/cluster/topology.hpp>
#include <phantora/ids.hpp>
#include <phantora/units.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

/// What a cluster's network can and cannot bear, by its links alone: no flow is simulated.
///
/// Bandwidths are line rates, in whole bytes per second and one direction, before the overheads of
/// protocols. Links have what failures leave of them at the instant `at`; one that is down does not
/// count. Paths are those that routes may take: they pass through no GPU, no memory, and no host
/// but those of their ends.
namespace phantora {

/// A set of links that every path from some nodes to others crosses.
struct Cut {
  Bandwidth bandwidth{};        ///< the sum of the links'
  std::vector<LinkId> links{};  ///< by id; none where no path leads across
};

/// A cut with the least bandwidth: by max-flow, what nodes can send to others at most, all at once
/// and over all paths, longer ones too. Flows that keep to shortest routes may get less. Of several
/// such cuts it is the one nearest to `from`.
///
/// @throws ArgumentError if one of the sets is empty, they share a node, or the topology lacks one.
Cut narrowest_cut(const Cluster& cluster, std::span<const NodeId> from, std::span<const NodeId> to,
                  Time at = Time{});

/// That between the GPUs of two hosts.
Cut narrowest_cut(const Cluster& cluster, const Host& from, const Host& to, Time at = Time{});

/// The narrowest cut between the GPUs of the first half of the hosts, as they are listed (rounded
/// down), and those of the other hosts; of a single host or none, between halves of the GPUs. Of
/// the two directions it is the narrower, the first if they are equal.
///
/// It is an upper bound of the bisection bandwidth proper, the least over all halvings, which is
/// NP-hard to find. In fabrics that are as regular as the generators make them, of a power of two
/// of hosts, it is that.
/// @throws ArgumentError if there are fewer than two GPUs.
Cut bisection(const Cluster& cluster, Time at = Time{});

/// The longest of the shortest paths between two GPUs: the network's diameter.
struct LongestPath {
  NodeId from{};          ///< the GPU at one end
  NodeId to{};            ///< the GPU at the other
  std::size_t links = 0;  ///< on the way, in order
  Duration latency{};  ///< the greatest of all paths of so few links between two GPUs so far apart
};

/// Between two hosts, paths are considered that leave one once and enter the other once.
/// @throws ArgumentError if there are fewer than two GPUs, RouteError naming two without a path.
LongestPath longest_path(const Cluster& cluster, Time at = Time{});

/// A node, or a cable between two, without which some GPUs have no path to some others.
struct SinglePoint {
  NodeId node{};                      ///< the one that fails
  std::optional<NodeId> other_end{};  ///< of a cable
  /// That the first GPU of the cluster does not reach without it, or the last: the fewer.
  std::size_t gpus = 0;
};

/// What every path from the first GPU of the cluster to some other passes, or from the last: nodes
/// by id, then cables by their ends. GPUs themselves are left out. Where two nodes are joined by
/// several links, none of these is a single point.
///
/// Cost is linear, but for a logarithm. What parts two GPUs of other hosts only, neither of them
/// from the first or the last, is not found; that takes a host whose NICs alone bridge two parts of
/// the fabric.
std::vector<SinglePoint> single_points(const Cluster& cluster, Time at = Time{});

}  // namespace phantora
