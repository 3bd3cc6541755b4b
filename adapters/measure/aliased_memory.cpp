#include "measure/aliased_memory.hpp"

#include "measure/mirror.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include <cuda.h>

namespace phantora::measure {
namespace {

constexpr std::size_t MiB = std::size_t{1} << 20;
/// What is smaller shares later, and the smallest never. PyTorch takes 2 MiB at once for tensors of
/// up to 1 MiB, 20 MiB for those of up to 10 MiB.
constexpr std::size_t small = 2 * MiB, medium = 20 * MiB;
/// What one handle of the pool holds. A multiple of the 2 MiB in which memory is mapped; an
/// allocation is mapped handle by handle, so that 80 GiB take 2,560 calls.
constexpr std::size_t piece = 32 * MiB;

template <class F>
F* driver(const char* name) {
  return reinterpret_cast<F*>(driver_function(name));
}

class AliasedMemory {
 public:
  /// nullptr unless the program is to have more memory than there is.
  static AliasedMemory* instance() {
    static AliasedMemory* const made = []() -> AliasedMemory* {
      const char* const asked = std::getenv("PHANTORA_MEASURE_MEMORY");
      return asked != nullptr ? new AliasedMemory{std::strtoull(asked, nullptr, 10)} : nullptr;
    }();
    return made;
  }

  /// As the program is to see it.
  struct Info {
    std::size_t free, total;
  };
  Info told() {
    const std::lock_guard lock{mutex_};
    const Info real = of_gpu();
    const std::size_t used = real.total - real.free - pool_.size() * piece + aliased_;
    return {capacity_ - std::min(used, capacity_), capacity_};
  }

  /// Whether an allocation of so many bytes has to share memory.
  bool has_to_share(std::size_t bytes) {
    if (bytes <= small) return false;
    const std::lock_guard lock{mutex_};
    if (pool_.empty() && !make_pool()) return false;
    const Info real = of_gpu();
    // What is smaller has to find room later, too.
    return real.free < bytes + real.total / (bytes <= medium ? 64 : 16);
  }

  /// nullptr if it cannot be had.
  void* allocate(std::size_t bytes) {
    const std::lock_guard lock{mutex_};
    const std::size_t whole = (bytes + piece - 1) / piece * piece;
    CUdeviceptr base = 0;
    if (reserve_(&base, whole, 0, 0, 0) != CUDA_SUCCESS) return nullptr;
    for (std::size_t at = 0; at < whole; at += piece) {
      if (map_(base + at, piece, 0, pool_[next_++ % pool_.size()], 0) != CUDA_SUCCESS) {
        if (at > 0) unmap_(base, at);
        release_(base, whole);
        return nullptr;
      }
    }
    const CUmemAccessDesc access{.location = location_,
                                 .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    set_access_(base, whole, &access, 1);
    all_[base] = {whole, bytes};
    aliased_ += bytes;
    most_ = std::max(most_, aliased_);
    return reinterpret_cast<void*>(base);
  }
  /// False if it is none of ours.
  bool deallocate(void* address) {
    const std::lock_guard lock{mutex_};
    const auto found = all_.find(reinterpret_cast<CUdeviceptr>(address));
    if (found == all_.end()) return false;
    driver<decltype(cuCtxSynchronize)>("cuCtxSynchronize")();  // as cudaFree does
    unmap_(found->first, found->second.mapped);
    release_(found->first, found->second.mapped);
    aliased_ -= found->second.asked;
    all_.erase(found);
    return true;
  }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  std::optional<DeviceAllocation> allocation_of(const void* address) {
    const std::lock_guard lock{mutex_};
    const auto wanted = reinterpret_cast<CUdeviceptr>(address);
    auto after = all_.upper_bound(wanted);
    if (after == all_.begin() || wanted >= (--after)->first + after->second.asked)
      return std::nullopt;
    return DeviceAllocation{reinterpret_cast<void*>(after->first), after->second.asked};
  }

 private:
  explicit AliasedMemory(std::size_t capacity) : capacity_{capacity} {
    static AliasedMemory* const told = this;
    std::atexit([] {
      if (told->most_ > 0)
        std::fprintf(stderr,
                     "phantora: up to %.1f GiB of the program's memory shared %.1f GiB of the "
                     "GPU's: what it computed is nonsense, and kernels whose time hangs on it are "
                     "not measured as they would be\n",
                     static_cast<double>(told->most_) / (1024 * MiB),
                     static_cast<double>(told->pool_.size() * piece) / (1024 * MiB));
    });
  }

  /// A quarter of the GPU's memory, or half of what is free: many times its L2 cache, so that what
  /// one allocation leaves there is seldom another's too.
  bool make_pool() {
    CUdevice device = 0;
    driver<decltype(cuCtxGetDevice)>("cuCtxGetDevice")(&device);
    location_ = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = location_;
    const Info real = of_gpu();
    const std::size_t wanted = std::min(real.total / 4, real.free / 2);
    while (pool_.size() * piece < wanted) {
      CUmemGenericAllocationHandle handle = 0;
      if (create_(&handle, piece, &properties, 0) != CUDA_SUCCESS) break;
      pool_.push_back(handle);
    }
    return !pool_.empty();
  }

  Info of_gpu() const {
    Info info{};
    info_(&info.free, &info.total);
    return info;
  }

  decltype(cuMemGetInfo)* const info_ = driver<decltype(cuMemGetInfo)>("cuMemGetInfo_v2");
  decltype(cuMemCreate)* const create_ = driver<decltype(cuMemCreate)>("cuMemCreate");
  decltype(cuMemAddressReserve)* const reserve_ =
      driver<decltype(cuMemAddressReserve)>("cuMemAddressReserve");
  decltype(cuMemAddressFree)* const release_ =
      driver<decltype(cuMemAddressFree)>("cuMemAddressFree");
  decltype(cuMemMap)* const map_ = driver<decltype(cuMemMap)>("cuMemMap");
  decltype(cuMemUnmap)* const unmap_ = driver<decltype(cuMemUnmap)>("cuMemUnmap");
  decltype(cuMemSetAccess)* const set_access_ = driver<decltype(cuMemSetAccess)>("cuMemSetAccess");

  const std::size_t capacity_;
  std::mutex mutex_{};
  CUmemLocation location_{};
  std::vector<CUmemGenericAllocationHandle> pool_{};
  std::size_t next_ = 0;  ///< of the pool
  struct Range {
    std::size_t mapped, asked;  ///< bytes
  };
  std::map<CUdeviceptr, Range> all_{};
  std::size_t aliased_ = 0, most_ = 0;  ///< bytes
};

template <Library library>
cudaError_t allocate(void** address, std::size_t bytes) {
  auto* const really = real<library, "cudaMalloc", cudaError_t(void**, std::size_t)>();
  AliasedMemory* const memory = AliasedMemory::instance();
  if (memory == nullptr || depth > 0 || address == nullptr) return really(address, bytes);
  // The first call of many programs: there is no context before.
  real<library, "cudaFree", cudaError_t(void*)>()(nullptr);
  if (memory->told().free < bytes) return cudaErrorMemoryAllocation;
  if (!memory->has_to_share(bytes)) return really(address, bytes);
  *address = memory->allocate(bytes);
  return *address != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}

template <Library library>
cudaError_t deallocate(void* address) {
  AliasedMemory* const memory = AliasedMemory::instance();
  if (memory != nullptr && memory->deallocate(address)) return cudaSuccess;
  return real<library, "cudaFree", cudaError_t(void*)>()(address);
}

template <Library library>
cudaError_t tell_memory(std::size_t* free, std::size_t* total) {
  const cudaError_t status =
      real<library, "cudaMemGetInfo", cudaError_t(std::size_t*, std::size_t*)>()(free, total);
  AliasedMemory* const memory = AliasedMemory::instance();
  if (status == cudaSuccess && memory != nullptr && depth == 0) {
    const AliasedMemory::Info told = memory->told();
    *free = told.free;
    *total = told.total;
  }
  return status;
}

// What CUDA 12's older structure has in common with this one.
static_assert(offsetof(cudaDeviceProp, totalGlobalMem) == 288);

template <Library library, Name name>
cudaError_t tell_properties(cudaDeviceProp* properties, int device) {
  const cudaError_t status =
      real<library, name, cudaError_t(cudaDeviceProp*, int)>()(properties, device);
  AliasedMemory* const memory = AliasedMemory::instance();
  if (status == cudaSuccess && memory != nullptr && depth == 0)
    properties->totalGlobalMem = memory->capacity();
  return status;
}

}  // namespace

std::optional<DeviceAllocation> aliased_allocation(const void* address) {
  AliasedMemory* const memory = AliasedMemory::instance();
  return memory != nullptr ? memory->allocation_of(address) : std::nullopt;
}

}  // namespace phantora::measure

PHANTORA_OF_RUNTIME(cudaMalloc, cudaError_t(void**, std::size_t), allocate)
PHANTORA_OF_RUNTIME(cudaFree, cudaError_t(void*), deallocate)
PHANTORA_OF_RUNTIME(cudaMemGetInfo, cudaError_t(std::size_t*, std::size_t*), tell_memory)
// CUDA 12 exports the structure's second form by a name of its own.
PHANTORA_ENTRY(cudart12, "libcudart.so.12", cudaGetDeviceProperties_v2,
               cudaError_t(cudaDeviceProp*, int),
               (phantora::measure::tell_properties<phantora::measure::Library::cudart12,
                                                   "cudaGetDeviceProperties_v2">))
PHANTORA_ENTRY(cudart13, "libcudart.so.13", cudaGetDeviceProperties,
               cudaError_t(cudaDeviceProp*, int),
               (phantora::measure::tell_properties<phantora::measure::Library::cudart13,
                                                   "cudaGetDeviceProperties">))
