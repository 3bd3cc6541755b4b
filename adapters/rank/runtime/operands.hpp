#pragma once

#include "rank/memory/device_memory.hpp"
#include "rank/runtime/timeline.hpp"

#include <phantora/collectives/operation.hpp>

/// What an NCCL call reads and writes.
namespace phantora::rank {

/// Bytes that a rank puts into an operation and gets out of it; of a collective as its root does.
inline BufferBytes operand_bytes(const CollectiveCall& call, int ranks, bool is_root) {
  const Bytes one{static_cast<std::int64_t>(call.count * size_of(call.type))};
  if (const auto op = channel::collective_op(call.op)) {
    return buffer_bytes(*op, one, ranks, is_root);
  }
  return call.op == Collective::send ? BufferBytes{.send = one} : BufferBytes{.receive = one};
}

/// Whether the operation carries data: every rank must come to the same answer.
inline bool carries_data(const CollectiveCall& call, const CommunicatorInfo& info) {
  const BufferBytes root = operand_bytes(call, info.ranks, true);
  const Bytes largest = call.op == Collective::recv ? root.receive : root.send;
  return static_cast<std::size_t>(largest.count()) <= small_bytes;
}

}  // namespace phantora::rank
