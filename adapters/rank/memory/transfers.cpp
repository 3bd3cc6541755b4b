#include "rank/memory/transfers.hpp"

#include "rank/kernels/word_hash.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/small_data.hpp"

#include <phantora/kernels/kernel_cost_model.hpp>

namespace phantora::rank {

namespace {

const char* name_of(Transfer transfer) {
  switch (transfer) {
    case Transfer::h2d_pinned:
      return "memcpy_h2d_pinned";
    case Transfer::h2d_pageable:
      return "memcpy_h2d_pageable";
    case Transfer::d2h_pinned:
      return "memcpy_d2h_pinned";
    case Transfer::d2h_pageable:
      return "memcpy_d2h_pageable";
    case Transfer::d2d:
      return "memcpy_d2d";
    case Transfer::p2p:
      return "memcpy_p2p";
    case Transfer::memset:
      break;
  }
  return "memset";
}

}  // namespace

Transfer transfer_of(CopyKind kind, bool host_is_pinned, const void* destination,
                     const void* source) {
  if (kind == CopyKind::host_to_device)
    return host_is_pinned ? Transfer::h2d_pinned : Transfer::h2d_pageable;
  if (kind == CopyKind::device_to_host)
    return host_is_pinned ? Transfer::d2h_pinned : Transfer::d2h_pageable;
  if (DeviceMemory::both_allocated_by_one(destination, source)) return Transfer::d2d;
  const auto to = owner_of(destination), from = owner_of(source);
  return to && from && *to != *from ? Transfer::p2p : Transfer::d2d;
}

void launch_transfer(Stream& stream, Transfer transfer, std::size_t bytes) {
  TransferQueries& queries = small_data().transfers;
  WordHash hash;
  hash.mix(bytes * 8 + static_cast<std::uint64_t>(transfer));
  const auto wanted = [&](const TransferQuery& query) {
    return query.transfer == transfer && query.bytes == bytes;
  };
  if (const TransferQuery* const known = queries.find(hash.value(), wanted))
    return launch(stream, known->id);
  KernelQuery query;
  query.name = name_of(transfer);
  query.bytes = static_cast<double>(bytes);
  const QueryId id = intern(query);
  queries.add(hash.value(), {transfer, bytes, id});
  launch(stream, id);
}

}  // namespace phantora::rank
