// Memory pools, by the runtime and by the driver. What is allocated from them and freed in the
// order of a stream differs between the two: cudart/pool_stream.cpp and libcuda/copy.cpp.
#include "cuda/both_apis.hpp"
#include "cuda/driver/pool.hpp"

using namespace phantora::both_apis;
namespace driver = phantora::driver;
namespace rank = phantora::rank;
using driver::Pool;

namespace {

#ifdef PHANTORA_DRIVER_API
using PoolHandle = CUmemoryPool;
using PoolProperties = CUmemPoolProps;
using PoolAttribute = CUmemPool_attribute;
using AccessFlags = CUmemAccess_flags;
using AccessDescription = CUmemAccessDesc;
using Location = CUmemLocation;
using AllocationType = CUmemAllocationType;
constexpr auto of_a_device = CU_MEM_LOCATION_TYPE_DEVICE;
constexpr auto no_handles = CU_MEM_HANDLE_TYPE_NONE;
#else
using PoolHandle = cudaMemPool_t;
using PoolProperties = cudaMemPoolProps;
using PoolAttribute = cudaMemPoolAttr;
using AccessFlags = cudaMemAccessFlags;
using AccessDescription = cudaMemAccessDesc;
using Location = cudaMemLocation;
using AllocationType = cudaMemAllocationType;
constexpr auto of_a_device = cudaMemLocationTypeDevice;
constexpr auto no_handles = cudaMemHandleTypeNone;
#endif

Pool& pool_of(PoolHandle handle) {
  expect(handle != nullptr);
  return *reinterpret_cast<Pool*>(handle);
}

void give(PoolHandle* handle, Pool& pool) {
  expect(handle != nullptr);
  *handle = reinterpret_cast<PoolHandle>(&pool);
}

void expect_device(int device) {
  if (!valid_device(device)) refuse(rank::Refusal::invalid_device);
}

/// Device of a location; -1 if it is none of this host's GPUs.
int device_of(const Location* location) {
  if (!location || location->type != of_a_device) return -1;
  return valid_device(location->id) ? location->id : -1;
}

/// A call on pools, charged as `api`.
/// @param name  the entry point's, which a profiler is told
template <class Body>
Status call(Api api, Body&& body, const char* name = __builtin_FUNCTION()) noexcept {
  return entry({api, name}, [&]() -> Status {
    body();
    return success;
  });
}

}  // namespace

PHANTORA_EXPORT Status PHANTORA_API(DeviceGetDefaultMemPool)(PoolHandle* pool, int device) {
  return call(Api::get_device, [&] {
    expect_device(device);
    give(pool, driver::default_pool(device));
  });
}

PHANTORA_EXPORT Status PHANTORA_API(DeviceGetMemPool)(PoolHandle* pool, int device) {
  return call(Api::get_device, [&] {
    expect_device(device);
    give(pool, driver::current_pool(device));
  });
}

PHANTORA_EXPORT Status PHANTORA_API(DeviceSetMemPool)(int device, PoolHandle handle) {
  return call(Api::get_device, [&] {
    expect_device(device);
    Pool& pool = pool_of(handle);
    expect(pool.device == device);
    driver::set_current_pool(device, pool);
  });
}

PHANTORA_EXPORT Status PHANTORA_API(MemGetDefaultMemPool)(PoolHandle* pool, Location* location,
                                                          AllocationType) {
  return call(Api::get_device, [&] {
    const int device = device_of(location);
    if (device < 0) refuse(rank::Refusal::not_supported);
    give(pool, driver::default_pool(device));
  });
}

PHANTORA_EXPORT Status PHANTORA_API(MemPoolCreate)(PoolHandle* pool, const PoolProperties* props) {
  return device_entry(Api::malloc, [&]() -> Status {
    expect(pool != nullptr && props != nullptr);
    if (props->handleTypes != no_handles) refuse(rank::Refusal::not_supported);
    const int device = device_of(&props->location);
    if (device < 0) {
      // An H200's answer (test/native/h200/pools.txt) where the documentation has
      // cudaErrorInvalidDevice.
      refuse(props->location.type == of_a_device ? rank::Refusal::invalid_value
                                                 : rank::Refusal::not_supported);
    }
    give(pool, driver::create_pool(device, props->maxSize));
    return success;
  });
}

PHANTORA_EXPORT Status PHANTORA_API(MemPoolDestroy)(PoolHandle handle) {
  return call(Api::free, [&] {
    Pool& pool = pool_of(handle);
    expect(&pool != &driver::default_pool(pool.device));
    driver::destroy_pool(pool);
  });
}

PHANTORA_EXPORT Status PHANTORA_API(MemPoolTrimTo)(PoolHandle pool, std::size_t bytes) {
  return call(Api::free, [&] { driver::trim(pool_of(pool), bytes); });
}

PHANTORA_EXPORT Status PHANTORA_API(MemPoolGetAttribute)(PoolHandle pool, PoolAttribute attribute,
                                                         void* value) {
  return call(Api::get_device, [&] {
    expect(value != nullptr && driver::read_attribute(pool_of(pool), attribute, value));
  });
}

PHANTORA_EXPORT Status PHANTORA_API(MemPoolSetAttribute)(PoolHandle pool, PoolAttribute attribute,
                                                         void* value) {
  return call(Api::get_device, [&] {
    expect(value != nullptr && driver::set_attribute(pool_of(pool), attribute, value));
  });
}

PHANTORA_EXPORT Status PHANTORA_API(MemPoolSetAccess)(PoolHandle handle,
                                                      const AccessDescription* list,
                                                      std::size_t count) {
  return call(Api::get_device, [&] {
    Pool& pool = pool_of(handle);
    for (std::size_t i = 0; i < count; ++i) {
      const int device = device_of(&list[i].location);
      if (device < 0 || !driver::set_access(pool, device, list[i].flags)) {
        refuse(rank::Refusal::invalid_device);
      }
    }
  });
}

PHANTORA_EXPORT Status PHANTORA_API(MemPoolGetAccess)(AccessFlags* flags, PoolHandle handle,
                                                      Location* location) {
  return call(Api::get_device, [&] {
    const Pool& pool = pool_of(handle);
    const int device = device_of(location);
    expect(flags != nullptr && device >= 0);
    *flags = static_cast<AccessFlags>(driver::access_of(pool, device));
  });
}
