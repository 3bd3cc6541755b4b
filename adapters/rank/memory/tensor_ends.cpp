#include "rank/memory/tensor_ends.hpp"

#include "rank/memory/device_memory.hpp"
#include "rank/small_data.hpp"

namespace phantora::rank {

std::size_t bytes_of_tensor(const void* address) {
  const auto allocation = allocation_of(address);
  if (!allocation) return 0;
  const auto before =
      static_cast<std::size_t>(static_cast<const std::byte*>(address) - allocation->base);
  const std::size_t rest = allocation->size - before;
  const std::size_t written = small_data().tensor_ends.bytes_from(address);
  return written != 0 ? std::min(rest, written) : rest;
}

}  // namespace phantora::rank
