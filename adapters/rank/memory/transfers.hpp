#pragma once

#include "rank/kernels/kept_by_hash.hpp"
#include "rank/kernels/kernel_launch.hpp"
#include "rank/runtime/timeline.hpp"

#include <cstddef>
#include <cstdint>

/// What copies and fills are to the engine: kernels that the copy engines run.
namespace phantora::rank {

enum class Transfer : std::uint8_t {
  h2d_pinned,
  h2d_pageable,
  d2h_pinned,
  d2h_pageable,
  d2d,
  p2p,
  memset
};

/// What a copy is that the device makes.
Transfer transfer_of(CopyKind kind, bool host_is_pinned, const void* destination,
                     const void* source);

/// Appends it to `stream`. `bytes` is how much is moved, also by a copy within the device, which
/// reads and writes as much: the models of costs know that.
void launch_transfer(Stream& stream, Transfer transfer, std::size_t bytes);

/// Transfers that the engine knows.
struct TransferQuery {
  Transfer transfer{};
  std::size_t bytes = 0;
  QueryId id{};
};
using TransferQueries = KeptByHash<TransferQuery>;

}  // namespace phantora::rank
