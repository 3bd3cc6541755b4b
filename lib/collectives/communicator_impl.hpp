#pragma once

#include "cluster/gpu_interconnect.hpp"
#include "cluster/route_graph.hpp"
#include "cluster/router.hpp"
#include "collectives/calibration.hpp"
#include "collectives/collective_router.hpp"
#include "collectives/link_loads.hpp"
#include "collectives/nccl_tuning.hpp"
#include "collectives/nccl_variables.hpp"

#include <phantora/collectives/communicator.hpp>
#include <phantora/error.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

namespace phantora {

using namespace calibration;

[[nodiscard]] inline TunedOp tuned(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::broadcast:
      return TunedOp::broadcast;
    case CollectiveOp::reduce:
      return TunedOp::reduce;
    case CollectiveOp::all_gather:
      return TunedOp::all_gather;
    case CollectiveOp::reduce_scatter:
      return TunedOp::reduce_scatter;
    default:
      return TunedOp::all_reduce;
  }
}

/// A communicator's ranks and hosts, and how its collectives lie on links. Groups of collectives
/// are planned in groups.cpp; messages, and what consists of them, in messages.cpp.
class Communicator::Impl : public std::enable_shared_from_this<Communicator::Impl> {
 public:
  Impl(const Cluster& cluster, std::vector<NodeId> gpus, const NcclVariables& variables)
      : topology_{cluster.topology},
        router_{cluster.topology.shared_graph(),
                // Between many channels' queue pairs, routing by load comes to an even spread.
                {cluster.routing.routing == Routing::ecmp ? Routing::ecmp : Routing::spray,
                 cluster.routing.seed}},
        ranks_{std::move(gpus)} {
    PHANTORA_EXPECTS(!ranks_.empty(), "at least one rank");
    place(cluster);
    read(variables);
    if (!cluster.hosts.empty()) tune(cluster);
  }

  [[nodiscard]] int size() const noexcept { return static_cast<int>(ranks_.size()); }

  [[nodiscard]] CollectivePlan plan(CollectiveOp op, Bytes total, int root) const {
    expect_valid(total, root);
    if (op == CollectiveOp::barrier) return {};
    if (is_exchange(op)) return exchange(op, total, root);
    if (size() == 1 || total == Bytes{0})
      return {.algorithm = Algorithm::ring, .latency = microseconds(ring_base_us[0])};
    return is_tuned(op) ? tuned_plan(op, total, root).plan : textbook_ring(op, total, root);
  }

  [[nodiscard]] CollectivePlan plan(std::span<const GroupedCollective> group) const;
  [[nodiscard]] CollectivePlan plan(std::span<const SendRecv> group) const;
  [[nodiscard]] CollectivePlan plan(const SendRecv& message, const RankMessages& sender,
                                    const RankMessages& receiver) const;
  [[nodiscard]] int channels(const SendRecv& message) const;

 private:
  /// The ranks of one host, and the NICs near them.
  struct Node {
    std::vector<int> ranks;
    std::vector<std::pair<NodeId, int>> nics;  ///< distinct; with the rank that drives each
    bool nvlink = false;                       ///< whether NVLink that NCCL may use joins the GPUs
    bool mesh = false;                         ///< whether NVLink joins them in pairs
  };

  void expect_valid(Bytes total, int root) const {
    PHANTORA_EXPECTS(root >= 0 && root < size(), "the root is a rank");
    PHANTORA_EXPECTS(total >= Bytes{0}, "a size is not negative");
  }

  void place(const Cluster& cluster) {
    std::unordered_map<NodeId, int> seen;
    std::unordered_map<const Host*, std::size_t> node_of_host;
    for (int r = 0; r < size(); ++r) {
      const NodeId gpu = ranks_[static_cast<std::size_t>(r)];
      PHANTORA_EXPECTS(seen.emplace(gpu, r).second, "the GPUs of the ranks are distinct");
      const Host* host = cluster.hosts.empty() ? nullptr : &cluster.host_of(gpu);
      const auto [known, added] = node_of_host.emplace(host, nodes_.size());
      if (added) nodes_.emplace_back();
      node_of_rank_.push_back(known->second);
      Node& node = nodes_[known->second];
      node.ranks.push_back(r);
      if (!host || host->nics.empty()) continue;
      const auto at = std::find(host->gpus.begin(), host->gpus.end(), gpu) - host->gpus.begin();
      const NodeId nic = host->nics[static_cast<std::size_t>(at)];
      if (std::none_of(node.nics.begin(), node.nics.end(),
                       [&](const auto& other) { return other.first == nic; }))
        node.nics.emplace_back(nic, r);
    }
  }

  void read(const NcclVariables& variables) {
    allowed_.fill({});
    if (const auto found = variables.find("NCCL_ALGO"); found != variables.end()) {
      const auto algorithms = parse_allowed(found->first, found->second, algorithm_names);
      for (std::size_t op = 0; op < algorithms.size(); ++op)
        allowed_[op].algorithm = algorithms[op];
    }
    if (const auto found = variables.find("NCCL_PROTO"); found != variables.end()) {
      const auto protocols = parse_allowed(found->first, found->second, protocol_names);
      for (std::size_t op = 0; op < protocols.size(); ++op) allowed_[op].protocol = protocols[op];
    }
    for (const char* name : {"NCCL_MAX_NCHANNELS", "NCCL_MAX_NRINGS", "NCCL_MAX_CTAS"})
      if (const auto n = parse_number(variables, name); n && *n > 0)
        max_channels_ = std::min(max_channels_, *n);
    for (const char* name : {"NCCL_MIN_NCHANNELS", "NCCL_MIN_NRINGS", "NCCL_MIN_CTAS"})
      if (const auto n = parse_number(variables, name); n && *n > 0)
        min_channels_ = std::max(min_channels_, *n);
    min_channels_ = std::min(min_channels_, max_channels_);
    nvls_on_ = parse_number(variables, "NCCL_NVLS_ENABLE").value_or(1) != 0;
    peer_to_peer_ = parse_number(variables, "NCCL_P2P_DISABLE").value_or(0) == 0;
    pxn_ = parse_number(variables, "NCCL_PXN_DISABLE").value_or(0) == 0;
  }

  void tune(const Cluster& cluster) {
    std::size_t nics = nodes_.front().nics.size();
    for (const Node& node : nodes_) nics = std::min(nics, node.nics.size());
    if (nodes_.size() > 1 && nics == 0)
      throw ConfigError{"hosts without NICs cannot form one communicator"};
    std::vector<TuningShape> shapes;  // of unlike hosts
    for (Node& node : nodes_) {
      const Host& host = cluster.host_of(gpu(node.ranks.front()));
      const GpuInterconnect model =
          host.own_gpu ? gpu_interconnect(*host.own_gpu) : gpu_interconnect(host.gpu_model);
      node.nvlink = (host.nvswitch.has_value() || host.nvlink_mesh) && peer_to_peer_;
      node.mesh = node.nvlink && host.nvlink_mesh;
      all_nvlink_ = all_nvlink_ && node.nvlink;
      const TuningShape shape{
          .ranks = size(),
          .nodes = static_cast<int>(nodes_.size()),
          .compute_capability = model.compute_capability,
          .nvlink = node.nvlink ? model.nccl_nvlink * model.nvlinks : 0,
          .nic =
              nodes_.size() > 1 ? std::min(nic_speed(node.nics.front().first), model.nccl_pcie) : 0,
          .pcie = model.nccl_pcie,
          .nics = static_cast<int>(nics),
          .nvls = node.nvlink && !node.mesh && nvls_on_ && model.compute_capability >= 90};
      if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) shapes.push_back(shape);
    }
    tuning_.emplace(shapes);
  }

  /// GB/s of the NIC's port.
  [[nodiscard]] double nic_speed(NodeId nic) const {
    double speed = 0;
    for (const RouteGraph::Arc arc : topology_.graph().routes->out(nic.value))
      if (topology_.kind(NodeId{arc.to}) == NodeKind::network_switch)
        speed += topology_.bandwidth(LinkId{arc.link}).bytes_per_second() / 1e9;
    return speed;
  }

  [[nodiscard]] NodeId gpu(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::size_t node_of(int rank) const {
    return node_of_rank_[static_cast<std::size_t>(rank)];
  }

  /// The route between two GPUs, a byte on each link per byte.
  [[nodiscard]] Route way(NodeId from, NodeId to, std::uint64_t key,
                          const Capacity& capacity) const {
    RouteRequest request{.src = from, .dst = to, .key = key, .capacity = capacity};
    if (!peer_to_peer_) {
      request.capacity = [&](LinkId link) {
        if (topology_.graph().routes->wire(link.value) == RouteGraph::Wire::nvlink) return 0.0;
        return capacity ? capacity(link) : topology_.bandwidth(link).bytes_per_second();
      };
    }
    return router_.route(request);
  }
  /// The same with the wire's overheads on each link.
  [[nodiscard]] Route route(NodeId from, NodeId to, std::uint64_t key, double nvlink_overhead,
                            const Capacity& capacity) const {
    return with_overheads(way(from, to, key, capacity), nvlink_overhead);
  }
  [[nodiscard]] Route with_overheads(Route found, double nvlink_overhead) const {
    if (!tuning_) return found;
    for (LinkUse& use : found.links) {
      switch (topology_.graph().routes->wire(use.link.value)) {
        case RouteGraph::Wire::nvlink:
          use.bytes_per_byte *= nvlink_overhead;
          break;
        case RouteGraph::Wire::fabric:
          use.bytes_per_byte *= nic_overhead;
          break;
        case RouteGraph::Wire::other:
          break;
      }
    }
    return found;
  }

  /// Bytes on each link per byte that every rank sends to the next around the ring, and the latency
  /// of the longest hop. The hop into rank `skip` is left out; -1 leaves out none.
  struct Ring {
    std::vector<LinkUse> uses;
    Duration hop{};
  };
  [[nodiscard]] const Ring& ring(int skip) const {
    const std::lock_guard lock{mutex_};
    const auto [known, added] = rings_.try_emplace(skip);
    if (added) known->second = lay_ring(skip, {});
    return known->second;
  }
  [[nodiscard]] Ring lay_ring(int skip, const Capacity& capacity) const {
    LinkLoads loads;
    Ring ring;
    const auto hop = [&](int from, int to, double part, std::uint64_t key) {
      if (from == to) return;
      const Route found = route(gpu(from), gpu(to), key, nvlink_ring, capacity);
      loads.add(found.links, part);
      ring.hop = std::max(ring.hop, found.latency);
    };
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      const Node& node = nodes_[n];
      const Node& next = nodes_[(n + 1) % nodes_.size()];
      const bool whole = nodes_.size() == 1;
      if (node.mesh) {
        // The channels' rings go round in different orders and use all links of a mesh alike.
        const auto ranks = static_cast<double>(node.ranks.size());
        const double part = whole ? 1 / (ranks - 1) : 1 / ranks;
        for (const int from : node.ranks)
          for (const int to : node.ranks)
            if (to != skip) hop(from, to, part, 0);
      }
      // Inside a host every rank passes everything to the next.
      for (std::size_t i = 0; !node.mesh && i + (whole ? 0 : 1) < node.ranks.size(); ++i) {
        const int to = node.ranks[(i + 1) % node.ranks.size()];
        if (to != skip) hop(node.ranks[i], to, 1.0, 0);
      }
      if (whole) continue;
      // Between hosts each NIC carries the channels of its rail.
      const std::size_t rails = std::min(node.nics.size(), next.nics.size());
      if (skip >= 0 && (n + 1) % nodes_.size() == node_of(skip)) continue;
      if (rails == 0) {
        hop(node.ranks.back(), next.ranks.front(), 1.0, 0);
      } else {
        for (std::size_t r = 0; r < rails; ++r)
          hop(node.nics[r].second, next.nics[r].second, 1.0 / static_cast<double>(rails), r);
      }
    }
    ring.uses = std::move(loads).uses();
    return ring;
  }

  /// Bytes on each link per byte that an all_reduce along double binary trees reduces: chains
  /// inside the hosts, each of two trees across the hosts carrying half.
  [[nodiscard]] const std::vector<LinkUse>& trees() const {
    const std::lock_guard lock{mutex_};
    if (!trees_) trees_ = lay_trees({});
    return *trees_;
  }
  [[nodiscard]] std::vector<LinkUse> lay_trees(const Capacity& capacity) const {
    LinkLoads loads;
    const auto both_ways = [&](int a, int b, double part, std::uint64_t key) {
      loads.add(route(gpu(a), gpu(b), key, nvlink_ring, capacity).links, part);
      loads.add(route(gpu(b), gpu(a), key, nvlink_ring, capacity).links, part);
    };
    for (const Node& node : nodes_) {
      const std::size_t ranks = node.ranks.size();
      for (std::size_t i = 0; i + 1 < ranks; ++i) {
        if (!node.mesh) both_ways(node.ranks[i], node.ranks[i + 1], 1.0, 0);
        // As for rings: each pair of GPUs bears an even part of ranks - 1 hops, both ways.
        for (std::size_t j = i + 1; node.mesh && j < ranks; ++j)
          both_ways(node.ranks[i], node.ranks[j], 2.0 / static_cast<double>(ranks), 0);
      }
    }
    across_hosts([&](std::size_t child, std::size_t parent) {
      const std::size_t rails = std::min(nodes_[child].nics.size(), nodes_[parent].nics.size());
      for (std::size_t r = 0; r < rails; ++r)
        both_ways(nodes_[child].nics[r].second, nodes_[parent].nics[r].second,
                  0.5 / static_cast<double>(rails), r);
    });
    return std::move(loads).uses();
  }

  /// The edges of both trees: in-order binary trees, the second shifted by one host.
  template <class Edge>
  void across_hosts(Edge edge) const {
    const std::size_t n = nodes_.size();
    for (std::size_t shift = 0; shift < 2 && n > 1; ++shift) {
      for (std::size_t at = 1; at < n; ++at) {
        // A node's level is its lowest set bit; its parent has the next higher one.
        std::size_t bit = at & (~at + 1);
        std::size_t parent = (at & ~bit) | (bit << 1);
        while (parent >= n) {
          bit <<= 1;
          parent = (parent & ~bit) | (bit << 1);
          if (bit >= n) parent = 0;
        }
        if (parent == at) parent = 0;
        edge((at + shift) % n, (parent + shift) % n);
      }
    }
  }

  [[nodiscard]] const std::vector<LinkUse>& nvls(CollectiveOp op) const {
    const std::lock_guard lock{mutex_};
    const auto [known, added] = nvls_.try_emplace(op);
    if (added) known->second = lay_nvls(op, {});
    return known->second;
  }
  /// Bytes on each link per byte of an operation that NVSwitches reduce and multicast. In a
  /// reduce_scatter each GPU gives the whole tensor and takes its part; in an all_gather the other
  /// way round; in an all_reduce both.
  [[nodiscard]] std::vector<LinkUse> lay_nvls(CollectiveOp op, const Capacity& capacity) const {
    LinkLoads loads;
    const double overhead =
        tuning_->shape().compute_capability >= 100 ? nvlink_nvls_blackwell : nvlink_nvls;
    for (const Node& node : nodes_) {
      const double part = 1.0 / static_cast<double>(node.ranks.size());
      double out = 1, in = part;
      if (op == CollectiveOp::all_gather) std::swap(out, in);
      if (op == CollectiveOp::all_reduce) out = in = 1 + part;
      for (std::size_t i = 0; i < node.ranks.size(); ++i) {
        const int to = node.ranks[(i + 1) % node.ranks.size()];
        const auto links = route(gpu(node.ranks[i]), gpu(to), 0, overhead, capacity).links;
        loads.add(std::span{links}.first(1), out);
        loads.add(std::span{links}.last(1), in);
      }
    }
    if (nodes_.size() > 1) {
      across_hosts([&](std::size_t child, std::size_t parent) {
        const std::size_t rails = std::min(nodes_[child].nics.size(), nodes_[parent].nics.size());
        for (std::size_t r = 0; r < rails; ++r) {
          const NodeId a = gpu(nodes_[child].nics[r].second),
                       b = gpu(nodes_[parent].nics[r].second);
          loads.add(route(a, b, r, nvlink_ring, capacity).links, 0.5 / static_cast<double>(rails));
          loads.add(route(b, a, r, nvlink_ring, capacity).links, 0.5 / static_cast<double>(rails));
        }
      });
    }
    return std::move(loads).uses();
  }

  /// Gives a flow its links, and the way to lay them anew.
  void lay(FlowSpec& flow, std::vector<LinkUse> links, CollectiveRouter::Lay anew) const {
    flow.links = std::move(links);
    flow.router = std::make_shared<CollectiveRouter>(shared_from_this(), std::move(anew));
  }
  void lay_around(FlowSpec& flow, int skip, double factor) const {
    lay(flow, scaled(ring(skip).uses, factor), [this, skip, factor](const Capacity& capacity) {
      return scaled(lay_ring(skip, capacity).uses, factor);
    });
  }

  [[nodiscard]] static std::vector<LinkUse> scaled(std::span<const LinkUse> uses, double factor) {
    std::vector<LinkUse> out(uses.begin(), uses.end());
    for (LinkUse& use : out) use.bytes_per_byte *= factor;
    return out;
  }

  /// The part of the bytes of an operation that a rank sends around the ring.
  [[nodiscard]] double ring_traffic(CollectiveOp op) const {
    const double n = size();
    switch (op) {
      case CollectiveOp::all_reduce:
        return 2 * (n - 1) / n;
      case CollectiveOp::all_gather:
      case CollectiveOp::reduce_scatter:
        return (n - 1) / n;
      default:
        return 1;
    }
  }

  /// The hop that no data takes: into the root of a broadcast, out of that of a reduction.
  [[nodiscard]] int open_end(CollectiveOp op, int root) const {
    if (op == CollectiveOp::broadcast) return root;
    if (op == CollectiveOp::reduce) return (root + 1) % size();
    return -1;
  }

  /// Whether the shards of all ranks begin where 16 bytes can be loaded at once.
  [[nodiscard]] bool aligned(Bytes total) const { return total.count() / size() % 16 == 0; }
  /// GB/s that channels of unaligned shards move.
  [[nodiscard]] static double unaligned_bus(CollectiveOp op, int channels) {
    return channels *
           (op == CollectiveOp::all_gather ? unaligned_gather_rate : unaligned_scatter_rate) / 1e9;
  }

  /// Whether all ranks send their own to one another, or to a root, or get theirs from one.
  [[nodiscard]] static bool is_exchange(CollectiveOp op) noexcept {
    return op == CollectiveOp::all_to_all || op == CollectiveOp::gather ||
           op == CollectiveOp::scatter;
  }
  /// Whether NCCL's tuner chooses how an operation that moves bytes runs.
  [[nodiscard]] bool is_tuned(CollectiveOp op) const noexcept {
    return tuning_ && size() > 1 && !is_exchange(op) && op != CollectiveOp::barrier;
  }

  struct TunedPlan {
    CollectivePlan plan;
    double grows_us = 0;  ///< the part of the plan's latency that grows with the bytes
  };
  [[nodiscard]] TunedPlan tuned_plan(CollectiveOp op, Bytes total, int root) const {
    const TunedOp tuned_op = tuned(op);
    const auto& allowed = allowed_[static_cast<std::size_t>(tuned_op)];
    NcclTuning::Choice choice = tuning_->choose(tuned_op, total.count(), allowed);
    if (choice.time_us < 0) {
      // As NCCL: where nothing is allowed, the ring runs anyway.
      NcclTuning::Allowed ring_only;
      ring_only.algorithm = {false, true, false, false, false, false, false};
      choice = tuning_->choose(tuned_op, total.count(), ring_only);
    }
    const auto p = static_cast<std::size_t>(choice.protocol);
    const auto& cell = tuning_->cell(tuned_op, choice.algorithm, choice.protocol);
    CollectivePlan plan{.algorithm = choice.algorithm, .protocol = choice.protocol};
    const NcclTuning::Task task{
        tuned_op, choice.algorithm, choice.protocol, total.count(),
        tuning_->most_channels(choice.algorithm, choice.protocol, total.count(), max_channels_)};
    plan.channels = deal(std::span{&task, 1}).front().count;
    FlowSpec flow{.size = total, .shares = static_cast<double>(plan.channels)};
    double latency = cell.latency_us, grows = 0, bandwidth = cell.bandwidth;
    switch (choice.algorithm) {
      case Algorithm::ring: {
        const bool one_host = nodes_.size() == 1;
        bandwidth *= one_host ? ring_efficiency[p] : ring_efficiency_between_hosts;
        const bool one_way = op == CollectiveOp::all_gather || op == CollectiveOp::reduce_scatter;
        if (one_host) {
          const double hops =
              one_way && choice.protocol == Protocol::ll ? one_way_ll_hop_scale : ring_hop_scale[p];
          double counted = latency - nccl_ring_base_us[p];
          const double doublings = op == CollectiveOp::reduce ? std::log2(size() / 2.0) : 0;
          if (choice.protocol != Protocol::simple)  // NCCL counts one hop of a rooted operation
            counted += counted * reduce_hops_per_doubling * doublings;
          latency = ring_base_us[p] + counted * hops;
          if (choice.protocol == Protocol::simple) {
            const double chunk =
                std::min(step_bytes, static_cast<double>(total.count()) / plan.channels);
            latency += reduce_chunks_per_doubling * doublings * chunk * tuning_->channels() /
                       (bandwidth * 1e3);
          }
        }
        const bool rooted = op == CollectiveOp::broadcast || op == CollectiveOp::reduce;
        const double block = static_cast<double>(total.count()) / (rooted ? 1 : size());
        if (!rooted) grows = block_us * block / (block + block_half_bytes);
        if (one_host && choice.protocol == Protocol::ll)
          latency += ll_pass_us * std::min(1.0, block / plan.channels / ll_pass_bytes);
        if (one_way && !aligned(total))
          bandwidth = std::min(bandwidth, unaligned_bus(op, plan.channels) / ring_traffic(op));
        lay_around(flow, open_end(op, root), ring_traffic(op) * protocol_overhead[p]);
        break;
      }
      case Algorithm::tree:
        lay(flow, scaled(trees(), protocol_overhead[p]), [this, p](const Capacity& capacity) {
          return scaled(lay_trees(capacity), protocol_overhead[p]);
        });
        break;
      case Algorithm::pat:
        lay_around(flow, -1, ring_traffic(op));
        break;
      default:
        // In one host the links decide, not what NCCL expects.
        bandwidth = nodes_.size() > 1 ? bandwidth * ring_efficiency_between_hosts
                                      : std::numeric_limits<double>::infinity();
        grows = nvls_fill_us * static_cast<double>(total.count()) /
                (static_cast<double>(total.count()) + nvls_fill_half_bytes);
        lay(flow, nvls(op),
            [this, op](const Capacity& capacity) { return lay_nvls(op, capacity); });
        break;
    }
    // Fewer channels than NCCL's table assumes move less.
    if (max_channels_ < tuning_->channels())
      bandwidth *= static_cast<double>(max_channels_) / tuning_->channels();
    plan.latency = microseconds(latency + grows);
    flow.rate_cap = Bandwidth{bandwidth * 1e9};
    plan.flows.push_back(std::move(flow));
    return {std::move(plan), grows};
  }

  /// The channels of the operations of a kernel.
  [[nodiscard]] std::vector<NcclTuning::Channels> deal(
      std::span<const NcclTuning::Task> tasks) const {
    std::vector<NcclTuning::Channels> dealt = tuning_->deal(tasks, max_channels_);
    const int fewest = std::min(min_channels_, tuning_->channels());
    for (NcclTuning::Channels& channels : dealt) channels.count = std::max(fewest, channels.count);
    return dealt;
  }

  /// A ring on a network of which NCCL knows nothing: steps x (latency of a hop + block / rate).
  [[nodiscard]] CollectivePlan textbook_ring(CollectiveOp op, Bytes total, int root) const {
    const Ring& found = ring(open_end(op, root));
    const int steps = NcclTuning::steps(tuned(op), size()) - (open_end(op, root) >= 0 ? 1 : 0);
    CollectivePlan plan{.channels = 1, .latency = found.hop * steps};
    lay_around(plan.flows.emplace_back(FlowSpec{.size = total}), open_end(op, root),
               ring_traffic(op));
    return plan;
  }

  /// Operations of a group for which NCCL chooses together, as one with all their bytes.
  struct Batch {
    GroupedCollective all;
    std::vector<Bytes> parts;
    CollectivePlan plan;
    Duration grows{};  ///< the part of the plan's latency that grows with the bytes
  };
  [[nodiscard]] std::vector<Batch> batches(std::span<const GroupedCollective> group) const;
  [[nodiscard]] Duration in_turn(std::span<const Batch> batches, int& channels) const;

  [[nodiscard]] CollectivePlan exchange(CollectiveOp op, Bytes total, int root) const;
  [[nodiscard]] const std::vector<LinkUse>& exchange_uses(CollectiveOp op, int root) const;
  [[nodiscard]] std::vector<LinkUse> lay_exchange(CollectiveOp op, int root,
                                                  const Capacity& capacity) const;
  [[nodiscard]] Route message_way(int from, int to, const Capacity& capacity) const;
  [[nodiscard]] Route known_message_way(int from, int to) const;
  [[nodiscard]] Route message_route(int from, int to, double overhead,
                                    const Capacity& capacity) const {
    return with_overheads(message_way(from, to, capacity), overhead);
  }
  /// What else GPUs move beside a message.
  struct Traffic {
    /// The part of the message during which its blocks move another message too, the other way.
    double paired = 0;
    /// Bytes that the message's receiver sends over bytes that it gets, at most 1.
    double returned = 0;
  };
  /// How NCCL runs the messages of one GPU, see messages().
  struct Messages {
    Protocol protocol = Protocol::simple;
    int channels = 0;  ///< of each message
    double latency_us = 0;
    Bandwidth rate{};  ///< to each peer
  };
  /// @param bytes  of each message; `turns` of them go to each of `peers` ranks, one after the
  /// other.
  [[nodiscard]] Messages messages(double bytes, int turns, int peers, Traffic traffic) const;
  [[nodiscard]] Protocol message_protocol(double bytes) const;
  [[nodiscard]] int channels_of_message(double bytes, Protocol protocol) const;
  [[nodiscard]] int message_channels() const { return !tuning_ || !all_nvlink_ ? 2 : 32; }

  Topology topology_;
  GraphRouter router_;
  std::vector<NodeId> ranks_;
  std::vector<Node> nodes_;
  std::vector<std::size_t> node_of_rank_;
  std::optional<NcclTuning> tuning_;
  std::array<NcclTuning::Allowed, NcclTuning::ops> allowed_;
  int min_channels_ = 1, max_channels_ = 64;
  bool nvls_on_ = true, peer_to_peer_ = true, pxn_ = true;
  bool all_nvlink_ = true;  ///< whether NVLink joins the GPUs of each host
  // What plans share; computed when first asked for.
  mutable std::mutex mutex_;
  mutable std::map<int, Ring> rings_;
  mutable std::optional<std::vector<LinkUse>> trees_;
  mutable std::map<CollectiveOp, std::vector<LinkUse>> nvls_;
  mutable std::map<std::pair<CollectiveOp, int>, std::vector<LinkUse>> exchanges_;
  mutable std::map<std::pair<int, int>, Route> message_ways_;  ///< some; without overheads
};

}  // namespace phantora
