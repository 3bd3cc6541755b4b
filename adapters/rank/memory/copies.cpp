#include "rank/kernels/kernel_launch.hpp"
#include "rank/memory/data_queue.hpp"
#include "rank/memory/device_memory.hpp"

#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace phantora::rank {

namespace {

enum class Transfer : std::uint8_t {
  h2d_pinned,
  h2d_pageable,
  d2h_pinned,
  d2h_pageable,
  d2d,
  p2p,
  memset
};

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

/// `bytes` of the query is the size of the transfer, also for a copy within the device, which reads
/// and writes as much.
void launch_transfer(Stream& stream, Transfer transfer, std::size_t bytes) {
  static std::mutex mutex;
  static auto* const known = new std::unordered_map<std::uint64_t, QueryId>;
  const std::uint64_t key = bytes * 8 + static_cast<std::uint64_t>(transfer);
  QueryId id = 0;
  {
    const std::scoped_lock lock{mutex};
    if (const auto found = known->find(key); found != known->end()) {
      id = found->second;
    } else {
      KernelQuery query;
      query.name = name_of(transfer);
      query.bytes = static_cast<double>(bytes);
      id = intern(query);
      known->emplace(key, id);
    }
  }
  launch(stream, id);
}

void copy_to_device(void* destination, const void* source, std::size_t bytes, bool pinned,
                    Stream& stream) {
  if (pinned || !data::pending(stream)) {
    // Pinned memory is read when the stream gets there, as the copy engine would.
    data::enqueue(stream, [=] { write_from_host(destination, source, bytes); });
  } else if (bytes > small_bytes) {
    data::enqueue(stream, [=] { forget(destination, bytes); });
  } else {
    // The driver stages pageable memory before the call returns: the program may change it then.
    const auto* first = static_cast<const std::byte*>(source);
    data::enqueue(stream, [destination, staged = std::vector<std::byte>{first, first + bytes}] {
      write(destination, staged.data(), staged.size());
    });
  }
}

}  // namespace

void copy_async(void* destination, const void* source, std::size_t bytes, CopyKind kind,
                bool host_is_pinned, bool blocking, Stream& stream) {
  if (bytes == 0) {
    if (blocking) synchronize(stream);
    return;
  }
  bool wait = blocking;
  switch (kind) {
    case CopyKind::host_to_host:
      data::enqueue(stream, [=] { std::memmove(destination, source, bytes); });
      wait = true;  // the driver copies on the calling thread, when the stream has got there
      break;
    case CopyKind::host_to_device:
      copy_to_device(destination, source, bytes, host_is_pinned, stream);
      launch_transfer(stream, host_is_pinned ? Transfer::h2d_pinned : Transfer::h2d_pageable,
                      bytes);
      break;
    case CopyKind::device_to_host:
      data::enqueue(stream, [=] { read(destination, source, bytes); });
      launch_transfer(stream, host_is_pinned ? Transfer::d2h_pinned : Transfer::d2h_pageable,
                      bytes);
      wait = wait || !host_is_pinned;
      break;
    case CopyKind::device_to_device: {
      data::enqueue(stream, [=] { copy(destination, source, bytes); });
      const auto to = allocation_of(destination);
      const auto from = allocation_of(source);
      const bool peers = to && from && to->device != from->device;
      launch_transfer(stream, peers ? Transfer::p2p : Transfer::d2d, bytes);
      break;
    }
  }
  if (wait) synchronize(stream);
}

void fill_async(void* destination, int value, std::size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  data::enqueue(stream, [=] { fill(destination, value, bytes); });
  launch_transfer(stream, Transfer::memset, bytes);
}

}  // namespace phantora::rank
