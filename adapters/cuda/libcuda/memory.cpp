#include "cuda/driver/graph_work.hpp"
#include "cuda/driver/host_memory.hpp"
#include "cuda/libcuda/entry.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/runtime/capture.hpp"
#include "rank/runtime/timeline.hpp"

using namespace phantora::libcuda;
namespace driver = phantora::driver;
namespace rank = phantora::rank;

namespace {

CUresult allocate_host(void** memory, std::size_t bytes, driver::HostMemoryKind kind,
                       unsigned flags, const char* name = __builtin_FUNCTION()) {
  return device_entry({Api::malloc, name}, [&] {
    if (!memory || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    rank::refuse_if_unsafe();
    *memory = driver::allocate_host(bytes, kind, flags);
    return *memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  });
}

/// Writes one pointer attribute; `data` points to what cuPointerGetAttribute documents for it.
CUresult get_attribute(void* data, CUpointer_attribute attribute, CUdeviceptr where) {
  const auto allocation = rank::allocation_of(pointer(where));
  const auto memory = driver::host_memory_of(pointer(where));
  if (!allocation && !memory) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return cuDevicePrimaryCtxRetain(static_cast<CUcontext*>(data),
                                      allocation ? allocation->device : memory->device);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(data) = allocation ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(data) = where;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!memory) return CUDA_ERROR_INVALID_VALUE;
      *static_cast<void**>(data) = pointer(where);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(data) = memory && memory->kind == driver::HostMemoryKind::managed;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = allocation ? allocation->device : memory->device;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<void**>(data) = allocation ? allocation->base : memory->base;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<std::size_t*>(data) = allocation ? allocation->size : memory->size;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      *static_cast<unsigned*>(data) = 1;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<unsigned long long*>(data) =
          address(allocation ? allocation->base : memory->base);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      *static_cast<unsigned*>(data) = allocation && !allocation->reserved ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      *static_cast<unsigned*>(data) = 0;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace

PHANTORA_EXPORT CUresult cuMemGetInfo(std::size_t* free, std::size_t* total) {  // _v2
  return device_entry(Api::mem_get_info, [&] {
    const rank::MemoryInfo info = rank::memory_info(rank::current_device());
    *free = info.free;
    *total = info.total;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuMemAlloc(CUdeviceptr* memory, std::size_t bytes) {  // _v2
  return device_entry(Api::malloc, [&] {
    if (!memory || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    rank::refuse_if_unsafe();
    *memory = address(rank::allocate(rank::current_device(), bytes));
    return *memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  });
}

PHANTORA_EXPORT CUresult cuMemAllocPitch(CUdeviceptr* memory, std::size_t* pitch, std::size_t width,
                                         std::size_t height, unsigned) {  // _v2
  constexpr std::size_t alignment = 512;  // CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT
  *pitch = (width + alignment - 1) / alignment * alignment;
  return cuMemAlloc(memory, *pitch * height);
}

PHANTORA_EXPORT CUresult cuMemFree(CUdeviceptr memory) {  // _v2
  return device_entry(Api::free, [&] {
    rank::refuse_if_unsafe();
    if (!memory) return CUDA_SUCCESS;
    const auto allocation = rank::allocation_of(pointer(memory));
    if (!allocation) {
      return driver::free_host(pointer(memory)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    rank::synchronize_device(allocation->device);
    if (driver::free_graph_memory(pointer(memory))) return CUDA_SUCCESS;
    return rank::deallocate(pointer(memory)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

PHANTORA_EXPORT CUresult cuMemGetAddressRange(CUdeviceptr* base, std::size_t* size,
                                              CUdeviceptr where) {  // _v2
  return device_entry(Api::pointer_attributes, [&] {
    const auto allocation = rank::allocation_of(pointer(where));
    if (!allocation) return CUDA_ERROR_NOT_FOUND;
    if (base) *base = address(allocation->base);
    if (size) *size = allocation->size;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuMemHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  return allocate_host(memory, bytes, driver::HostMemoryKind::allocated, flags);
}

PHANTORA_EXPORT CUresult cuMemAllocHost(void** memory, std::size_t bytes) {  // _v2
  return allocate_host(memory, bytes, driver::HostMemoryKind::allocated, 0);
}

PHANTORA_EXPORT CUresult cuMemAllocManaged(CUdeviceptr* memory, std::size_t bytes, unsigned flags) {
  return allocate_host(reinterpret_cast<void**>(memory), bytes, driver::HostMemoryKind::managed,
                       flags);
}

PHANTORA_EXPORT CUresult cuMemFreeHost(void* memory) {
  return device_entry(Api::free, [&] {
    rank::refuse_if_unsafe();
    return driver::free_host(memory) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

PHANTORA_EXPORT CUresult cuMemHostRegister(void* memory, std::size_t bytes,
                                           unsigned flags) {  // _v2
  return device_entry(Api::malloc, [&] {
    if (!memory || !bytes) return CUDA_ERROR_INVALID_VALUE;
    return driver::register_host(memory, bytes, flags) ? CUDA_SUCCESS
                                                       : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  });
}

PHANTORA_EXPORT CUresult cuMemHostUnregister(void* memory) {
  return device_entry(Api::free, [&] {
    return driver::unregister_host(memory) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  });
}

PHANTORA_EXPORT CUresult cuMemHostGetDevicePointer(CUdeviceptr* device, void* memory,
                                                   unsigned) {  // _v2
  return device_entry(Api::pointer_attributes, [&] {
    if (!driver::pinned(memory)) return CUDA_ERROR_INVALID_VALUE;
    *device = address(memory);
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute,
                                               CUdeviceptr where) {
  return device_entry(Api::pointer_attributes,
                      [&] { return get_attribute(data, attribute, where); });
}

PHANTORA_EXPORT CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes,
                                                void** data, CUdeviceptr where) {
  return device_entry(Api::pointer_attributes, [&] {
    for (unsigned i = 0; i < count; ++i) {
      // Unlike the single question, this one gives zeros for memory that CUDA does not know.
      if (get_attribute(data[i], attributes[i], where) != CUDA_SUCCESS) {
        *static_cast<unsigned*>(data[i]) = 0;
      }
    }
    return CUDA_SUCCESS;
  });
}
