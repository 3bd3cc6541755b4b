// Memory pools by the driver's functions, which share the runtime's pools.
#include "expect.hpp"

#include <cstdint>

namespace {

constexpr std::size_t MiB = std::size_t{1} << 20;

std::uint64_t bytes(CUmemoryPool pool, CUmemPool_attribute attribute) {
  std::uint64_t value = 0;
  WORKS(cuMemPoolGetAttribute(pool, attribute, &value));
  return value;
}

/// What one interface sets the other reads.
void shared_with_the_runtime() {
  CUmemoryPool pool = nullptr;
  cudaMemPool_t same = nullptr;
  WORKS(cuDeviceGetDefaultMemPool(&pool, 1));
  WORKS(cudaDeviceGetDefaultMemPool(&same, 1));
  EXPECT(pool == reinterpret_cast<CUmemoryPool>(same));
  std::uint64_t threshold = 5 * MiB;
  WORKS(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  std::uint64_t read = 0;
  WORKS(cudaMemPoolGetAttribute(same, cudaMemPoolAttrReleaseThreshold, &read));
  EXPECT(read == threshold);
  int flag = 0;
  WORKS(cudaMemPoolSetAttribute(same, cudaMemPoolReuseAllowOpportunistic, &flag));
  flag = 1;
  WORKS(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &flag));
  EXPECT(flag == 0);
  EXPECT_STATUS(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(pool));
}

/// What is allocated from a pool of one's own is counted there, and no more than its most fits.
void allocations() {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  properties.maxSize = 100 * MiB;
  CUmemoryPool pool = nullptr, now = nullptr;
  WORKS(cuMemPoolCreate(&pool, &properties));
  CUdeviceptr memory = 0, more = 0;
  WORKS(cuMemAllocFromPoolAsync(&memory, 80 * MiB, pool, nullptr));
  EXPECT_STATUS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&more, 80 * MiB, pool, nullptr));
  EXPECT(bytes(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 80 * MiB);
  EXPECT(bytes(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 96 * MiB);  // pieces of 32 MiB
  WORKS(cuMemFreeAsync(memory, nullptr));
  WORKS(cuStreamSynchronize(nullptr));
  WORKS(cuMemPoolTrimTo(pool, 0));
  EXPECT(bytes(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
  EXPECT(bytes(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 80 * MiB);
  std::uint64_t high = 1;
  EXPECT_STATUS(CUDA_ERROR_INVALID_VALUE,
                cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &high));
  high = 0;
  WORKS(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &high));
  EXPECT(bytes(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 0);

  WORKS(cuDeviceSetMemPool(0, pool));
  EXPECT_STATUS(CUDA_ERROR_INVALID_VALUE, cuDeviceSetMemPool(1, pool));
  WORKS(cuDeviceGetMemPool(&now, 0));
  EXPECT(now == pool);
  WORKS(cuMemAllocAsync(&memory, 10 * MiB, nullptr));
  EXPECT(bytes(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 10 * MiB);
  WORKS(cuMemFreeAsync(memory, nullptr));
  WORKS(cuStreamSynchronize(nullptr));
  WORKS(cuMemPoolDestroy(pool));
  WORKS(cuDeviceGetMemPool(&now, 0));
  EXPECT(now != pool);
}

/// A pool is its own GPU's until others get access.
void access() {
  CUmemoryPool pool = nullptr;
  WORKS(cuDeviceGetDefaultMemPool(&pool, 0));
  CUmemLocation own{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, other{CU_MEM_LOCATION_TYPE_DEVICE, {1}};
  const auto flags_at = [&](CUmemLocation& location) {
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_MAX;
    WORKS(cuMemPoolGetAccess(&flags, pool, &location));
    return flags;
  };
  EXPECT(flags_at(own) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT(flags_at(other) == CU_MEM_ACCESS_FLAGS_PROT_NONE);
  CUmemAccessDesc wanted{other, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  WORKS(cuMemPoolSetAccess(pool, &wanted, 1));
  EXPECT(flags_at(other) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  wanted.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  WORKS(cuMemPoolSetAccess(pool, &wanted, 1));
  EXPECT(flags_at(other) == CU_MEM_ACCESS_FLAGS_PROT_NONE);
  wanted.location = own;
  EXPECT_STATUS(CUDA_ERROR_INVALID_DEVICE, cuMemPoolSetAccess(pool, &wanted, 1));
}

void refusals() {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {7}};
  CUmemoryPool pool = nullptr;
  EXPECT_STATUS(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(&pool, &properties));
  WORKS(cuDeviceGetDefaultMemPool(&pool, 0));
  std::uint64_t value = 0;
  EXPECT_STATUS(CUDA_ERROR_INVALID_VALUE,
                cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(15), &value));
}

}  // namespace

int main() {
  WORKS(cudaFree(nullptr));
  shared_with_the_runtime();
  allocations();
  access();
  refusals();
  return failures != 0;
}
