// Memory and addresses apart (cuMemCreate, cuMemAddressReserve, cuMemMap): what PyTorch's
// expandable segments are made of. A block's memory is taken from the GPU's ledger as long as a
// handle or a mapping refers to it. Processes of a host show each other their blocks by file
// descriptors: the addresses exist and copies take their time, the data stay with each process.
#include "cuda/libcuda/entry.hpp"
#include "rank/memory/device_memory.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

using namespace phantora::libcuda;
namespace rank = phantora::rank;

namespace {

constexpr std::size_t granularity = std::size_t{2} << 20;  // cuMemGetAllocationGranularity, H200

/// Physical memory: charged while it lives.
class Block {
 public:
  /// nullptr if the GPU has not that much left.
  static std::shared_ptr<Block> create(int device, std::size_t size,
                                       CUmemAllocationHandleType shareable) {
    if (!rank::reserve_memory(device, size)) return nullptr;
    auto block = std::shared_ptr<Block>{new Block{device, size}};
    block->shareable = shareable;
    return block;
  }
  /// What another process of the host has made, on the device of this physical number.
  static std::shared_ptr<Block> imported(int physical, std::size_t size) {
    return std::shared_ptr<Block>{new Block{rank::visible_device(physical), size, false}};
  }
  ~Block() {
    if (own) rank::release_memory(device, size);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  const int device;  ///< -1: not visible to this process
  const std::size_t size;
  const bool own;
  CUmemAllocationHandleType shareable = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  /// Where its data are: the first of its mappings. Others show what is there.
  CUdeviceptr home = 0;

 private:
  Block(int d, std::size_t s, bool o = true) : device{d}, size{s}, own{o} {}
};

struct Mapping {
  std::size_t size = 0;
  std::shared_ptr<Block> block{};
};

/// What a handle names, and how often it has to be released.
struct Held {
  std::shared_ptr<Block> block{};
  int references = 1;
};

struct VirtualMemory {
  std::mutex mutex{};
  CUmemGenericAllocationHandle next_handle = 1;
  std::map<CUmemGenericAllocationHandle, Held> handles{};
  std::map<CUdeviceptr, Mapping> mappings{};
};
VirtualMemory& state() {
  static auto* const instance = new VirtualMemory;
  return *instance;
}

bool aligned(unsigned long long value) { return value % granularity == 0; }

int device_of(const CUmemLocation& location) {
  return location.type == CU_MEM_LOCATION_TYPE_DEVICE && valid_device(location.id) ? location.id
                                                                                   : -1;
}

/// What a shared block's file says.
struct SharedBlock {
  std::array<char, 16> kind{};
  std::array<char, 64> host{};
  int physical_device = 0;
  std::uint64_t size = 0;
};
constexpr std::string_view shared_kind = "phantora block";

std::shared_ptr<Block> block_of(CUmemGenericAllocationHandle handle) {
  const std::scoped_lock lock{state().mutex};
  const auto found = state().handles.find(handle);
  return found == state().handles.end() ? nullptr : found->second.block;
}

CUmemGenericAllocationHandle handle_of(std::shared_ptr<Block> block) {
  const std::scoped_lock lock{state().mutex};
  const CUmemGenericAllocationHandle handle = state().next_handle++;
  state().handles[handle] = {std::move(block)};
  return handle;
}

/// The mapping at `address` is no more; its block's data go on at another one, if there is one.
/// Under the lock.
void leave(CUdeviceptr address, const Mapping& mapping) {
  Block& block = *mapping.block;
  void* const left = pointer(address);
  rank::revoke_access(left);
  if (block.home != address) {
    rank::show_nothing(left);
    return;
  }
  block.home = 0;
  for (const auto& [other, shown] : state().mappings) {
    if (shown.block != mapping.block || other == address) continue;
    if (block.home == 0) {
      rank::show_nothing(pointer(other));
      rank::copy(pointer(other), left, std::min(shown.size, mapping.size));
      block.home = other;
    } else {
      rank::show(pointer(other), pointer(block.home), shown.size);
    }
  }
  rank::forget(left, mapping.size);
}

/// Whether mappings cover the whole range; under the lock.
bool mapped(CUdeviceptr address, std::size_t size) {
  auto& mappings = state().mappings;
  auto next = mappings.upper_bound(address);
  if (next == mappings.begin()) return false;
  --next;
  CUdeviceptr covered = address;
  for (; next != mappings.end() && next->first <= covered; ++next) {
    covered = next->first + next->second.size;
    if (covered >= address + size) return true;
  }
  return false;
}

}  // namespace

PHANTORA_EXPORT CUresult cuMemGetAllocationGranularity(std::size_t* bytes,
                                                       const CUmemAllocationProp* prop,
                                                       CUmemAllocationGranularity_flags) {
  return entry(Api::get_device, [&] {
    if (!bytes || !prop) return CUDA_ERROR_INVALID_VALUE;
    *bytes = granularity;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuMemAddressReserve(CUdeviceptr* address, std::size_t size,
                                             std::size_t alignment, CUdeviceptr,
                                             unsigned long long flags) {
  return device_entry(Api::malloc, [&] {
    if (!address || size == 0 || !aligned(size) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (alignment > granularity) return CUDA_ERROR_NOT_SUPPORTED;
    void* const range = rank::reserve_addresses(rank::current_device(), size);
    if (!range) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = phantora::libcuda::address(range);
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuMemAddressFree(CUdeviceptr address, std::size_t) {
  return entry(Api::free, [&] {
    const auto range = rank::allocation_of(pointer(address));
    if (!range) return CUDA_ERROR_INVALID_VALUE;
    const std::scoped_lock lock{state().mutex};
    const auto next = state().mappings.lower_bound(address);
    if (next != state().mappings.end() && next->first < address + range->size) {
      return CUDA_ERROR_INVALID_VALUE;  // still mapped
    }
    return rank::release_addresses(pointer(address)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

PHANTORA_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t size,
                                     const CUmemAllocationProp* prop, unsigned long long flags) {
  return device_entry(Api::malloc, [&] {
    if (!handle || !prop || size == 0 || !aligned(size) || flags != 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const int device = device_of(prop->location);
    if (device < 0) return CUDA_ERROR_NOT_SUPPORTED;  // memory of the host
    auto block = Block::create(device, size, prop->requestedHandleTypes);
    if (!block) return CUDA_ERROR_OUT_OF_MEMORY;
    *handle = handle_of(std::move(block));
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return entry(Api::free, [&] {
    const std::scoped_lock lock{state().mutex};
    const auto held = state().handles.find(handle);
    if (held == state().handles.end()) return CUDA_ERROR_INVALID_VALUE;
    if (--held->second.references == 0) state().handles.erase(held);
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuMemMap(CUdeviceptr address, std::size_t size, std::size_t offset,
                                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  return entry(Api::malloc, [&] {
    if (size == 0 || !aligned(size) || !aligned(address) || offset != 0 || flags != 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const std::scoped_lock lock{state().mutex};
    const auto held = state().handles.find(handle);
    if (held == state().handles.end() || size > held->second.block->size) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const auto range = rank::allocation_of(pointer(address));
    if (!range || pointer(address + size) > static_cast<void*>(range->base + range->size)) {
      return CUDA_ERROR_INVALID_VALUE;  // not reserved
    }
    auto next = state().mappings.lower_bound(address);
    if (next != state().mappings.end() && next->first < address + size) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    Block& shown = *held->second.block;
    state().mappings[address] = {size, held->second.block};
    if (!shown.own && shown.device >= 0) rank::show_peer(pointer(address), shown.device);
    if (shown.home == 0) {
      shown.home = address;
    } else {
      rank::show(pointer(address), pointer(shown.home), size);
    }
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuMemUnmap(CUdeviceptr address, std::size_t size) {
  return entry(Api::free, [&] {
    const std::scoped_lock lock{state().mutex};
    auto& mappings = state().mappings;
    const auto first = mappings.lower_bound(address);
    const auto last = mappings.lower_bound(address + size);
    std::size_t covered = 0;
    for (auto m = first; m != last; ++m) covered += m->second.size;
    if (covered != size) return CUDA_ERROR_INVALID_VALUE;  // only whole mappings
    for (auto m = first; m != last; m = mappings.erase(m)) leave(m->first, m->second);
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuMemSetAccess(CUdeviceptr address, std::size_t size,
                                        const CUmemAccessDesc* list, std::size_t count) {
  return entry(Api::malloc, [&] {
    if (!list || count == 0) return CUDA_ERROR_INVALID_VALUE;
    const std::scoped_lock lock{state().mutex};
    if (!mapped(address, size)) return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < count; ++i) {
      if (device_of(list[i].location) < 0) return CUDA_ERROR_INVALID_DEVICE;
    }
    // Every GPU of the host may, once one does.
    auto& mappings = state().mappings;
    for (auto m = std::prev(mappings.upper_bound(address));
         m != mappings.end() && m->first < address + size; ++m) {
      rank::grant_access(pointer(m->first), m->second.size);
    }
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                                        CUdeviceptr address) {
  return entry(Api::get_device, [&] {
    if (!flags || !location || device_of(*location) < 0) return CUDA_ERROR_INVALID_VALUE;
    const std::scoped_lock lock{state().mutex};
    if (!mapped(address, 1)) return CUDA_ERROR_INVALID_VALUE;
    *flags = rank::reachable(pointer(address), 1) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                  : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle,
                                                     void* address) {
  return entry(Api::get_device, [&] {
    if (!handle) return CUDA_ERROR_INVALID_VALUE;
    const std::scoped_lock lock{state().mutex};
    auto& mappings = state().mappings;
    auto next = mappings.upper_bound(phantora::libcuda::address(address));
    if (next == mappings.begin()) return CUDA_ERROR_INVALID_VALUE;
    --next;
    if (phantora::libcuda::address(address) >= next->first + next->second.size) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    for (auto& [known, held] : state().handles) {
      if (held.block != next->second.block) continue;
      *handle = known;
      ++held.references;
      return CUDA_SUCCESS;
    }
    *handle = state().next_handle++;
    state().handles[*handle] = {next->second.block};
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(
    CUmemAllocationProp* prop, CUmemGenericAllocationHandle handle) {
  return entry(Api::get_device, [&] {
    const auto block = block_of(handle);
    if (!prop || !block) return CUDA_ERROR_INVALID_VALUE;
    *prop = {};
    prop->type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop->location = {CU_MEM_LOCATION_TYPE_DEVICE, {block->device}};
    prop->requestedHandleTypes = block->shareable;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuMemExportToShareableHandle(void* shared,
                                                      CUmemGenericAllocationHandle handle,
                                                      CUmemAllocationHandleType type,
                                                      unsigned long long flags) {
  return entry(Api::malloc, [&] {
    const auto block = block_of(handle);
    if (!shared || !block || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !block->own) {
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    SharedBlock told{.physical_device = rank::physical_device(block->device), .size = block->size};
    shared_kind.copy(told.kind.data(), told.kind.size() - 1);
    rank::host_name().copy(told.host.data(), told.host.size() - 1);
    const int file = memfd_create("phantora-block", MFD_CLOEXEC);
    if (file < 0 || ::write(file, &told, sizeof told) != static_cast<ssize_t>(sizeof told)) {
      if (file >= 0) close(file);
      return CUDA_ERROR_OPERATING_SYSTEM;
    }
    *static_cast<int*>(shared) = file;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle,
                                                        void* shared,
                                                        CUmemAllocationHandleType type) {
  return device_entry(Api::malloc, [&] {
    if (!handle) return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
    SharedBlock told;
    const int file = static_cast<int>(reinterpret_cast<std::intptr_t>(shared));
    const bool read = pread(file, &told, sizeof told, 0) == static_cast<ssize_t>(sizeof told);
    // On real hosts a descriptor cannot come from another one.
    if (!read || told.kind.data() != shared_kind || told.host.data() != rank::host_name()) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *handle = handle_of(Block::imported(told.physical_device, told.size));
    return CUDA_SUCCESS;
  });
}
