#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

/// Host memory that the program made known to CUDA: page-locked, registered or managed.
namespace phantora::driver {

enum class HostMemoryKind : unsigned char { allocated, registered, managed };

/// What cudaMemAdvise and cudaMemPrefetchAsync said of managed memory: it is answered to those who
/// ask, and changes nothing. No device: cudaInvalidDeviceId.
struct Advice {
  bool read_mostly = false;
  int preferred = -2, prefetched = -2;
  std::uint64_t accessed_by = 0;  ///< a bit for each device, the highest for the host
};

struct HostMemory {
  std::byte* base = nullptr;
  std::size_t size = 0;
  HostMemoryKind kind{};
  unsigned flags = 0;  ///< as given to cudaHostAlloc or cudaHostRegister
  int device = 0;      ///< current at the time
  Advice advice{};     ///< of the whole, though it was given for a part
};

/// Page-aligned zeroed memory, untouched and so without cost until used; nullptr if there is none.
void* allocate_host(std::size_t bytes, HostMemoryKind kind, unsigned flags);
/// False when `address` is not the start of an allocation of allocate_host.
bool free_host(void* address);

/// False when the range overlaps memory that is known already.
bool register_host(void* address, std::size_t bytes, unsigned flags);
bool unregister_host(void* address);

/// Calls `change` with the advice of the managed memory that holds `address`; false if none does.
bool advise(const void* address, const std::function<void(Advice&)>& change);

/// The known host memory that holds `address`.
std::optional<HostMemory> host_memory_of(const void* address);
/// Whether a copy from or to `address` is one of page-locked memory.
bool pinned(const void* address);

}  // namespace phantora::driver
