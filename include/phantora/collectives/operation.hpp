#pragma once

#include <phantora/units.hpp>

#include <cstdint>
#include <map>
#include <span>
#include <string_view>

/// What ranks ask NCCL to do, and how NCCL does it.
namespace phantora {

/// Operations, as NCCL and PyTorch call them.
enum class CollectiveOp : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  all_to_all,
  gather,
  scatter,
  /// Ranks wait for each other and move nothing: it takes no time itself. NCCL has none; kernels
  /// that set flags in the memory of other GPUs have.
  barrier,
};
/// NCCL's algorithms; point_to_point is what exchanges and messages run as.
enum class Algorithm : std::uint8_t {
  tree,
  ring,
  collnet_direct,
  collnet_chain,
  nvls,
  nvls_tree,
  pat,
  point_to_point,
};
/// NCCL's protocols: low latency with flags in 8 bytes, with flags in 128, whole buffers.
enum class Protocol : std::uint8_t { ll, ll128, simple };
/// The name as the enumeration has it: "all_reduce".
std::string_view to_string(CollectiveOp op) noexcept;
/// The name as the enumeration has it: "ring".
std::string_view to_string(Algorithm algorithm) noexcept;
/// The name as the enumeration has it: "ll128".
std::string_view to_string(Protocol protocol) noexcept;

/// The buffers that one rank hands to NCCL for an operation.
struct BufferBytes {
  Bytes send{}, receive{};  ///< what it reads and what it writes
};
/// @param one  bytes of what the call's count counts: the whole buffer for all_reduce, broadcast
/// and
///   reduce, one rank's part for the others (the `sendcount` of ncclAllGather, the `recvcount` of
///   ncclReduceScatter, the `count` of ncclAlltoAll, ncclGather and ncclScatter).
/// @param is_root  what broadcast, reduce, gather and scatter depend on.
BufferBytes buffer_bytes(CollectiveOp op, Bytes one, int ranks, bool is_root = true) noexcept;
/// The same as Communicator::plan counts it: the larger buffer of the rank that has the largest.
Bytes total_bytes(CollectiveOp op, Bytes one, int ranks) noexcept;

/// One message of a send/recv group; ranks are ranks of the communicator.
struct SendRecv {
  int src_rank = 0;  ///< who sends
  int dst_rank = 0;  ///< who receives
  Bytes size{};      ///< of the message
};

/// What a rank sends and receives in one group, by peer, itself too.
struct RankMessages {
  /// @param group  messages of the ranks; those that are not of `rank` are left out.
  RankMessages(int rank, std::span<const SendRecv> group);
  /// What goes to, or comes from, one peer.
  struct Load {
    double bytes = 0;  ///< of all messages together
    int messages = 0;  ///< how many
  };
  std::map<int, Load> sent, received;                   ///< by peer
  double sent_to_others = 0, received_from_others = 0;  ///< bytes, without messages to itself
};

/// One operation of a group, as between ncclGroupStart and ncclGroupEnd.
struct GroupedCollective {
  CollectiveOp op = CollectiveOp::all_reduce;  ///< which
  Bytes total{};                               ///< as Communicator::plan counts them
  int root = 0;                                ///< where the operation has one
  int type = 0;  ///< of the elements, numbered by the caller: ranks that reduce have to agree
};

}  // namespace phantora
