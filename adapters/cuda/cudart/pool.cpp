#include "cuda/driver/pool.hpp"

#include "cuda/cudart/entry.hpp"

using namespace phantora::cudart;
namespace driver = phantora::driver;
namespace rank = phantora::rank;
using driver::Pool;

namespace {

Pool& pool_of(cudaMemPool_t handle) { return *reinterpret_cast<Pool*>(handle); }
cudaMemPool_t handle_of(Pool& pool) { return reinterpret_cast<cudaMemPool_t>(&pool); }

/// Device of a location; -1 if it is none of this host's GPUs.
int device_of(const cudaMemLocation* location) {
  if (!location || location->type != cudaMemLocationTypeDevice) return -1;
  return valid_device(location->id) ? location->id : -1;
}

}  // namespace

PHANTORA_EXPORT cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return entry(Api::get_device, [&] {
    if (!valid_device(device)) return cudaErrorInvalidDevice;
    *pool = handle_of(driver::default_pool(device));
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return entry(Api::get_device, [&] {
    if (!valid_device(device)) return cudaErrorInvalidDevice;
    *pool = handle_of(driver::current_pool(device));
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return entry(Api::get_device, [&] {
    if (!valid_device(device)) return cudaErrorInvalidDevice;
    if (!pool || pool_of(pool).device != device) return cudaErrorInvalidValue;
    driver::set_current_pool(device, pool_of(pool));
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t* pool, cudaMemLocation* location,
                                                     cudaMemAllocationType) {
  return entry(Api::get_device, [&] {
    const int device = device_of(location);
    if (device < 0) return cudaErrorNotSupported;
    *pool = handle_of(driver::default_pool(device));
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* props) {
  return device_entry(Api::malloc, [&] {
    if (!pool || !props) return cudaErrorInvalidValue;
    if (props->handleTypes != cudaMemHandleTypeNone) return cudaErrorNotSupported;
    const int device = device_of(&props->location);
    if (device < 0) {
      // An H200's answer (test/native/h200/pools.txt) where the documentation has
      // cudaErrorInvalidDevice.
      return props->location.type == cudaMemLocationTypeDevice ? cudaErrorInvalidValue
                                                               : cudaErrorNotSupported;
    }
    *pool = handle_of(driver::create_pool(device, props->maxSize));
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return entry(Api::free, [&] {
    if (!pool || &pool_of(pool) == &driver::default_pool(pool_of(pool).device)) {
      return cudaErrorInvalidValue;
    }
    driver::destroy_pool(pool_of(pool));
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t bytes) {
  return entry(Api::free, [&] {
    if (!pool) return cudaErrorInvalidValue;
    driver::trim(pool_of(pool), bytes);
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute,
                                                    void* value) {
  return entry(Api::get_device, [&] {
    if (!pool || !value) return cudaErrorInvalidValue;
    return driver::read_attribute(pool_of(pool), attribute, value) ? cudaSuccess
                                                                   : cudaErrorInvalidValue;
  });
}

PHANTORA_EXPORT cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute,
                                                    void* value) {
  return entry(Api::get_device, [&] {
    if (!pool || !value) return cudaErrorInvalidValue;
    return driver::set_attribute(pool_of(pool), attribute, value) ? cudaSuccess
                                                                  : cudaErrorInvalidValue;
  });
}

PHANTORA_EXPORT cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* list,
                                                 std::size_t count) {
  return entry(Api::get_device, [&] {
    if (!pool) return cudaErrorInvalidValue;
    for (std::size_t i = 0; i < count; ++i) {
      const int device = device_of(&list[i].location);
      if (device < 0 || !driver::set_access(pool_of(pool), device, list[i].flags)) {
        return cudaErrorInvalidDevice;
      }
    }
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool,
                                                 cudaMemLocation* location) {
  return entry(Api::get_device, [&] {
    if (!pool || device_of(location) < 0) return cudaErrorInvalidValue;
    *flags = static_cast<cudaMemAccessFlags>(driver::access_of(pool_of(pool), device_of(location)));
    return cudaSuccess;
  });
}
