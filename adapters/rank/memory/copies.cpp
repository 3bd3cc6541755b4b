#include "rank/kernels/kernel_launch.hpp"
#include "rank/memory/cached_operands.hpp"
#include "rank/memory/data_queue.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/memory/transfers.hpp"

#include <array>
#include <cstring>
#include <vector>

namespace phantora::rank {

namespace {

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
      break;
    case CopyKind::device_to_host:
      data::enqueue(stream, [=] { read(destination, source, bytes); });
      wait = wait || !host_is_pinned;
      break;
    case CopyKind::device_to_device:
      data::enqueue(stream, [=] { copy(destination, source, bytes); });
      touch_operands(stream.device, std::array{Touched{source, bytes, true, false},
                                               Touched{destination, bytes, false, true}});
      break;
  }
  if (kind != CopyKind::host_to_host) {
    launch_transfer(stream, transfer_of(kind, host_is_pinned, destination, source), bytes);
  }
  if (wait) synchronize(stream);
}

void fill_async(void* destination, int value, std::size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  data::enqueue(stream, [=] { fill(destination, value, bytes); });
  touch_operands(stream.device, std::array{Touched{destination, bytes, false, true}});
  launch_transfer(stream, Transfer::memset, bytes);
}

}  // namespace phantora::rank
