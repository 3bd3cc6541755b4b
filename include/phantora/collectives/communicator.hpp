#pragma once

#include <phantora/cluster/cluster.hpp>
#include <phantora/collectives/operation.hpp>
#include <phantora/ids.hpp>
#include <phantora/network/flow_network.hpp>
#include <phantora/units.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace phantora {

/// How a collective runs, and for how long: `latency`, then all flows at once. It ends with the
/// last flow's completion, or after `latency` alone if there is none.
struct CollectivePlan {
  Algorithm algorithm = Algorithm::ring;  ///< what NCCL would choose
  Protocol protocol = Protocol::simple;   ///< of the algorithm
  /// Thread blocks on each GPU: the SMs that the collective occupies.
  int channels = 0;
  Duration latency{};  ///< before the flows begin
  /// Each names its links; `start` is for the caller to set.
  std::vector<FlowSpec> flows{};
};

/// NCCL's tuning variables, as in {"NCCL_ALGO", "Ring"}.
using NcclVariables = std::map<std::string, std::string, std::less<>>;

/// A group of GPUs that run collectives together, as NCCL would on this topology.
///
/// Immutable, thread-safe; copies share their state.
class Communicator {
 public:
  /// @param ranks  the GPU of each rank, distinct; at least one.
  /// @throws ConfigError if a variable has a value that NCCL would not accept.
  Communicator(const Cluster& cluster, std::vector<NodeId> ranks,
               const NcclVariables& variables = {});

  /// Ranks.
  [[nodiscard]] int size() const noexcept;

  /// The plan of one operation.
  /// @param total  bytes of the larger of the send and receive buffer of one rank, as NCCL counts
  ///   them: the full tensor for all_gather and reduce_scatter; for all_to_all the bytes that a
  ///   rank sends to all ranks together; for gather and scatter the root's.
  [[nodiscard]] CollectivePlan plan(CollectiveOp op, Bytes total, int root = 0) const;
  /// The plan of a group of collectives.
  ///
  /// NCCL runs it in one kernel, chooses for operations of a kind and of similar sizes together,
  /// and deals all to the channels one after the other, so that neighbours may share one.
  [[nodiscard]] CollectivePlan plan(std::span<const GroupedCollective> group) const;
  /// The plan of a group of sends and receives, with the messages of all ranks.
  [[nodiscard]] CollectivePlan plan(std::span<const SendRecv> group) const;
  /// The plan of one message. What else its two ranks send and receive tells how NCCL runs it.
  [[nodiscard]] CollectivePlan plan(const SendRecv& message, const RankMessages& sender,
                                    const RankMessages& receiver) const;
  /// Thread blocks that a message takes on each of its ranks.
  [[nodiscard]] int channels(const SendRecv& message) const;

 private:
  class Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace phantora
