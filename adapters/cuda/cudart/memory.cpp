#include "cuda/cudart/entry.hpp"
#include "cuda/cudart/structures.hpp"
#include "cuda/driver/graph_work.hpp"
#include "cuda/driver/host_memory.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/runtime/capture.hpp"
#include "rank/runtime/timeline.hpp"

#include <algorithm>
#include <cstdint>

using namespace phantora::cudart;
namespace driver = phantora::driver;
namespace rank = phantora::rank;

namespace {

cudaError_t allocate_host(void** address, std::size_t bytes, driver::HostMemoryKind kind,
                          unsigned flags, const char* name = __builtin_FUNCTION()) {
  return device_entry({Api::malloc, name}, [&] {
    if (!address) return cudaErrorInvalidValue;
    *address = nullptr;
    if (bytes == 0) return cudaSuccess;
    rank::refuse_if_unsafe();
    *address = driver::allocate_host(bytes, kind, flags);
    return *address ? cudaSuccess : cudaErrorMemoryAllocation;
  });
}

}  // namespace

PHANTORA_EXPORT cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  return device_entry(Api::malloc, [&] {
    if (!address) return cudaErrorInvalidValue;
    *address = nullptr;
    if (bytes == 0) return cudaSuccess;
    rank::refuse_if_unsafe();
    *address = rank::allocate(rank::current_device(), bytes);
    return *address ? cudaSuccess : cudaErrorMemoryAllocation;
  });
}

PHANTORA_EXPORT cudaError_t cudaMallocPitch(void** address, std::size_t* pitch, std::size_t width,
                                            std::size_t height) {
  constexpr std::size_t alignment = 512;  // cudaDeviceProp::textureAlignment
  *pitch = (width + alignment - 1) / alignment * alignment;
  return cudaMalloc(address, *pitch * height);
}

PHANTORA_EXPORT cudaError_t cudaFree(void* address) {
  return device_entry(Api::free, [&] {
    rank::refuse_if_unsafe();
    if (!address) return cudaSuccess;
    const auto allocation = rank::allocation_of(address);
    if (!allocation) {
      return driver::free_host(address) ? cudaSuccess : cudaErrorInvalidValue;  // managed memory
    }
    // The driver waits for all work of the device before it unmaps memory.
    rank::synchronize_device(allocation->device);
    if (driver::free_graph_memory(address)) return cudaSuccess;
    return rank::deallocate(address) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

PHANTORA_EXPORT cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return device_entry(Api::mem_get_info, [&] {
    const rank::MemoryInfo info = rank::memory_info(rank::current_device());
    *free = info.free;
    *total = info.total;
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaHostAlloc(void** address, std::size_t bytes, unsigned flags) {
  return allocate_host(address, bytes, driver::HostMemoryKind::allocated, flags);
}

PHANTORA_EXPORT cudaError_t cudaMallocHost(void** address, std::size_t bytes) {
  return allocate_host(address, bytes, driver::HostMemoryKind::allocated, cudaHostAllocDefault);
}

PHANTORA_EXPORT cudaError_t cudaMallocManaged(void** address, std::size_t bytes, unsigned flags) {
  return allocate_host(address, bytes, driver::HostMemoryKind::managed, flags);
}

PHANTORA_EXPORT cudaError_t cudaFreeHost(void* address) {
  return device_entry(Api::free, [&] {
    rank::refuse_if_unsafe();
    if (!address) return cudaSuccess;
    rank::synchronize_device(rank::current_device());
    return driver::free_host(address) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

PHANTORA_EXPORT cudaError_t cudaHostRegister(void* address, std::size_t bytes, unsigned flags) {
  return device_entry(Api::malloc, [&] {
    if (!address || !bytes) return cudaErrorInvalidValue;
    return driver::register_host(address, bytes, flags) ? cudaSuccess
                                                        : cudaErrorHostMemoryAlreadyRegistered;
  });
}

PHANTORA_EXPORT cudaError_t cudaHostUnregister(void* address) {
  return device_entry(Api::free, [&] {
    return driver::unregister_host(address) ? cudaSuccess : cudaErrorHostMemoryNotRegistered;
  });
}

PHANTORA_EXPORT cudaError_t cudaHostGetDevicePointer(void** device_address, void* address,
                                                     unsigned) {
  return device_entry(Api::pointer_attributes, [&] {
    if (!driver::pinned(address)) return cudaErrorInvalidValue;
    *device_address = address;
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaHostGetFlags(unsigned* flags, void* address) {
  return device_entry(Api::pointer_attributes, [&] {
    const auto memory = driver::host_memory_of(address);
    if (!memory) return cudaErrorInvalidValue;
    *flags = memory->flags | cudaHostAllocMapped;
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                                     const void* address) {
  return device_entry(Api::pointer_attributes, [&] {
    if (!attributes) return cudaErrorInvalidValue;
    cudaPointerAttributes told{};
    void* const pointer = const_cast<void*>(address);
    if (const auto allocation = rank::allocation_of(address); allocation && allocation->reachable) {
      told.type = cudaMemoryTypeDevice;
      told.device = allocation->device;
      told.devicePointer = pointer;
    } else if (const auto memory = driver::host_memory_of(address)) {
      const bool managed = memory->kind == driver::HostMemoryKind::managed;
      told.type = managed ? cudaMemoryTypeManaged : cudaMemoryTypeHost;
      told.device = memory->device;
      told.devicePointer = pointer;
      told.hostPointer = pointer;
    } else {
      told.type = cudaMemoryTypeUnregistered;
      told.device = cudaInvalidDeviceId;
      told.hostPointer = pointer;
    }
    give(attributes, told);
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaMemAdvise(const void* address, std::size_t bytes,
                                          cudaMemoryAdvise advice, cudaMemLocation location) {
  return device_entry(Api::pointer_attributes, [&] {
    if (!address || bytes == 0) return cudaErrorInvalidValue;
    const bool host = location.type != cudaMemLocationTypeDevice;
    if (!host && !valid_device(location.id)) return cudaErrorInvalidDevice;
    const std::uint64_t who = std::uint64_t{1} << (host ? 63 : location.id);
    // A hint: of memory that is not managed, to which it may be given too, nothing is kept.
    driver::advise(address, [&](driver::Advice& given) {
      switch (advice) {
        case cudaMemAdviseSetReadMostly:
        case cudaMemAdviseUnsetReadMostly:
          given.read_mostly = advice == cudaMemAdviseSetReadMostly;
          break;
        case cudaMemAdviseSetPreferredLocation:
          given.preferred = host ? cudaCpuDeviceId : location.id;
          break;
        case cudaMemAdviseUnsetPreferredLocation:
          given.preferred = cudaInvalidDeviceId;
          break;
        case cudaMemAdviseSetAccessedBy:
          given.accessed_by |= who;
          break;
        case cudaMemAdviseUnsetAccessedBy:
          given.accessed_by &= ~who;
          break;
      }
    });
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaMemRangeGetAttribute(void* data, std::size_t size,
                                                     cudaMemRangeAttribute attribute,
                                                     const void* address, std::size_t bytes) {
  return device_entry(Api::pointer_attributes, [&] {
    const auto memory = driver::host_memory_of(address);
    if (!data || size < sizeof(int) || bytes == 0 || !memory ||
        memory->kind != driver::HostMemoryKind::managed) {
      return cudaErrorInvalidValue;
    }
    auto* const numbers = static_cast<int*>(data);
    const driver::Advice& advice = memory->advice;
    switch (attribute) {
      case cudaMemRangeAttributeReadMostly:
        *numbers = advice.read_mostly;
        return cudaSuccess;
      case cudaMemRangeAttributePreferredLocation:
        *numbers = advice.preferred;
        return cudaSuccess;
      case cudaMemRangeAttributeLastPrefetchLocation:
        *numbers = advice.prefetched;
        return cudaSuccess;
      case cudaMemRangeAttributeAccessedBy: {
        // As many as there is room for; the others are no devices.
        std::size_t written = 0;
        const std::size_t room = size / sizeof(int);
        for (int device = 0; device < 64 && written < room; ++device) {
          if ((advice.accessed_by >> device & 1) == 0) continue;
          numbers[written++] = device == 63 ? cudaCpuDeviceId : device;
        }
        std::fill(numbers + written, numbers + room, cudaInvalidDeviceId);
        return cudaSuccess;
      }
      default:
        rank::unsupported("cudaMemRangeGetAttribute of a location's type or id");
        return cudaErrorNotSupported;
    }
  });
}

PHANTORA_EXPORT cudaError_t cudaMemRangeGetAttributes(void** data, std::size_t* sizes,
                                                      cudaMemRangeAttribute* attributes,
                                                      std::size_t count, const void* address,
                                                      std::size_t bytes) {
  if (!data || !sizes || !attributes) return remember(cudaErrorInvalidValue);
  for (std::size_t i = 0; i < count; ++i) {
    const cudaError_t status =
        cudaMemRangeGetAttribute(data[i], sizes[i], attributes[i], address, bytes);
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}
