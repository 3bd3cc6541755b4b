#pragma once

#include <phantora/collectives/operation.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace phantora {

/// One of the ways in which NCCL lays its channels over a communicator.
struct ChannelGraph {
  int channels = 0;
  double intra = 0;  ///< GB/s per channel inside a host
  double inter = 0;  ///< GB/s per channel between hosts
  [[nodiscard]] double speed(int nodes) const { return nodes <= 2 ? intra : inter; }
};

/// What NCCL knows of a communicator when it tunes, as one of its hosts sees it.
struct TuningShape {
  int ranks = 1;
  int nodes = 1;
  int compute_capability = 90;
  double nvlink = 0;  ///< GB/s of one GPU's NVLinks together, as NCCL counts; 0 without NVSwitch
  double nic = 0;     ///< GB/s of one NIC, at most that of its PCIe slot
  double pcie = 0;    ///< GB/s of a GPU's PCIe slot
  int nics = 0;       ///< that the GPUs of one node can use
  bool nvls = false;  ///< multicast is there and not switched off
  bool amd_host = false;
  bool operator==(const TuningShape&) const = default;
};

enum class TunedOp : std::uint8_t { broadcast, reduce, all_gather, reduce_scatter, all_reduce };

/// NCCL's tuning model: for every operation, algorithm and protocol a latency and a bandwidth.
///
/// Reproduces what NCCL 2.28.9 logs, to the printed digit, on one host (test/nccl_tuning_test.cpp).
class NcclTuning {
 public:
  static constexpr std::size_t ops = 5, algorithms = 7, protocols = 3;

  struct Cell {
    double latency_us = 0;
    double bandwidth = 0;  ///< GB/s of the operation's bytes; 0: not to be used
  };
  struct Choice {
    Algorithm algorithm = Algorithm::ring;
    Protocol protocol = Protocol::simple;
    double time_us = 0;
  };
  /// Which of the algorithms and protocols the user allows.
  struct Allowed {
    std::array<bool, algorithms> algorithm{true, true, true, true, true, true, true};
    std::array<bool, protocols> protocol{true, true, true};
  };

  explicit NcclTuning(const TuningShape& shape) : NcclTuning{std::span{&shape, 1}} {}
  /// Of hosts that are not alike: one shape of each kind, with the same ranks and nodes. Each host
  /// lays channels over its own GPUs and links; what all then use is the least of what they found.
  explicit NcclTuning(std::span<const TuningShape> hosts);

  [[nodiscard]] const Cell& cell(TunedOp op, Algorithm algorithm, Protocol protocol) const {
    return table_[static_cast<std::size_t>(op)][static_cast<std::size_t>(algorithm)]
                 [static_cast<std::size_t>(protocol)];
  }
  /// NCCL's own estimate for `bytes`; negative if the cell is not to be used.
  [[nodiscard]] double time_us(TunedOp op, Algorithm algorithm, Protocol protocol,
                               std::int64_t bytes) const;
  /// The cell of least time among those allowed.
  [[nodiscard]] Choice choose(TunedOp op, std::int64_t bytes, const Allowed& allowed) const;
  /// Channels that operations of `bytes` together may use, at most `limit`.
  [[nodiscard]] int most_channels(Algorithm algorithm, Protocol protocol, std::int64_t bytes,
                                  int limit) const;

  /// An operation of a kernel.
  struct Task {
    TunedOp op = TunedOp::all_reduce;
    Algorithm algorithm = Algorithm::ring;
    Protocol protocol = Protocol::simple;
    std::int64_t bytes = 0;
    int most_channels = 1;
  };
  /// The channels that an operation gets.
  struct Channels {
    int first = 0;
    int count = 0;
  };
  /// Deals operations to the channels of their kernel, in order: each channel gets the same
  /// traffic, but for whole cells of a rank's buffer (src/enqueue.cc, scheduleCollTasksToPlan).
  [[nodiscard]] std::vector<Channels> deal(std::span<const Task> tasks, int limit) const;

  [[nodiscard]] const ChannelGraph& ring() const noexcept { return ring_; }
  [[nodiscard]] const ChannelGraph& tree() const noexcept { return tree_; }
  [[nodiscard]] const ChannelGraph& nvls() const noexcept { return nvls_; }
  /// Channels of ring and tree operations.
  [[nodiscard]] int channels() const noexcept { return channels_; }
  [[nodiscard]] int nvls_channels() const noexcept;
  /// Of unlike hosts: the least of each figure.
  [[nodiscard]] const TuningShape& shape() const noexcept { return shape_; }

  /// Steps of a ring operation on one rank.
  [[nodiscard]] static int steps(TunedOp op, int ranks) noexcept;

 private:
  void fill();

  TuningShape shape_;
  bool one_capability_ = true;  ///< all GPUs have the same compute capability
  ChannelGraph ring_, tree_, nvls_;
  int channels_ = 0;
  std::array<std::array<std::array<Cell, protocols>, algorithms>, ops> table_{};
};

}  // namespace phantora
