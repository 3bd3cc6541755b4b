#include "cuda/cudart/stream_argument.hpp"
#include "cuda/driver/pool.hpp"

using namespace phantora::cudart;
namespace driver = phantora::driver;
namespace rank = phantora::rank;

namespace {

cudaError_t allocate(void** address, std::size_t bytes, driver::Pool& pool, cudaStream_t stream) {
  if (!address) return cudaErrorInvalidValue;
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  *address = driver::allocate_in_order(pool, bytes, stream_of(stream));
  return *address ? cudaSuccess : cudaErrorMemoryAllocation;
}

}  // namespace

PHANTORA_EXPORT cudaError_t cudaMallocAsync(void** address, std::size_t bytes,
                                            cudaStream_t stream) {
  return device_entry(Api::malloc_async, [&] {
    return allocate(address, bytes, driver::current_pool(stream_of(stream).device), stream);
  });
}

PHANTORA_EXPORT cudaError_t cudaMallocFromPoolAsync(void** address, std::size_t bytes,
                                                    cudaMemPool_t pool, cudaStream_t stream) {
  return device_entry(Api::malloc_async, [&] {
    if (!pool) return cudaErrorInvalidValue;
    return allocate(address, bytes, *reinterpret_cast<driver::Pool*>(pool), stream);
  });
}

PHANTORA_EXPORT cudaError_t cudaFreeAsync(void* address, cudaStream_t stream) {
  return device_entry(Api::free_async, [&] {
    if (!address) return cudaSuccess;
    return driver::free_in_order(address, stream_of(stream)) ? cudaSuccess : cudaErrorInvalidValue;
  });
}
