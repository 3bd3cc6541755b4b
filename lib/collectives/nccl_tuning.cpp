#include "collectives/nccl_tuning.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

// The constants and formulas are facts about NCCL 2.27-2.29 (src/graph/tuning.cc, search.cc,
// connect.cc, topo.h; src/enqueue.cc), confirmed by its logs on 2, 3, 4 and 8 H200.

namespace phantora {
namespace {

enum Generation : std::uint8_t { volta, ampere, hopper, blackwell };

Generation generation(int compute_capability) noexcept {
  if (compute_capability >= 100) return blackwell;
  if (compute_capability >= 90) return hopper;
  return compute_capability >= 80 ? ampere : volta;
}

constexpr std::size_t ll = 0, ll128 = 1, simple = 2;
constexpr std::size_t tree_row = 0, ring_row = 1;
using Row = std::array<double, 3>;  // by protocol

// Microseconds: what every operation pays, and what each hop adds over NVLink, PCIe and network.
constexpr std::array<Row, 2> base_latency{{{6.8, 14.0, 8.4}, {6.6, 14.0, 8.4}}};
constexpr std::array<Row, 2> nvlink_hop{{{0.6, 1.25, 4.0}, {0.6, 1.9, 3.4}}};
constexpr std::array<Row, 2> pcie_hop{{{1.0, 1.9, 4.0}, {1.0, 2.5, 5.7}}};
constexpr std::array<Row, 2> net_hop{{{5.0, 8.5, 14.0}, {2.7, 4.0, 14.0}}};
constexpr double pat_base = 8.0, pat_net_hop = 14.0;
constexpr double collnet_direct_hop = 3.7, collnet_direct_net = 31.0;
constexpr double collnet_chain_hop = 2.8, collnet_chain_net = 30.0;
constexpr double nvls_latency = 25.0, nvls_tree_net = 20.9;

// GB/s by generation, for 1, 2 and more nodes.
using Caps = std::array<Row, 4>;
constexpr Caps ll_caps{{{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}}};
constexpr std::array<double, 4> ring_ll128_caps{20, 20, 36.7, 40};
constexpr Caps tree_ll128_caps{{{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}}};
constexpr Caps tree_simple_caps{
    {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}}};
constexpr Caps nvls_tree_caps{{{0, 0, 0}, {0, 0, 0}, {0, 57.7, 45.5}, {0, 96, 43.8}}};
constexpr std::array<double, 4> nvls_efficiency{0, 0, 0.85, 0.74};

// The speeds per channel that the graph search tries, fastest first.
constexpr std::array intra_speeds{40., 30., 20., 18., 15., 12., 10., 9., 7., 6., 5., 4., 3.};
constexpr std::array intra_speeds_90{60., 50., 40., 30., 24., 20., 15., 12., 11., 6., 3.};
constexpr std::array intra_speeds_100{90., 80., 70., 60., 50., 45., 40., 30., 24., 20., 19., 18.};
constexpr std::array inter_speeds{48., 30., 28., 24., 20., 18., 15., 12.,
                                  10., 9.,  7.,  6.,  5.,  4.,  3.};
constexpr std::array inter_speeds_90{48., 45.,  42., 40., 30., 24., 22.,
                                     20., 17.5, 15., 12., 6.,  3.};
constexpr std::array inter_speeds_100{96., 86., 80., 48., 45.1, 42., 40.,
                                      30., 24., 20., 15., 12.,  6.,  3.};

std::span<const double> intra_ladder(int cc) noexcept {
  if (cc >= 100) return intra_speeds_100;
  if (cc >= 90) return intra_speeds_90;
  return intra_speeds;
}
std::span<const double> inter_ladder(int cc) noexcept {
  if (cc >= 100) return inter_speeds_100;
  if (cc >= 90) return inter_speeds_90;
  return inter_speeds;
}

// How tree bandwidth dips at middle sizes, by log2(bytes / 64) and protocol.
constexpr std::array<std::array<double, 24>, 3> tree_correction{{
    {1., 1., 1., 1., .9, .8, .7, .7, .7, .7, .6, .5,
     .4, .4, .5, .6, .7, .8, .9, 1., 1., 1., 1., 1.},
    {1., 1., 1., 1., 1., .9, .8, .8, .8, .7, .6, .6,
     .6, .6, .6, .6, .8, .9, .9, .9, .9, 1., 1., 1.},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
     .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9},
}};

int fit(double total, double speed) noexcept { return static_cast<int>(total / speed); }

struct Graphs {
  ChannelGraph ring, tree, nvls;
};

/// How a host lays channels over its own GPUs and links.
Graphs search_graphs(const TuningShape& shape) {
  Graphs found;
  ChannelGraph &ring = found.ring, &tree = found.tree, &nvls = found.nvls;
  const int cc = shape.compute_capability;
  const int local = std::max(1, shape.ranks / std::max(1, shape.nodes));
  const double total = shape.nvlink > 0 ? shape.nvlink : shape.pcie;
  if (shape.nodes == 1) {
    // The fastest speed that the GPU's links carry at all.
    for (const double speed : intra_ladder(cc)) {
      if (fit(total, speed) == 0) continue;
      ring = {fit(total, speed), speed, speed};
      break;
    }
  } else {
    // One channel per NIC, at the fastest speed that the NIC and the GPU's links carry.
    const int wanted = std::max(1, shape.nics);
    for (const double speed : inter_ladder(cc)) {
      if (speed > shape.nic || (local > 1 && fit(total, speed) < wanted)) continue;
      ring = {wanted, speed, speed};
      break;
    }
  }
  tree = ring;
  // Fast channels are split in two, for more thread blocks at work.
  if (ring.intra >= 25 && !(cc > 80 && ring.intra < 50 && ring.channels > 4)) {
    ring.channels *= 2;
    ring.intra /= 2;
    ring.inter /= 2;
    tree = ring;
  }
  if (shape.nodes == 1 && shape.nvlink > 0 && shape.ranks <= 3) {
    // A chain of 2 or 3 leaves links free that chains in other directions use: as many channels
    // as the ring, at the fastest speed for which all chains fit the links.
    for (const double speed : intra_ladder(cc)) {
      if (shape.ranks * fit(total, speed) < ring.channels * (shape.ranks - 1)) continue;
      tree.intra = tree.inter = speed;
      break;
    }
  }
  if (shape.nvls && local > 1) {
    // The head GPU of a channel receives the reduction on top of its own traffic.
    for (const double speed : intra_ladder(cc)) {
      if ((local + 1) * speed > shape.nvlink) continue;
      nvls = {local, speed, speed};
      break;
    }
  }
  return found;
}

ChannelGraph least(const ChannelGraph& a, const ChannelGraph& b) {
  return {std::min(a.channels, b.channels), std::min(a.intra, b.intra), std::min(a.inter, b.inter)};
}

TuningShape least(TuningShape a, const TuningShape& b) {
  a.compute_capability = std::min(a.compute_capability, b.compute_capability);
  a.nvlink = std::min(a.nvlink, b.nvlink);
  a.nic = std::min(a.nic, b.nic);
  a.pcie = std::min(a.pcie, b.pcie);
  a.nics = std::min(a.nics, b.nics);
  a.nvls = a.nvls && b.nvls;
  return a;
}

}  // namespace

int NcclTuning::steps(TunedOp op, int ranks) noexcept {
  switch (op) {
    case TunedOp::all_reduce:
      return 2 * (ranks - 1);
    case TunedOp::all_gather:
    case TunedOp::reduce_scatter:
      return ranks - 1;
    default:
      return ranks;
  }
}

NcclTuning::NcclTuning(std::span<const TuningShape> hosts) : shape_{hosts.front()} {
  Graphs graphs = search_graphs(shape_);
  // NCCL gathers the graphs of all ranks and takes the least channels and bandwidths and the worst
  // kind of link (src/init.cc, initTransportsRank: "so that the tuning is consistent across
  // ranks"); NVLS where every rank has it. What depends on the GPU goes by the least compute
  // capability.
  for (const TuningShape& host : hosts.subspan(1)) {
    one_capability_ = one_capability_ && host.compute_capability == shape_.compute_capability;
    const Graphs others = search_graphs(host);
    graphs = {least(graphs.ring, others.ring), least(graphs.tree, others.tree),
              least(graphs.nvls, others.nvls)};
    shape_ = least(shape_, host);
  }
  ring_ = graphs.ring;
  tree_ = graphs.tree;
  nvls_ = graphs.nvls;
  channels_ = 2 * ring_.channels;
  if (shape_.nodes > 1 && shape_.compute_capability >= 90 && ring_.intra > 45 && channels_ < 16)
    channels_ *= 2;
  channels_ = std::min(channels_, 64);
  fill();
}

int NcclTuning::nvls_channels() const noexcept {
  if (shape_.compute_capability >= 100) return shape_.nodes == 1 ? 24 : 32;
  return 16;
}

void NcclTuning::fill() {
  const int n = shape_.ranks, nodes = shape_.nodes;
  const int local = std::max(1, n / std::max(1, nodes));
  if (n < 2) return;
  const Generation gpu = generation(shape_.compute_capability);
  const std::size_t scale = nodes == 1 ? 0 : nodes == 2 ? 1 : 2;
  // On several nodes NCCL looks the LL cap up by the maker of the CPU.
  const double ll_cap = nodes == 1 ? ll_caps[gpu][0] : ll_caps[shape_.amd_host ? 1 : 0][scale];
  const auto& hop = shape_.nvlink > 0 ? nvlink_hop : pcie_hop;
  const double bus = ring_.channels * ring_.speed(nodes);
  const double tree_bus = tree_.channels * tree_.speed(nodes);
  const double log_nodes = std::log2(static_cast<double>(nodes));
  // Off among unlike GPUs (src/graph/tuning.cc: minCompCap == maxCompCap, 2.27 to 2.29).
  const bool ll128_on = one_capability_;

  for (std::size_t o = 0; o < ops; ++o) {
    const auto op = static_cast<TunedOp>(o);
    const double ratio = static_cast<double>(n) / steps(op, n);
    const bool rooted = op == TunedOp::broadcast || op == TunedOp::reduce;
    auto& rows = table_[o];
    const auto set = [&](Algorithm a, std::size_t p, double latency, double bandwidth) {
      rows[static_cast<std::size_t>(a)][p] = {latency, bandwidth};
    };

    // Ring.
    const Row ring_bw{std::min(ll_cap, bus * 0.5),
                      ll128_on ? std::min(bus * 0.92, ring_.channels * ring_ll128_caps[gpu]) : 0.0,
                      bus};
    for (std::size_t p = 0; p < protocols; ++p) {
      double intra = hop[ring_row][p];
      // A communicator of one GPU per node hops over the network as the tree does.
      const double inter = net_hop[local == 1 ? tree_row : ring_row][p];
      if (nodes > 1) intra = std::max(intra, (shape_.amd_host ? 2.0 : 1.0) * (p == simple ? 3 : 1));
      const int inter_steps = rooted       ? 0
                              : nodes == 1 ? 0
                                           : (op == TunedOp::all_reduce ? 2 : 1) * (nodes - 1);
      double latency = base_latency[ring_row][p];
      if (rooted) {
        // All channels run alike, so that one hop is all the pipeline waits for.
        latency += nodes == 1 ? intra : inter;
      } else {
        latency += (steps(op, n) - inter_steps) * intra + inter_steps * inter;
      }
      set(Algorithm::ring, p, latency, ring_bw[p] * ratio);
    }

    if (op == TunedOp::all_reduce) {
      // Tree.
      const double tree_simple =
          std::min(tree_bus * 0.92, tree_.channels * tree_simple_caps[gpu][scale]);
      const Row tree_bw{std::min(tree_simple / 3.8, ll_cap),
                        ll128_on ? std::min(tree_simple * (nodes == 1 ? 7.0 / 9.0 : 120.0 / 128.0),
                                            tree_.channels * tree_ll128_caps[gpu][scale])
                                 : 0.0,
                        tree_simple};
      for (std::size_t p = 0; p < protocols; ++p) {
        set(Algorithm::tree, p,
            base_latency[tree_row][p] +
                2 * ((local - 1) * hop[tree_row][p] + log_nodes * net_hop[tree_row][p]),
            tree_bw[p] * 0.5);
      }
      // CollNet is never available here; NCCL lists its latencies all the same.
      set(Algorithm::collnet_chain, simple, 2 * (local - 1) * collnet_chain_hop + collnet_chain_net,
          0);
    }
    if (!rooted) {
      const double spread = 2 * std::min(1, local - 1) * collnet_direct_hop + collnet_direct_net;
      set(Algorithm::collnet_direct, ll, 0.8 * (local - 1), 0);
      set(Algorithm::collnet_direct, ll128, 0.8 * (local - 1), 0);
      set(Algorithm::collnet_direct, simple, spread + 0.8 * (local - 1), 0);
    }

    // NVLS.
    if (nvls_.channels > 1 && !rooted) {
      const double c = nvls_.channels;
      const double channel = nvls_.intra * nvls_efficiency[gpu] * (c - 1) / c;
      if (op == TunedOp::all_reduce) {
        if (nodes == 1) {
          set(Algorithm::nvls, simple, nvls_latency, 2 * channel * c * ratio);
        } else {
          const double inter = ring_.inter * (nodes == 2 ? 2 : 1);
          const double tree_channel = std::min({2 * channel, inter, nvls_tree_caps[gpu][scale]});
          set(Algorithm::nvls_tree, simple, nvls_latency + 2 * log_nodes * nvls_tree_net,
              tree_channel * c * ratio);
        }
      } else if (nodes == 1) {
        set(Algorithm::nvls, simple, nvls_latency, channel * c * (local - 1) / local);
      }
    }

    // PAT.
    if (local == 1 && nodes > 1 && (op == TunedOp::all_gather || op == TunedOp::reduce_scatter)) {
      set(Algorithm::pat, simple, pat_base + log_nodes * pat_net_hop / 3.5 + 2.8 * n,
          bus * 0.75 * ratio);
    }
  }
}

double NcclTuning::time_us(TunedOp op, Algorithm algorithm, Protocol protocol,
                           std::int64_t bytes) const {
  const Cell& entry = cell(op, algorithm, protocol);
  if (entry.bandwidth <= 0) return -1;
  double latency = entry.latency_us, bandwidth = entry.bandwidth;
  if (algorithm == Algorithm::tree) {
    const auto log = bytes < 64 ? -1 : static_cast<int>(std::log2(static_cast<double>(bytes >> 6)));
    if (log >= 0 && log < 24)
      bandwidth *=
          tree_correction[static_cast<std::size_t>(protocol)][static_cast<std::size_t>(log)];
  }
  if (algorithm == Algorithm::ring && protocol == Protocol::simple && shape_.nodes > 1 &&
      op == TunedOp::all_reduce && bytes / (std::int64_t{channels_} * shape_.ranks) >= 64)
    latency *= shape_.compute_capability >= 80 ? 1.4 : 1.9;
  return latency + static_cast<double>(bytes) / (1000 * bandwidth);
}

NcclTuning::Choice NcclTuning::choose(TunedOp op, std::int64_t bytes,
                                      const Allowed& allowed) const {
  Choice best{Algorithm::ring, Protocol::simple, -1};
  for (std::size_t a = 0; a < algorithms; ++a) {
    for (std::size_t p = 0; p < protocols; ++p) {
      if (!allowed.algorithm[a] || !allowed.protocol[p]) continue;
      const auto algorithm = static_cast<Algorithm>(a);
      const auto protocol = static_cast<Protocol>(p);
      const double time = time_us(op, algorithm, protocol, bytes);
      if (time >= 0 && (best.time_us < 0 || time < best.time_us))
        best = {algorithm, protocol, time};
    }
  }
  return best;
}

namespace {

/// Such operations take all channels that they may use.
bool is_multicast(Algorithm algorithm) {
  return algorithm == Algorithm::nvls || algorithm == Algorithm::nvls_tree;
}

}  // namespace

int NcclTuning::most_channels(Algorithm algorithm, Protocol protocol, std::int64_t bytes,
                              int limit) const {
  if (is_multicast(algorithm)) return std::min(limit, nvls_channels());
  const std::int64_t threads = protocol == Protocol::ll128 ? 640 : 512;
  std::int64_t threshold = protocol == Protocol::simple ? 64 : 8;
  if (protocol == Protocol::ll && algorithm == Algorithm::ring) threshold *= shape_.ranks;
  std::int64_t channels = std::min(limit, channels_);
  while (channels > 1 && bytes < channels * threads * threshold) --channels;
  return static_cast<int>(channels);
}

std::vector<NcclTuning::Channels> NcclTuning::deal(std::span<const Task> tasks, int limit) const {
  constexpr std::int64_t least_traffic = 16384;  // of a channel
  const std::int64_t n = shape_.ranks;
  const auto divide_up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const auto one_way = [](const Task& task) {
    return task.op == TunedOp::all_gather || task.op == TunedOp::reduce_scatter;
  };
  const auto traffic_per_byte = [&](const Task& task) {
    return (task.op == TunedOp::all_reduce ? 2
            : one_way(task)                ? n
                                           : 1) *
           (task.protocol == Protocol::ll ? 4 : 1);
  };
  const auto buffer = [&](const Task& task) {
    return std::max<std::int64_t>(1, one_way(task) ? task.bytes / n : task.bytes);
  };
  const std::int64_t all = std::min(limit, channels_);
  std::int64_t traffic = 0, used = 0;
  for (const Task& task : tasks) {
    if (is_multicast(task.algorithm)) continue;
    traffic += std::max(least_traffic, buffer(task) * traffic_per_byte(task));
    used = std::min(all, used + task.most_channels);
  }
  const std::int64_t each = std::max(least_traffic, traffic / std::max<std::int64_t>(1, used));
  std::vector<Channels> dealt;
  std::int64_t channel = 0, filled = 0;
  for (const Task& task : tasks) {
    if (is_multicast(task.algorithm)) {
      dealt.push_back({0, task.most_channels});
      continue;
    }
    const std::int64_t cell = divide_up(divide_up(least_traffic, traffic_per_byte(task)), 16) * 16;
    const std::int64_t per_cell = cell * traffic_per_byte(task);
    const std::int64_t cells = divide_up(buffer(task), cell);
    std::int64_t per_channel = std::min(cells, divide_up(each, per_cell));
    // What fits into the present channel, whole channels, and the rest.
    const std::int64_t low =
        channel + 1 == all ? cells : std::min(cells, divide_up(each - filled, per_cell));
    std::int64_t middle = (cells - low) / per_channel, high = (cells - low) % per_channel;
    if (all < channel + 1 + middle + (high != 0)) {
      middle = all - channel - 2;
      per_channel = (cells - low) / (middle + 1);
      high = per_channel + (cells - low) % (middle + 1);
    }
    if (high == 0 && middle != 0) {
      high = per_channel;
      --middle;
    }
    const std::int64_t count = 1 + middle + (high != 0);
    dealt.push_back({static_cast<int>(channel), static_cast<int>(count)});
    if (high != 0) {
      channel += count - 1;
      filled = high * per_cell;
    } else {
      filled += low * per_cell;
    }
    if (filled >= each && channel + 1 != all) {
      ++channel;
      filled = 0;
    }
  }
  return dealt;
}

}  // namespace phantora
