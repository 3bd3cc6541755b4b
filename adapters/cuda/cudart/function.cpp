#include "cuda/cudart/entry.hpp"
#include "cuda/cudart/kernels.hpp"

#include <vector>

#include <vector_types.h>

using namespace phantora::cudart;
namespace driver = phantora::driver;
namespace rank = phantora::rank;

namespace {

struct CallConfiguration {
  dim3 grid, block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};
/// What kernel<<<...>>> pushes before it calls the kernel's host stub, which pops it.
thread_local std::vector<CallConfiguration> pushed;

cudaError_t set_attribute(const void* stub, cudaFuncAttribute attribute, int value) {
  Function* const function = function_of(stub);
  if (!function) return cudaErrorInvalidDeviceFunction;
  // The runtime numbers them as the driver does.
  const bool is_set =
      driver::set_attribute(*function, static_cast<CUfunction_attribute>(attribute), value);
  return is_set ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace

PHANTORA_EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block,
                                                     std::size_t shared_bytes,
                                                     cudaStream_t stream) {
  const rank::ApiCall call{Api::get_last_error, {rank::Interface::runtime, __func__}};
  try {
    pushed.push_back({grid, block, shared_bytes, stream});
    return 0;
  } catch (const std::bad_alloc&) {
    return 1;  // the stub is then not called
  }
}

PHANTORA_EXPORT cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block,
                                                       std::size_t* shared_bytes, void* stream) {
  const rank::ApiCall call{Api::get_last_error, {rank::Interface::runtime, __func__}};
  if (pushed.empty()) return remember(cudaErrorMissingConfiguration);
  const CallConfiguration& top = pushed.back();
  *grid = top.grid;
  *block = top.block;
  *shared_bytes = top.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  pushed.pop_back();
  return cudaSuccess;
}

PHANTORA_EXPORT cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes,
                                                  const void* stub) {
  return device_entry(Api::function_attributes, [&] {
    const Function* const function = function_of(stub);
    if (!function) return cudaErrorInvalidDeviceFunction;
    const rank::KernelResources& kernel = rank::resources(*function);
    *attributes = {};
    attributes->sharedSizeBytes = kernel.static_shared;
    attributes->constSizeBytes = kernel.constant;
    attributes->localSizeBytes = kernel.local;
    attributes->maxThreadsPerBlock = kernel.max_threads;
    attributes->numRegs = kernel.registers;
    // By it libraries choose among the variants that they hold (CUB, on an L40S: those of sm_86).
    attributes->binaryVersion = attributes->ptxVersion = kernel.architecture;
    attributes->maxDynamicSharedSizeBytes = driver::max_dynamic_shared(*function);
    attributes->preferredShmemCarveout = -1;  // cudaSharedmemCarveoutDefault
    attributes->clusterDimMustBeSet = kernel.cluster.x != 0;
    attributes->requiredClusterWidth = static_cast<int>(kernel.cluster.x);
    attributes->requiredClusterHeight = static_cast<int>(kernel.cluster.y);
    attributes->requiredClusterDepth = static_cast<int>(kernel.cluster.z);
    attributes->nonPortableClusterSizeAllowed = function->non_portable_clusters.load();
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaFuncSetAttribute(const void* stub, cudaFuncAttribute attribute,
                                                 int value) {
  return device_entry(Api::function_attributes,
                      [&] { return set_attribute(stub, attribute, value); });
}

PHANTORA_EXPORT cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel,
                                                            cudaFuncAttribute attribute, int value,
                                                            int) {
  return device_entry(Api::function_attributes,
                      [&] { return set_attribute(kernel, attribute, value); });
}

PHANTORA_EXPORT cudaError_t cudaFuncGetParamInfo(const void* stub, std::size_t index,
                                                 std::size_t* offset, std::size_t* size) {
  return device_entry(Api::function_attributes, [&] {
    const Function* const function = function_of(stub);
    if (!function) return cudaErrorInvalidDeviceFunction;
    if (!offset) return cudaErrorInvalidValue;
    const auto parameter = driver::parameter(*function, index);
    if (!parameter) return cudaErrorInvalidValue;
    *offset = parameter->offset;
    if (size) *size = parameter->size;
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaFuncSetCacheConfig(const void* stub, cudaFuncCache) {
  return device_entry(Api::function_attributes, [&] {
    return function_of(stub) ? cudaSuccess : cudaErrorInvalidDeviceFunction;
  });
}

PHANTORA_EXPORT cudaError_t cudaFuncGetName(const char** name, const void* stub) {
  return device_entry(Api::function_attributes, [&] {
    const Function* const function = function_of(stub);
    if (!function) return cudaErrorInvalidDeviceFunction;
    *name = function->mangled;
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void* stub, int threads, std::size_t dynamic_shared, unsigned) {
  return device_entry(Api::occupancy, [&] {
    const Function* const function = function_of(stub);
    if (!function) return cudaErrorInvalidDeviceFunction;
    if (threads <= 0) return cudaErrorInvalidValue;
    *blocks = driver::blocks_per_sm(*function, threads, dynamic_shared);
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(
    int* blocks, const void* stub, int threads, std::size_t dynamic_shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, stub, threads,
                                                                dynamic_shared, 0);
}

PHANTORA_EXPORT cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes,
                                                                      const void* stub, int blocks,
                                                                      int threads) {
  return device_entry(Api::occupancy, [&] {
    const Function* const function = function_of(stub);
    if (!function) return cudaErrorInvalidDeviceFunction;
    const auto room = driver::dynamic_shared_room(*function, blocks, threads);
    *bytes = room.value_or(0);
    return room ? cudaSuccess : cudaErrorInvalidValue;
  });
}

PHANTORA_EXPORT cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* stub,
                                                           const cudaLaunchConfig_t* config) {
  return device_entry(Api::occupancy, [&] {
    const Function* const function = function_of(stub);
    if (!function) return cudaErrorInvalidDeviceFunction;
    unsigned size = 1;
    for (unsigned i = 0; i < config->numAttrs; ++i) {
      if (config->attrs[i].id != cudaLaunchAttributeClusterDimension) continue;
      const auto& dim = config->attrs[i].val.clusterDim;
      size = dim.x * dim.y * dim.z;
    }
    const auto threads =
        static_cast<int>(config->blockDim.x * config->blockDim.y * config->blockDim.z);
    *clusters = driver::clusters_at_once(*function, threads, config->dynamicSmemBytes, size);
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void* stub,
                                                                 const cudaLaunchConfig_t*) {
  return device_entry(Api::occupancy, [&] {
    if (!function_of(stub)) return cudaErrorInvalidDeviceFunction;
    *size = 8;  // the portable cluster size (CUDA C++ Programming Guide, Thread Block Clusters)
    return cudaSuccess;
  });
}
