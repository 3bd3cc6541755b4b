#include "cuda/driver/pool.hpp"

#include "cuda/libcuda/entry.hpp"

using namespace phantora::libcuda;
namespace driver = phantora::driver;
using driver::Pool;

namespace {

Pool& pool_of(CUmemoryPool handle) { return *reinterpret_cast<Pool*>(handle); }
CUmemoryPool handle_of(Pool& pool) { return reinterpret_cast<CUmemoryPool>(&pool); }

CUresult valid(bool valid) { return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }

/// Device of a location; -1 if it is none of this host's GPUs.
int device_of(const CUmemLocation* location) {
  if (!location || location->type != CU_MEM_LOCATION_TYPE_DEVICE) return -1;
  return valid_device(location->id) ? location->id : -1;
}

}  // namespace

PHANTORA_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  return entry(Api::get_device, [&] {
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *pool = handle_of(driver::default_pool(device));
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
  return entry(Api::get_device, [&] {
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *pool = handle_of(driver::current_pool(device));
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  return entry(Api::get_device, [&] {
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (!pool || pool_of(pool).device != device) return CUDA_ERROR_INVALID_VALUE;
    driver::set_current_pool(device, pool_of(pool));
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuMemGetDefaultMemPool(CUmemoryPool* pool, CUmemLocation* location,
                                                CUmemAllocationType) {
  return entry(Api::get_device, [&] {
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    const int device = device_of(location);
    if (device < 0) return CUDA_ERROR_NOT_SUPPORTED;
    *pool = handle_of(driver::default_pool(device));
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* props) {
  return device_entry(Api::malloc, [&] {
    if (!pool || !props) return CUDA_ERROR_INVALID_VALUE;
    if (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
    const int device = device_of(&props->location);
    if (device < 0) {
      return props->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? CUDA_ERROR_INVALID_VALUE
                                                                 : CUDA_ERROR_NOT_SUPPORTED;
    }
    *pool = handle_of(driver::create_pool(device, props->maxSize));
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  return entry(Api::free, [&] {
    if (!pool || &pool_of(pool) == &driver::default_pool(pool_of(pool).device)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    driver::destroy_pool(pool_of(pool));
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, std::size_t bytes) {
  return entry(Api::free, [&] {
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    driver::trim(pool_of(pool), bytes);
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute,
                                               void* value) {
  return entry(Api::get_device, [&] {
    return valid(pool && value && driver::read_attribute(pool_of(pool), attribute, value));
  });
}

PHANTORA_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute,
                                               void* value) {
  return entry(Api::get_device, [&] {
    return valid(pool && value && driver::set_attribute(pool_of(pool), attribute, value));
  });
}

PHANTORA_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* list,
                                            std::size_t count) {
  return entry(Api::get_device, [&] {
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < count; ++i) {
      const int device = device_of(&list[i].location);
      if (device < 0 || !driver::set_access(pool_of(pool), device, list[i].flags)) {
        return CUDA_ERROR_INVALID_DEVICE;
      }
    }
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool pool,
                                            CUmemLocation* location) {
  return entry(Api::get_device, [&] {
    if (!flags || !pool || device_of(location) < 0) return CUDA_ERROR_INVALID_VALUE;
    *flags = static_cast<CUmemAccess_flags>(driver::access_of(pool_of(pool), device_of(location)));
    return CUDA_SUCCESS;
  });
}
