#include "cluster/gpu_interconnect.hpp"
#include "cluster/route_graph.hpp"
#include "cluster/router.hpp"
#include "collectives/nccl_tuning.hpp"

#include <phantora/collectives/communicator.hpp>
#include <phantora/error.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace phantora {

namespace {

// ---- Calibration ------------------------------------------------------------------------------
// NCCL's tuner is made to choose, not to predict. These constants turn its table into time. Fitted
// over all operations and sizes at once, on timings of 2, 3, 4 and 8 H200 with NCCL 2.28.9 (GPU
// side, from CUDA graphs: bench/accuracy/h200_collectives.jsonl); bench/accuracy/README.md has the
// differences that remain.

/// Achieved over nominal ring bandwidth, by protocol.
constexpr std::array<double, 3> ring_efficiency{1.26, 0.988, 1.041};
/// The same between hosts, also of NVLSTree: 330 GB/s of 360 on H100 nodes with 8 x 400 Gb/s
/// (NVIDIA/nccl#1221).
constexpr double ring_efficiency_between_hosts = 330.0 / 360.0;
/// Microseconds that a ring operation takes before data flows, by protocol: `ring_base_us`, in
/// place of NCCL's `nccl_ring_base_us`, and `ring_hop_scale` times what NCCL counts for hops.
constexpr std::array<double, 3> ring_base_us{6.4, 19.1, 11.5};
constexpr std::array<double, 3> nccl_ring_base_us{6.6, 14.0, 8.4};
constexpr std::array<double, 3> ring_hop_scale{1.52, 0.26, 1.174};
/// Further microseconds of LL once every thread of a channel has something to send: 8 bytes for
/// each of 512 threads.
constexpr double ll_pass_us = 0.7, ll_pass_bytes = 512 * 8;
/// LL hops of all_gather and reduce_scatter, whose ranks do not wait for one another at the end.
constexpr double one_way_ll_hop_scale = 2.3;
/// Each rank handles one block of the tensor without sending it on. That takes a time that is
/// linear for small blocks and approaches `block_us`, in microseconds, for large ones.
constexpr double block_us = 1014.7, block_half_bytes = 547e6;
/// A rooted reduction fills a deeper pipeline. Each doubling of ranks beyond two adds this many
/// hops with LL, and with Simple this part of a chunk (NCCL's step of 512 KiB, or less), which
/// ranks do not hide where reductions follow one another. A chunk moves at the rate of a channel.
constexpr double reduce_hops_per_doubling = 2, reduce_chunks_per_doubling = 0.39;
/// NCCL's step of Simple: a rooted operation's chunk, and a message's.
constexpr double step_bytes = 512.0 * (1 << 10);
/// Bytes per second that a channel moves of shards that are not aligned to 16 bytes, which NCCL
/// copies element by element: bytes for all_gather and messages, numbers for reduce_scatter; and of
/// all messages of a GPU.
constexpr double unaligned_gather_rate = 8.9e9, unaligned_scatter_rate = 12.0e9,
                 unaligned_message_rate = 7.6e9, unaligned_messages_rate = 165e9;
/// Part of the base latency that is paid once per kernel, in microseconds, by protocol; the rest is
/// paid again by each operation that queues on the same channel.
constexpr std::array<double, 3> kernel_us{5.9, 14, 3.5};
/// NVLS fills its pipeline for a time that approaches `nvls_fill_us`: from all_reduces of 16 and
/// 32 MiB on 8 H100, 121 and 195 us (Mooncake, pull request 3484).
constexpr double nvls_fill_us = 71, nvls_fill_half_bytes = 17.0 * (1 << 20);
/// What NCCL does with messages (src/enqueue.cc): LL up to 16 KiB for each channel that a peer may
/// have, else Simple; parts of at least an eighth of a step, and of at most 32 steps while there
/// are channels; LL has an eighth of Simple's step.
constexpr double message_ll_bytes = 16.0 * (1 << 10);
constexpr std::array<double, 3> message_step_bytes{step_bytes / 8, 0, step_bytes};
/// Microseconds that messages take before data flows, by protocol; then for each further peer of a
/// GPU; and for the last step, which the receiver copies when all of that step has come.
constexpr std::array<double, 3> message_base_us{10.7, 0, 14.7};
constexpr double message_peer_us = 0.4, message_step_us = 5.3;
/// The base where the receiver sends nothing, and so copies no last step while sending. A receiver
/// that sends less than it gets lies in between.
constexpr std::array<double, 3> one_way_base_us{9.5, 0, 11.5};
/// Part of a message's base that is paid once per kernel; the rest is paid again by each message
/// that follows another to the same peer.
constexpr double message_kernel_us = 6.5;
/// A channel moves a message at this rate, by protocol (Simple, on H200: 19 to 21 GB/s); all LL
/// messages of a GPU together move at `messages_ll_rate` at most.
constexpr std::array<double, 3> message_channel_rate{5.1e9, 0, 20.5e9};
constexpr double messages_ll_rate = 120e9;
/// The rate of a channel whose block only sends or only receives. NCCL pairs the message that a GPU
/// sends d ranks on with the one that it gets from d ranks before, and gives each message half of a
/// block's threads. This rate and the one-way base are from direct calls on 2 to 4 H200
/// (bench/accuracy/h200_small_collectives.jsonl).
constexpr std::array<double, 3> unpaired_channel_rate{8.2e9, 0, 34e9};
/// Large messages that fill a GPU's NVLinks get out of step. That costs a time that approaches
/// `message_crowd_us`, times the square of the share of the links that the channels could use.
constexpr double message_crowd_us = 55, message_crowd_half_bytes = 44e6;
/// Line rate over achieved rate of one GPU's NVLinks: for rings, for a lone message, for many.
constexpr double nvlink_ring = 450 / 374.8, nvlink_message = 450.0 / 362,
                 nvlink_messages = 450.0 / 340;
/// The same where NVSwitches reduce. A GPU gives and takes 1 + 1/n of the tensor, so that 308.6
/// GB/s are bus bandwidths of 411, 441, 463 and 480 GB/s on 5 to 8 H100; nccl-tests#212 has 420,
/// 440, 460 and 480. Blackwell by NCCL's own efficiencies of NVLS, .74 and .85.
constexpr double nvlink_nvls = 450 / 308.6, nvlink_nvls_blackwell = nvlink_nvls * 0.85 / 0.74;
/// Line rate over achieved rate of a NIC: 48.5 of 50 GB/s (CX7, as SimAI and nccl-tests#290 find).
constexpr double nic_overhead = 50 / 48.5;
/// Bytes on the wire per byte of data, by protocol: flags.
constexpr std::array<double, 3> protocol_overhead{2.0, 128.0 / 120.0, 1.0};

Duration microseconds(double us) { return duration_from_seconds(us * 1e-6); }

// ---- NCCL's variables --------------------------------------------------------------------------

std::string lower(std::string_view text) {
  std::string out{text};
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::vector<std::string> split(std::string_view text, char by) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(by, at), text.size());
    if (end > at) parts.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

constexpr std::array<std::string_view, 7> algorithm_names{
    "tree", "ring", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat"};
constexpr std::array<std::string_view, 3> protocol_names{"ll", "ll128", "simple"};
constexpr std::array<std::string_view, 5> op_names{"broadcast", "reduce", "allgather",
                                                   "reducescatter", "allreduce"};

/// Reads "Ring,Tree", "^LL128" or, by operation, "allreduce:tree;broadcast:ring".
template <std::size_t N>
std::array<std::array<bool, N>, NcclTuning::ops> parse_allowed(
    const std::string& variable, const std::string& value,
    const std::array<std::string_view, N>& names) {
  std::array<std::array<bool, N>, NcclTuning::ops> allowed;
  for (auto& of_op : allowed) of_op.fill(true);
  const auto fail = [&](const std::string& word) -> ConfigError {
    std::string known;
    for (const std::string_view name : names)
      known += (known.empty() ? "" : ", ") + std::string{name};
    return ConfigError{variable + "=" + value + ": \"" + word + "\" is none of " + known};
  };
  for (const std::string& part : split(value, ';')) {
    std::string list = lower(part);
    std::optional<std::size_t> only;
    if (const std::size_t colon = list.find(':'); colon != list.npos) {
      const auto op = std::find(op_names.begin(), op_names.end(), list.substr(0, colon));
      if (op == op_names.end())
        throw ConfigError{variable + "=" + value + ": \"" + list.substr(0, colon) +
                          "\" is none of broadcast, reduce, allgather, reducescatter, allreduce"};
      only = static_cast<std::size_t>(op - op_names.begin());
      list = list.substr(colon + 1);
    }
    const bool exclude = list.starts_with('^');
    std::array<bool, N> chosen;
    chosen.fill(exclude);
    for (const std::string& word : split(exclude ? list.substr(1) : list, ',')) {
      const auto name = std::find(names.begin(), names.end(), word);
      if (name == names.end()) throw fail(word);
      chosen[static_cast<std::size_t>(name - names.begin())] = !exclude;
    }
    for (std::size_t op = 0; op < allowed.size(); ++op)
      if (!only || op == *only) allowed[op] = chosen;
  }
  return allowed;
}

std::optional<int> parse_number(const NcclVariables& variables, std::string_view name) {
  const auto variable = variables.find(name);
  if (variable == variables.end() || variable->second.empty()) return std::nullopt;
  const std::string& text = variable->second;
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end)
    throw ConfigError{variable->first + "=" + text + ": expected a whole number"};
  return value;
}

TunedOp tuned(CollectiveOp op) {
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

/// Sums what a collective puts on each link.
class LinkLoads {
 public:
  void add(std::span<const LinkUse> route, double bytes) {
    for (const LinkUse& use : route) loads_.push_back({use.link, use.bytes_per_byte * bytes});
    if (loads_.size() >= 2 * merged_ + 1024) merge();
  }
  [[nodiscard]] std::vector<LinkUse> uses() && {
    merge();
    return std::move(loads_);
  }

 private:
  /// Sorts by link and sums, in the order in which they were added.
  void merge() {
    std::stable_sort(loads_.begin(), loads_.end(),
                     [](const LinkUse& a, const LinkUse& b) { return a.link < b.link; });
    std::size_t kept = 0;
    for (const LinkUse& use : loads_) {
      if (kept > 0 && loads_[kept - 1].link == use.link) {
        loads_[kept - 1].bytes_per_byte += use.bytes_per_byte;
      } else {
        loads_[kept++] = use;
      }
    }
    loads_.resize(kept);
    merged_ = kept;
  }

  std::vector<LinkUse> loads_;
  std::size_t merged_ = 0;
};

}  // namespace

/// What links can carry now (0: down), as in RouteRequest; empty where all are up.
using Capacity = std::function<double(LinkId)>;

/// Lays a collective's flow anew where links are down.
class CollectiveRouter final : public Router {
 public:
  using Lay = std::function<std::vector<LinkUse>(const Capacity&)>;
  CollectiveRouter(std::shared_ptr<const void> communicator, Lay lay)
      : communicator_{std::move(communicator)}, lay_{std::move(lay)} {}
  [[nodiscard]] Route route(const RouteRequest& request) const override {
    return {.links = lay_(request.capacity)};
  }

 private:
  std::shared_ptr<const void> communicator_;  ///< what lay_ refers to
  Lay lay_;
};

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
      const GpuInterconnect& model = gpu_interconnect(host.gpu_model);
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

  /// The route between two GPUs with the wire's overheads on each link.
  [[nodiscard]] Route route(NodeId from, NodeId to, std::uint64_t key, double nvlink_overhead,
                            const Capacity& capacity) const {
    RouteRequest request{.src = from, .dst = to, .key = key, .capacity = capacity};
    if (!peer_to_peer_) {
      request.capacity = [&](LinkId link) {
        if (topology_.graph().routes->wire(link.value) == RouteGraph::Wire::nvlink) return 0.0;
        return capacity ? capacity(link) : topology_.bandwidth(link).bytes_per_second();
      };
    }
    Route found = router_.route(request);
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
    return tuning_ && size() > 1 && !is_exchange(op);
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
        lay(flow, lay_nvls(op, {}),
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
  [[nodiscard]] Route message_route(int from, int to, double overhead,
                                    const Capacity& capacity) const;
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
  mutable std::map<std::pair<CollectiveOp, int>, std::vector<LinkUse>> exchanges_;
};

std::vector<Communicator::Impl::Batch> Communicator::Impl::batches(
    std::span<const GroupedCollective> group) const {
  std::vector<GroupedCollective> sorted;
  std::copy_if(group.begin(), group.end(), std::back_inserter(sorted),
               [](const GroupedCollective& call) { return call.total > Bytes{0}; });
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return std::tie(a.op, a.root, a.total) < std::tie(b.op, b.root, b.total);
  });
  std::vector<Batch> batches;
  for (const GroupedCollective& call : sorted) {
    // As NCCL: of one kind, and less than four times the smallest.
    const bool joins = !batches.empty() && batches.back().all.op == call.op &&
                       batches.back().all.root == call.root &&
                       call.total < 4 * batches.back().parts.front();
    if (!joins) {
      batches.push_back({.all = call, .parts = {call.total}, .plan = {}, .grows = {}});
    } else {
      batches.back().all.total += call.total;
      batches.back().parts.push_back(call.total);
    }
  }
  for (Batch& batch : batches) {
    if (is_tuned(batch.all.op)) {
      TunedPlan tuned = tuned_plan(batch.all.op, batch.all.total, batch.all.root);
      batch.plan = std::move(tuned.plan);
      batch.grows = microseconds(tuned.grows_us);
    } else {
      batch.plan = plan(batch.all.op, batch.all.total, batch.all.root);
    }
  }
  return batches;
}

/// By how much the operations of a kernel take longer because they follow one another on a channel:
/// that of the channel where this is most.
/// @param channels  becomes the number of channels of all operations together, if that is greater.
Duration Communicator::Impl::in_turn(std::span<const Batch> batches, int& channels) const {
  std::vector<NcclTuning::Task> tasks;
  std::vector<double> alone_us;
  for (const Batch& batch : batches) {
    if (batch.plan.algorithm == Algorithm::point_to_point) continue;
    const int most = tuning_->most_channels(batch.plan.algorithm, batch.plan.protocol,
                                            batch.all.total.count(), max_channels_);
    for (const Bytes part : batch.parts) {
      tasks.push_back(
          {tuned(batch.all.op), batch.plan.algorithm, batch.plan.protocol, part.count(), most});
      alone_us.push_back(
          std::max(0.0, to_seconds(batch.plan.latency - batch.grows) * 1e6 -
                            kernel_us[static_cast<std::size_t>(batch.plan.protocol)]));
    }
  }
  const std::vector<NcclTuning::Channels> dealt = deal(tasks);
  struct Turns {
    double sum = 0, most = 0;
  };
  std::map<int, Turns> turns_on;  // each channel
  double longest = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    for (int c = dealt[i].first; c < dealt[i].first + dealt[i].count; ++c) {
      Turns& turns = turns_on[c];
      turns.sum += alone_us[i];
      turns.most = std::max(turns.most, alone_us[i]);
      longest = std::max(longest, turns.sum - turns.most);
    }
  }
  channels = std::max(channels, static_cast<int>(turns_on.size()));
  return microseconds(longest);
}

/// A group runs in one kernel: the plans of all batches, at once over the same channels.
CollectivePlan Communicator::Impl::plan(std::span<const GroupedCollective> group) const {
  for (const GroupedCollective& call : group) expect_valid(call.total, call.root);
  std::vector<Batch> batches = this->batches(group);
  if (batches.empty()) return {};
  if (batches.size() == 1 && batches.front().parts.size() == 1)
    return std::move(batches.front().plan);
  const auto largest =
      std::max_element(batches.begin(), batches.end(),
                       [](const Batch& a, const Batch& b) { return a.all.total < b.all.total; });
  CollectivePlan all{.algorithm = largest->plan.algorithm,
                     .protocol = largest->plan.protocol,
                     .channels = largest->plan.channels,
                     .latency = largest->plan.latency - largest->grows};
  Duration more{}, grow{};
  if (tuning_ && size() > 1) more = in_turn(batches, all.channels);
  double seconds = 0;  // that all batches take one after the other; without a cap the links decide
  const auto alone = [](const FlowSpec& flow) {
    return static_cast<double>(flow.size.count()) / flow.rate_cap.bytes_per_second();
  };
  for (const Batch& batch : batches) {
    all.latency = std::min(all.latency, batch.plan.latency - batch.grows);
    grow += batch.grows;
    for (const FlowSpec& flow : batch.plan.flows) seconds += alone(flow);
  }
  for (Batch& batch : batches) {
    for (FlowSpec& flow : batch.plan.flows) {
      if (batches.size() > 1 && flow.rate_cap < unlimited)
        flow.rate_cap = Bandwidth{static_cast<double>(flow.size.count()) / seconds};
      flow.latency += batch.plan.latency - batch.grows - all.latency + more;
      all.flows.push_back(std::move(flow));
    }
  }
  all.latency += grow;
  return all;
}

/// The links of one message. Between rails NCCL crosses over NVLink first (PXN), so that the
/// message stays on the rail of its destination.
Route Communicator::Impl::message_route(int from, int to, double overhead,
                                        const Capacity& capacity) const {
  const std::size_t here = node_of(from), there = node_of(to);
  const Node& source = nodes_[here];
  if (here != there && pxn_ && source.nvlink) {
    const auto& ranks = nodes_[there].ranks;
    const auto place =
        static_cast<std::size_t>(std::find(ranks.begin(), ranks.end(), to) - ranks.begin());
    if (place < source.ranks.size() && source.ranks[place] != from) {
      const int relay = source.ranks[place];
      Route route = this->route(gpu(from), gpu(relay), 0, overhead, capacity);
      const Route rest =
          this->route(gpu(relay), gpu(to), static_cast<std::uint64_t>(to), overhead, capacity);
      route.links.insert(route.links.end(), rest.links.begin(), rest.links.end());
      route.latency += rest.latency;
      return route;
    }
  }
  return route(gpu(from), gpu(to), static_cast<std::uint64_t>(to), overhead, capacity);
}

int Communicator::Impl::channels_of_message(double bytes, Protocol protocol) const {
  const int all = message_channels();
  // Each peer gets an even part of the channels, more if its parts would be too large.
  int fewest = all;
  while (fewest > 1 && fewest * size() > all) fewest /= 2;
  if (!tuning_) return fewest;
  const double step = message_step_bytes[static_cast<std::size_t>(protocol)];
  int channels =
      static_cast<int>(std::clamp(std::ceil(bytes / (step / 8)), 1.0, static_cast<double>(fewest)));
  while (channels <= all / 2 && bytes / channels > step * 32) channels *= 2;
  return channels;
}

Protocol Communicator::Impl::message_protocol(double bytes) const {
  // Over a network a peer has two channels.
  const int of_peer = nodes_.size() == 1 ? message_channels() : std::min(message_channels(), 2);
  return tuning_ && bytes <= of_peer * message_ll_bytes ? Protocol::ll : Protocol::simple;
}

Communicator::Impl::Messages Communicator::Impl::messages(double bytes, int turns, int peers,
                                                          Traffic traffic) const {
  if (!tuning_) return {.channels = channels_of_message(bytes, Protocol::simple)};
  Messages how{.protocol = message_protocol(bytes)};
  how.channels = channels_of_message(bytes, how.protocol);
  const auto p = static_cast<std::size_t>(how.protocol);
  const double step = message_step_bytes[p];
  const double sent = bytes * turns * peers;
  const double paired = traffic.paired;
  // The rate of a message that is paired for a part of its time, and alone for the rest.
  double rate = how.channels * peers /
                (paired / message_channel_rate[p] + (1 - paired) / unpaired_channel_rate[p]);
  const double base =
      one_way_base_us[p] + traffic.returned * (message_base_us[p] - one_way_base_us[p]);
  how.latency_us = base + (turns - 1) * (base - message_kernel_us) + message_peer_us * (peers - 1);
  if (how.protocol == Protocol::ll) {
    rate = std::min(rate, messages_ll_rate);
  } else {
    const double nvlink = tuning_->shape().nvlink * 1e9;
    const double share = nvlink > 0 ? paired * std::min(1.0, rate / nvlink) : 0;
    how.latency_us +=
        message_step_us * traffic.returned * std::min(1.0, bytes / how.channels / step) +
        message_crowd_us * share * share * sent / (sent + message_crowd_half_bytes);
  }
  how.rate = Bandwidth{rate / peers};
  return how;
}

int Communicator::Impl::channels(const SendRecv& message) const {
  const auto bytes = static_cast<double>(message.size.count());
  if (bytes <= 0) return 0;
  // A rank copies to itself with Simple.
  return channels_of_message(
      bytes, message.src_rank == message.dst_rank ? Protocol::simple : message_protocol(bytes));
}

CollectivePlan Communicator::Impl::plan(const SendRecv& message, const RankMessages& sender,
                                        const RankMessages& receiver) const {
  const int from = message.src_rank, to = message.dst_rank;
  PHANTORA_EXPECTS(from >= 0 && from < size() && to >= 0 && to < size(),
                   "a message joins ranks of the communicator");
  CollectivePlan plan{.algorithm = Algorithm::point_to_point, .channels = channels(message)};
  if (from == to || message.size <= Bytes{0}) {
    if (tuning_) plan.latency = microseconds(message_base_us[0]);
    return plan;
  }
  // Messages to one peer go one after the other; here they go at once, each at a part of the rate.
  PHANTORA_EXPECTS(sender.sent.contains(to) && receiver.received.contains(from),
                   "both ranks tell of a message");
  const auto [bytes, turns] = sender.sent.at(to);
  const double part = static_cast<double>(message.size.count()) / bytes;
  // A block sends `ahead` ranks on, and gets from as many ranks before.
  const int ahead = (to - from + size()) % size();
  const auto covered = [&, all = bytes](const auto& others, int peer) {
    const auto other = others.find((peer + size()) % size());
    return other == others.end() ? 0.0 : std::min(1.0, other->second.bytes / all);
  };
  const Traffic traffic{
      .paired = (covered(sender.received, from - ahead) + covered(receiver.sent, to + ahead)) / 2,
      .returned = std::min(1.0, receiver.sent_to_others / receiver.received_from_others)};
  const int peers = static_cast<int>(sender.sent.size() - sender.sent.count(from));
  const Messages how = messages(bytes / turns, turns, peers, traffic);
  const double overhead =
      nvlink_message + (peers > 1 ? traffic.paired * (nvlink_messages - nvlink_message) : 0);
  const Route route = message_route(from, to, overhead, {});
  FlowSpec flow{.size = message.size, .shares = how.channels * part};
  double wire = 1;
  if (tuning_) {
    flow.rate_cap = Bandwidth{how.rate.bytes_per_second() * part};
    plan.latency = microseconds(how.latency_us);
    wire = protocol_overhead[static_cast<std::size_t>(how.protocol)];
  } else {
    flow.latency = route.latency;
  }
  lay(flow, scaled(route.links, wire), [this, from, to, overhead, wire](const Capacity& capacity) {
    return scaled(message_route(from, to, overhead, capacity).links, wire);
  });
  plan.protocol = how.protocol;
  plan.flows.push_back(std::move(flow));
  return plan;
}

CollectivePlan Communicator::Impl::plan(std::span<const SendRecv> group) const {
  std::vector<RankMessages> ranks;
  for (int rank = 0; rank < size(); ++rank) ranks.emplace_back(rank, group);
  CollectivePlan all{.algorithm = Algorithm::point_to_point,
                     .latency = tuning_ ? microseconds(message_base_us[0]) : Duration{}};
  // By rank and round: in round d a rank sends d ranks on, and gets from d ranks before.
  std::map<std::pair<int, int>, int> channels;
  std::uint64_t key = 0;
  Duration longest{};
  for (const SendRecv& message : group) {
    CollectivePlan one = plan(message, ranks.at(static_cast<std::size_t>(message.src_rank)),
                              ranks.at(static_cast<std::size_t>(message.dst_rank)));
    const int ahead = (message.dst_rank - message.src_rank + size()) % size();
    for (const int rank : {message.src_rank, message.dst_rank}) {
      int& of_round = channels[{rank, ahead}];
      of_round = std::max(of_round, one.channels);
    }
    for (FlowSpec& flow : one.flows) {
      flow.key = key++;
      flow.latency += one.latency;  // less the latency of all, below
      all.latency = all.flows.empty() ? one.latency : std::min(all.latency, one.latency);
      all.flows.push_back(std::move(flow));
      if (one.latency < longest) continue;
      longest = one.latency;
      all.protocol = one.protocol;
    }
  }
  std::map<int, int> used;  // of each rank
  for (const auto& [round, count] : channels) {
    int& of_rank = used[round.first];
    of_rank = std::min(of_rank + count, message_channels());
    all.channels = std::max(all.channels, of_rank);
  }
  for (FlowSpec& flow : all.flows) flow.latency -= all.latency;
  return all;
}

const std::vector<LinkUse>& Communicator::Impl::exchange_uses(CollectiveOp op, int root) const {
  const std::lock_guard lock{mutex_};
  const auto [known, added] =
      exchanges_.try_emplace({op, op == CollectiveOp::all_to_all ? 0 : root});
  if (added) known->second = lay_exchange(op, root, {});
  return known->second;
}

std::vector<LinkUse> Communicator::Impl::lay_exchange(CollectiveOp op, int root,
                                                      const Capacity& capacity) const {
  LinkLoads loads;
  const double part = 1.0 / size();
  // A root sends or receives, not both.
  const double overhead = op == CollectiveOp::all_to_all ? nvlink_messages : nvlink_message;
  for (int from = 0; from < size(); ++from) {
    for (int to = 0; to < size(); ++to) {
      if (from == to || (op == CollectiveOp::gather && to != root) ||
          (op == CollectiveOp::scatter && from != root))
        continue;
      loads.add(message_route(from, to, overhead, capacity).links, part);
    }
  }
  return std::move(loads).uses();
}

/// An exchange in which all pairs move alike: one flow, as NCCL runs it in rounds.
CollectivePlan Communicator::Impl::exchange(CollectiveOp op, Bytes total, int root) const {
  CollectivePlan plan{.algorithm = Algorithm::point_to_point};
  if (size() == 1 || total == Bytes{0}) {
    if (tuning_) plan.latency = microseconds(message_base_us[0]);
    return plan;
  }
  const int peers = size() - 1;
  const Messages how =
      messages(static_cast<double>(total.count()) / size(), 1, peers,
               op == CollectiveOp::all_to_all ? Traffic{.paired = 1, .returned = 1} : Traffic{});
  // A rank copies its own part as if to a peer, with Simple.
  plan.channels = std::min(
      message_channels(),
      how.channels * peers +
          channels_of_message(static_cast<double>(total.count()) / size(), Protocol::simple));
  plan.protocol = how.protocol;
  FlowSpec flow{.size = total, .shares = static_cast<double>(plan.channels)};
  double wire = 1;
  if (tuning_) {
    plan.latency = microseconds(how.latency_us);
    wire = protocol_overhead[static_cast<std::size_t>(how.protocol)];
    double rate = how.rate.bytes_per_second() * peers;
    if (!aligned(total) && how.protocol == Protocol::simple)
      rate =
          std::min({rate, how.channels * peers * unaligned_message_rate, unaligned_messages_rate});
    flow.rate_cap = Bandwidth{rate * size() / peers};
  }
  lay(flow, scaled(exchange_uses(op, root), wire),
      [this, op, root, wire](const Capacity& capacity) {
        return scaled(lay_exchange(op, root, capacity), wire);
      });
  plan.flows.push_back(std::move(flow));
  return plan;
}

Communicator::Communicator(const Cluster& cluster, std::vector<NodeId> ranks,
                           const NcclVariables& variables)
    : impl_{std::make_shared<const Impl>(cluster, std::move(ranks), variables)} {}

int Communicator::size() const noexcept { return impl_->size(); }

CollectivePlan Communicator::plan(CollectiveOp op, Bytes total, int root) const {
  return impl_->plan(op, total, root);
}

CollectivePlan Communicator::plan(std::span<const GroupedCollective> group) const {
  return impl_->plan(group);
}

CollectivePlan Communicator::plan(std::span<const SendRecv> group) const {
  return impl_->plan(group);
}

CollectivePlan Communicator::plan(const SendRecv& message, const RankMessages& sender,
                                  const RankMessages& receiver) const {
  return impl_->plan(message, sender, receiver);
}

int Communicator::channels(const SendRecv& message) const { return impl_->channels(message); }

RankMessages::RankMessages(int rank, std::span<const SendRecv> group) {
  for (const SendRecv& message : group) {
    const auto bytes = static_cast<double>(message.size.count());
    if (bytes <= 0) continue;
    const bool others = message.src_rank != message.dst_rank;
    if (message.src_rank == rank) {
      sent[message.dst_rank].bytes += bytes;
      ++sent[message.dst_rank].messages;
      if (others) sent_to_others += bytes;
    }
    if (message.dst_rank == rank) {
      received[message.src_rank].bytes += bytes;
      ++received[message.src_rank].messages;
      if (others) received_from_others += bytes;
    }
  }
}

}  // namespace phantora
