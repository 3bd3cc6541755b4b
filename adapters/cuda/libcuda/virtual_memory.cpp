// Memory and addresses apart (cuMemCreate, cuMemAddressReserve, cuMemMap): what PyTorch's
// expandable segments are made of. A block's memory is taken from the GPU's ledger as long as a
// handle or a mapping refers to it.
#include "cuda/libcuda/entry.hpp"
#include "rank/device_memory.hpp"

#include <map>
#include <memory>
#include <mutex>

using namespace phantora::libcuda;
namespace rank = phantora::rank;

namespace {

constexpr std::size_t granularity = std::size_t{2} << 20;  // cuMemGetAllocationGranularity, H200

/// Physical memory: charged while it lives.
class Block {
 public:
  /// nullptr if the GPU has not that much left.
  static std::shared_ptr<Block> create(int device, std::size_t size) {
    if (!rank::reserve_memory(device, size)) return nullptr;
    return std::shared_ptr<Block>{new Block{device, size}};
  }
  ~Block() { rank::release_memory(device, size); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  const int device;
  const std::size_t size;

 private:
  Block(int d, std::size_t s) : device{d}, size{s} {}
};

struct Mapping {
  std::size_t size = 0;
  std::shared_ptr<Block> block{};
};

struct VirtualMemory {
  std::mutex mutex{};
  CUmemGenericAllocationHandle next_handle = 1;
  std::map<CUmemGenericAllocationHandle, std::shared_ptr<Block>> handles{};
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
    auto block = Block::create(device, size);
    if (!block) return CUDA_ERROR_OUT_OF_MEMORY;
    const std::scoped_lock lock{state().mutex};
    *handle = state().next_handle++;
    state().handles[*handle] = std::move(block);
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return entry(Api::free, [&] {
    const std::scoped_lock lock{state().mutex};
    return state().handles.erase(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

PHANTORA_EXPORT CUresult cuMemMap(CUdeviceptr address, std::size_t size, std::size_t offset,
                                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  return entry(Api::malloc, [&] {
    if (size == 0 || !aligned(size) || !aligned(address) || offset != 0 || flags != 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const std::scoped_lock lock{state().mutex};
    const auto block = state().handles.find(handle);
    if (block == state().handles.end() || size > block->second->size) {
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
    state().mappings[address] = {size, block->second};
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
    mappings.erase(first, last);
    rank::forget(pointer(address), size);
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
    return CUDA_SUCCESS;  // every GPU of the host may
  });
}

PHANTORA_EXPORT CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                                        CUdeviceptr address) {
  return entry(Api::get_device, [&] {
    if (!flags || !location || device_of(*location) < 0) return CUDA_ERROR_INVALID_VALUE;
    const std::scoped_lock lock{state().mutex};
    if (!mapped(address, 1)) return CUDA_ERROR_INVALID_VALUE;
    *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
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
    *handle = state().next_handle++;
    state().handles[*handle] = next->second.block;
    return CUDA_SUCCESS;
  });
}
