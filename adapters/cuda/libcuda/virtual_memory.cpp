// cuMemCreate and its like; processes of a host show each other their blocks by file descriptors.
#include "cuda/driver/virtual_memory.hpp"

#include "cuda/driver/driver_state.hpp"
#include "cuda/libcuda/entry.hpp"
#include "rank/memory/device_memory.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

#include <sys/mman.h>
#include <unistd.h>

using namespace phantora::libcuda;
namespace driver = phantora::driver;
namespace rank = phantora::rank;

namespace {

driver::VirtualMemory& state() { return driver::driver_state().virtual_memory; }

bool aligned(unsigned long long value) { return value % driver::VirtualMemory::granularity == 0; }

CUresult valid(bool valid) { return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }

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

}  // namespace

PHANTORA_EXPORT CUresult cuMemGetAllocationGranularity(std::size_t* bytes,
                                                       const CUmemAllocationProp* prop,
                                                       CUmemAllocationGranularity_flags) {
  return entry(Api::get_device, [&] {
    if (!bytes || !prop) return CUDA_ERROR_INVALID_VALUE;
    *bytes = driver::VirtualMemory::granularity;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuMemAddressReserve(CUdeviceptr* address, std::size_t size,
                                             std::size_t alignment, CUdeviceptr,
                                             unsigned long long flags) {
  return device_entry(Api::malloc, [&] {
    if (!address || size == 0 || !aligned(size) || flags != 0 ||
        (alignment != 0 && !std::has_single_bit(alignment))) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    void* const range = rank::reserve_addresses(rank::current_device(), size, alignment);
    if (!range) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = phantora::libcuda::address(range);
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuMemAddressFree(CUdeviceptr address, std::size_t) {
  return entry(Api::free, [&] { return valid(state().free_addresses(address)); });
}

PHANTORA_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t size,
                                     const CUmemAllocationProp* prop, unsigned long long flags) {
  return device_entry(Api::malloc, [&] {
    if (!handle || !prop || size == 0 || !aligned(size) || flags != 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const int device = device_of(prop->location);
    if (device < 0) return CUDA_ERROR_NOT_SUPPORTED;  // memory of the host
    const auto made = state().create(device, size, prop->requestedHandleTypes);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    *handle = *made;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return entry(Api::free, [&] { return valid(state().release(handle)); });
}

PHANTORA_EXPORT CUresult cuMemMap(CUdeviceptr address, std::size_t size, std::size_t offset,
                                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  return entry(Api::malloc, [&] {
    if (size == 0 || !aligned(size) || !aligned(address) || offset != 0 || flags != 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return valid(state().map(address, size, handle));
  });
}

PHANTORA_EXPORT CUresult cuMemUnmap(CUdeviceptr address, std::size_t size) {
  return entry(Api::free, [&] { return valid(state().unmap(address, size)); });
}

PHANTORA_EXPORT CUresult cuMemSetAccess(CUdeviceptr address, std::size_t size,
                                        const CUmemAccessDesc* list, std::size_t count) {
  return entry(Api::malloc, [&] {
    if (!list || count == 0) return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < count; ++i) {
      if (device_of(list[i].location) < 0) return CUDA_ERROR_INVALID_DEVICE;
    }
    return valid(state().grant(address, size));
  });
}

PHANTORA_EXPORT CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                                        CUdeviceptr address) {
  return entry(Api::get_device, [&] {
    if (!flags || !location || device_of(*location) < 0) return CUDA_ERROR_INVALID_VALUE;
    const auto reachable = state().reachable(address);
    if (!reachable) return CUDA_ERROR_INVALID_VALUE;
    *flags = *reachable ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle,
                                                     void* address) {
  return entry(Api::get_device, [&] {
    if (!handle) return CUDA_ERROR_INVALID_VALUE;
    const auto retained = state().retain(phantora::libcuda::address(address));
    if (!retained) return CUDA_ERROR_INVALID_VALUE;
    *handle = *retained;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(
    CUmemAllocationProp* prop, CUmemGenericAllocationHandle handle) {
  return entry(Api::get_device, [&] {
    const auto block = state().find(handle);
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
    const auto block = state().find(handle);
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
    *handle = state().import(rank::visible_device(told.physical_device), told.size);
    return CUDA_SUCCESS;
  });
}
