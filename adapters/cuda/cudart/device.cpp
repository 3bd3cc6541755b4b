#include "cuda/cudart/entry.hpp"
#include "cuda/driver/device_attributes.hpp"
#include "cuda/driver/driver_state.hpp"
#include "rank/runtime/capture.hpp"
#include "rank/runtime/timeline.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <string>

#include <cuda_profiler_api.h>

using namespace phantora::cudart;
namespace driver = phantora::driver;
namespace rank = phantora::rank;

namespace {

driver::Contexts& contexts() { return driver::driver_state().contexts; }

template <class Properties>
void fill(Properties& prop, int device) {
  const auto value = [&](cudaDeviceAttr attribute) {
    return driver::attribute(attribute, device).value_or(0);
  };
  const auto size = [&](cudaDeviceAttr attribute) {
    return static_cast<std::size_t>(value(attribute));
  };
  const auto bits = [&](cudaDeviceAttr attribute) {
    return static_cast<unsigned>(value(attribute));
  };
  const phantora::GpuModel& gpu = rank::gpu();
  prop = {};
  std::snprintf(prop.name, sizeof prop.name, "%s", gpu.name.c_str());
  const auto uuid = driver::uuid(device);
  std::memcpy(prop.uuid.bytes, uuid.data(), uuid.size());
  prop.totalGlobalMem = static_cast<std::size_t>(gpu.memory.count());
  prop.sharedMemPerBlock = size(cudaDevAttrMaxSharedMemoryPerBlock);
  prop.regsPerBlock = value(cudaDevAttrMaxRegistersPerBlock);
  prop.warpSize = value(cudaDevAttrWarpSize);
  prop.memPitch = size(cudaDevAttrMaxPitch);
  prop.maxThreadsPerBlock = value(cudaDevAttrMaxThreadsPerBlock);
  prop.maxThreadsDim[0] = value(cudaDevAttrMaxBlockDimX);
  prop.maxThreadsDim[1] = value(cudaDevAttrMaxBlockDimY);
  prop.maxThreadsDim[2] = value(cudaDevAttrMaxBlockDimZ);
  prop.maxGridSize[0] = value(cudaDevAttrMaxGridDimX);
  prop.maxGridSize[1] = value(cudaDevAttrMaxGridDimY);
  prop.maxGridSize[2] = value(cudaDevAttrMaxGridDimZ);
  prop.totalConstMem = size(cudaDevAttrTotalConstantMemory);
  prop.major = value(cudaDevAttrComputeCapabilityMajor);
  prop.minor = value(cudaDevAttrComputeCapabilityMinor);
  prop.textureAlignment = size(cudaDevAttrTextureAlignment);
  prop.texturePitchAlignment = size(cudaDevAttrTexturePitchAlignment);
  prop.multiProcessorCount = value(cudaDevAttrMultiProcessorCount);
  prop.integrated = value(cudaDevAttrIntegrated);
  prop.canMapHostMemory = value(cudaDevAttrCanMapHostMemory);
  prop.maxTexture1D = value(cudaDevAttrMaxTexture1DWidth);
  prop.maxTexture1DMipmap = value(cudaDevAttrMaxTexture1DMipmappedWidth);
  prop.maxTexture2D[0] = value(cudaDevAttrMaxTexture2DWidth);
  prop.maxTexture2D[1] = value(cudaDevAttrMaxTexture2DHeight);
  prop.maxTexture2DMipmap[0] = value(cudaDevAttrMaxTexture2DMipmappedWidth);
  prop.maxTexture2DMipmap[1] = value(cudaDevAttrMaxTexture2DMipmappedHeight);
  prop.maxTexture2DLinear[0] = value(cudaDevAttrMaxTexture2DLinearWidth);
  prop.maxTexture2DLinear[1] = value(cudaDevAttrMaxTexture2DLinearHeight);
  prop.maxTexture2DLinear[2] = value(cudaDevAttrMaxTexture2DLinearPitch);
  prop.maxTexture2DGather[0] = value(cudaDevAttrMaxTexture2DGatherWidth);
  prop.maxTexture2DGather[1] = value(cudaDevAttrMaxTexture2DGatherHeight);
  prop.maxTexture3D[0] = value(cudaDevAttrMaxTexture3DWidth);
  prop.maxTexture3D[1] = value(cudaDevAttrMaxTexture3DHeight);
  prop.maxTexture3D[2] = value(cudaDevAttrMaxTexture3DDepth);
  prop.maxTexture3DAlt[0] = value(cudaDevAttrMaxTexture3DWidthAlt);
  prop.maxTexture3DAlt[1] = value(cudaDevAttrMaxTexture3DHeightAlt);
  prop.maxTexture3DAlt[2] = value(cudaDevAttrMaxTexture3DDepthAlt);
  prop.maxTextureCubemap = value(cudaDevAttrMaxTextureCubemapWidth);
  prop.maxTexture1DLayered[0] = value(cudaDevAttrMaxTexture1DLayeredWidth);
  prop.maxTexture1DLayered[1] = value(cudaDevAttrMaxTexture1DLayeredLayers);
  prop.maxTexture2DLayered[0] = value(cudaDevAttrMaxTexture2DLayeredWidth);
  prop.maxTexture2DLayered[1] = value(cudaDevAttrMaxTexture2DLayeredHeight);
  prop.maxTexture2DLayered[2] = value(cudaDevAttrMaxTexture2DLayeredLayers);
  prop.maxTextureCubemapLayered[0] = value(cudaDevAttrMaxTextureCubemapLayeredWidth);
  prop.maxTextureCubemapLayered[1] = value(cudaDevAttrMaxTextureCubemapLayeredLayers);
  prop.maxSurface1D = value(cudaDevAttrMaxSurface1DWidth);
  prop.maxSurface2D[0] = value(cudaDevAttrMaxSurface2DWidth);
  prop.maxSurface2D[1] = value(cudaDevAttrMaxSurface2DHeight);
  prop.maxSurface3D[0] = value(cudaDevAttrMaxSurface3DWidth);
  prop.maxSurface3D[1] = value(cudaDevAttrMaxSurface3DHeight);
  prop.maxSurface3D[2] = value(cudaDevAttrMaxSurface3DDepth);
  prop.maxSurface1DLayered[0] = value(cudaDevAttrMaxSurface1DLayeredWidth);
  prop.maxSurface1DLayered[1] = value(cudaDevAttrMaxSurface1DLayeredLayers);
  prop.maxSurface2DLayered[0] = value(cudaDevAttrMaxSurface2DLayeredWidth);
  prop.maxSurface2DLayered[1] = value(cudaDevAttrMaxSurface2DLayeredHeight);
  prop.maxSurface2DLayered[2] = value(cudaDevAttrMaxSurface2DLayeredLayers);
  prop.maxSurfaceCubemap = value(cudaDevAttrMaxSurfaceCubemapWidth);
  prop.maxSurfaceCubemapLayered[0] = value(cudaDevAttrMaxSurfaceCubemapLayeredWidth);
  prop.maxSurfaceCubemapLayered[1] = value(cudaDevAttrMaxSurfaceCubemapLayeredLayers);
  prop.surfaceAlignment = size(cudaDevAttrSurfaceAlignment);
  prop.concurrentKernels = value(cudaDevAttrConcurrentKernels);
  prop.ECCEnabled = value(cudaDevAttrEccEnabled);
  prop.pciBusID = value(cudaDevAttrPciBusId);
  prop.pciDeviceID = value(cudaDevAttrPciDeviceId);
  prop.pciDomainID = value(cudaDevAttrPciDomainId);
  prop.tccDriver = value(cudaDevAttrTccDriver);
  prop.asyncEngineCount = value(cudaDevAttrAsyncEngineCount);
  prop.unifiedAddressing = 1;  // on every 64-bit Linux
  prop.memoryBusWidth = value(cudaDevAttrGlobalMemoryBusWidth);
  prop.l2CacheSize = value(cudaDevAttrL2CacheSize);
  prop.persistingL2CacheMaxSize = value(cudaDevAttrMaxPersistingL2CacheSize);
  prop.maxThreadsPerMultiProcessor = value(cudaDevAttrMaxThreadsPerMultiProcessor);
  prop.streamPrioritiesSupported = value(cudaDevAttrStreamPrioritiesSupported);
  prop.globalL1CacheSupported = value(cudaDevAttrGlobalL1CacheSupported);
  prop.localL1CacheSupported = value(cudaDevAttrLocalL1CacheSupported);
  prop.sharedMemPerMultiprocessor = size(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  prop.regsPerMultiprocessor = value(cudaDevAttrMaxRegistersPerMultiprocessor);
  prop.managedMemory = value(cudaDevAttrManagedMemory);
  prop.isMultiGpuBoard = value(cudaDevAttrIsMultiGpuBoard);
  prop.multiGpuBoardGroupID = value(cudaDevAttrMultiGpuBoardGroupID);
  prop.hostNativeAtomicSupported = value(cudaDevAttrHostNativeAtomicSupported);
  prop.pageableMemoryAccess = value(cudaDevAttrPageableMemoryAccess);
  prop.concurrentManagedAccess = value(cudaDevAttrConcurrentManagedAccess);
  prop.computePreemptionSupported = value(cudaDevAttrComputePreemptionSupported);
  prop.canUseHostPointerForRegisteredMem = value(cudaDevAttrCanUseHostPointerForRegisteredMem);
  prop.cooperativeLaunch = value(cudaDevAttrCooperativeLaunch);
  prop.sharedMemPerBlockOptin = size(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  prop.pageableMemoryAccessUsesHostPageTables =
      value(cudaDevAttrPageableMemoryAccessUsesHostPageTables);
  prop.directManagedMemAccessFromHost = value(cudaDevAttrDirectManagedMemAccessFromHost);
  prop.maxBlocksPerMultiProcessor = value(cudaDevAttrMaxBlocksPerMultiprocessor);
  prop.accessPolicyMaxWindowSize = value(cudaDevAttrMaxAccessPolicyWindowSize);
  prop.reservedSharedMemPerBlock = size(cudaDevAttrReservedSharedMemoryPerBlock);
  prop.hostRegisterSupported = value(cudaDevAttrHostRegisterSupported);
  prop.sparseCudaArraySupported = value(cudaDevAttrSparseCudaArraySupported);
  prop.hostRegisterReadOnlySupported = value(cudaDevAttrHostRegisterReadOnlySupported);
  prop.timelineSemaphoreInteropSupported = value(cudaDevAttrTimelineSemaphoreInteropSupported);
  prop.memoryPoolsSupported = value(cudaDevAttrMemoryPoolsSupported);
  prop.gpuDirectRDMASupported = value(cudaDevAttrGPUDirectRDMASupported);
  prop.gpuDirectRDMAFlushWritesOptions = bits(cudaDevAttrGPUDirectRDMAFlushWritesOptions);
  prop.gpuDirectRDMAWritesOrdering = value(cudaDevAttrGPUDirectRDMAWritesOrdering);
  prop.memoryPoolSupportedHandleTypes = bits(cudaDevAttrMemoryPoolSupportedHandleTypes);
  prop.deferredMappingCudaArraySupported = value(cudaDevAttrDeferredMappingCudaArraySupported);
  prop.ipcEventSupported = value(cudaDevAttrIpcEventSupport);
  prop.clusterLaunch = value(cudaDevAttrClusterLaunch);
  prop.unifiedFunctionPointers = 1;  // CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, 129
  if constexpr (requires { prop.deviceNumaConfig; }) {  // not in CUDA 12
    prop.deviceNumaConfig = value(cudaDevAttrNumaConfig);
    prop.deviceNumaId = value(cudaDevAttrNumaId);
    prop.mpsEnabled = value(cudaDevAttrMpsEnabled);
    prop.hostNumaId = value(cudaDevAttrHostNumaId);
    prop.gpuPciDeviceID = bits(cudaDevAttrGpuPciDeviceId);
    prop.gpuPciSubsystemID = bits(cudaDevAttrGpuPciSubsystemId);
    prop.hostNumaMultinodeIpcSupported = value(cudaDevAttrHostNumaMultinodeIpcSupported);
  }
}

}  // namespace

PHANTORA_EXPORT cudaError_t cudaGetDeviceCount(int* count) {
  return entry(Api::get_device, [&] {
    if (!count) return cudaErrorInvalidValue;
    *count = rank::device_count();
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
  });
}

PHANTORA_EXPORT cudaError_t cudaGetDevice(int* device) {
  return entry(Api::get_device, [&] {
    if (!device) return cudaErrorInvalidValue;
    *device = rank::current_device();
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaSetDevice(int device) {
  return entry(Api::set_device, [&] {
    if (!valid_device(device)) return cudaErrorInvalidDevice;
    if (!driver::activate(device)) return cudaErrorMemoryAllocation;  // eager since CUDA 12
    rank::set_current_device(device);
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaInitDevice(int device, unsigned flags, unsigned) {
  return entry(Api::set_device, [&] {
    if (!valid_device(device)) return cudaErrorInvalidDevice;
    if (!driver::activate(device)) return cudaErrorMemoryAllocation;
    contexts().primary(device).flags = flags;
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaSetDeviceFlags(unsigned flags) {
  return entry(Api::set_device, [&] {
    contexts().primary(rank::current_device()).flags = flags;
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  return entry(Api::get_device, [&] {
    *flags = contexts().primary(rank::current_device()).flags | cudaDeviceMapHost;
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaDeviceSynchronize() {
  return device_entry(Api::synchronize, [] {
    rank::refuse_if_captured(rank::current_device());
    rank::synchronize_device(rank::current_device());
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaDeviceReset() {
  return entry(Api::synchronize, [] {
    const int device = rank::current_device();
    if (!driver::active(device)) return cudaSuccess;
    rank::synchronize_device(device);
    driver::deactivate(device);
    return cudaSuccess;
  });
}

#if PHANTORA_CUDA_VERSION < 13000
PHANTORA_EXPORT cudaError_t cudaGetDeviceProperties_v2(DeviceProperties12* prop, int device) {
#else
PHANTORA_EXPORT cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
#endif
  return entry(Api::get_device, [&] {
    if (!prop) return cudaErrorInvalidValue;
    if (!valid_device(device)) return cudaErrorInvalidDevice;
    fill(*prop, device);
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute,
                                                   int device) {
  return entry(Api::get_device, [&] {
    if (!value) return cudaErrorInvalidValue;
    if (!valid_device(device)) return cudaErrorInvalidDevice;
    const auto known = driver::attribute_asked_for(attribute, device);
    if (!known) return cudaErrorInvalidValue;
    *value = *known;
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp*) {
  return entry(Api::get_device, [&] {
    *device = 0;  // all GPUs of a simulated host are alike
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return entry(Api::get_device, [&] {
    if (!text || length <= 0) return cudaErrorInvalidValue;
    if (!valid_device(device)) return cudaErrorInvalidDevice;
    const std::string address = driver::to_string(driver::pci_address(device));
    if (static_cast<std::size_t>(length) <= address.size()) return cudaErrorInvalidValue;
    std::memcpy(text, address.c_str(), address.size() + 1);
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  return entry(Api::get_device, [&] {
    if (!device || !text) return cudaErrorInvalidValue;
    const int found = driver::device_at(text);
    if (found < 0) return cudaErrorInvalidDevice;
    *device = found;
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return entry(Api::get_device, [&] {
    if (!valid_device(device) || !valid_device(peer)) return cudaErrorInvalidDevice;
    *can = device != peer;
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return device_entry(Api::set_device, [&] {
    if (flags != 0) return cudaErrorInvalidValue;
    const int device = rank::current_device();
    if (!valid_device(peer) || peer == device) return cudaErrorInvalidDevice;
    const bool added = contexts().enable_peer(device, peer);
    return added ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
  });
}

PHANTORA_EXPORT cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return device_entry(Api::set_device, [&] {
    const bool removed = contexts().disable_peer(rank::current_device(), peer);
    return removed ? cudaSuccess : cudaErrorPeerAccessNotEnabled;
  });
}

PHANTORA_EXPORT cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute,
                                                      int device, int peer) {
  return entry(Api::get_device, [&] {
    if (!valid_device(device) || !valid_device(peer) || device == peer) {
      return cudaErrorInvalidDevice;
    }
    switch (attribute) {
      case cudaDevP2PAttrPerformanceRank:
        *value = 0;
        return cudaSuccess;
      case cudaDevP2PAttrAccessSupported:
      case cudaDevP2PAttrNativeAtomicSupported:
      case cudaDevP2PAttrCudaArrayAccessSupported:
        *value = 1;
        return cudaSuccess;
      default:
        return cudaErrorInvalidValue;
    }
  });
}

PHANTORA_EXPORT cudaError_t cudaDeviceGetLimit(std::size_t* value, cudaLimit limit) {
  return device_entry(Api::get_device, [&] {
    if (limit < cudaLimitStackSize || limit > cudaLimitPersistingL2CacheSize) {
      return cudaErrorUnsupportedLimit;
    }
    *value = contexts().limit(rank::current_device(), static_cast<CUlimit>(limit));
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaDeviceSetLimit(cudaLimit limit, std::size_t value) {
  return device_entry(Api::set_device, [&] {
    if (limit < cudaLimitStackSize || limit > cudaLimitPersistingL2CacheSize) {
      return cudaErrorUnsupportedLimit;
    }
    contexts().set_limit(rank::current_device(), static_cast<CUlimit>(limit), value);
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
  return device_entry(Api::get_device, [&] {
    *config = cudaFuncCachePreferNone;
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) {
  return device_entry(Api::set_device, [] { return cudaSuccess; });  // a hint
}

PHANTORA_EXPORT cudaError_t cudaCtxResetPersistingL2Cache() {
  return device_entry(Api::set_device, [] { return cudaSuccess; });
}

// Versions are answered without a GPU too, as the real library does.

PHANTORA_EXPORT cudaError_t cudaRuntimeGetVersion(int* version) {
  if (!version) return remember(cudaErrorInvalidValue);
  *version = PHANTORA_CUDA_VERSION;
  return cudaSuccess;
}

PHANTORA_EXPORT cudaError_t cudaDriverGetVersion(int* version) {
  if (!version) return remember(cudaErrorInvalidValue);
  *version = rank::simulated() ? CUDART_VERSION : 0;  // 0: no driver is installed
  return cudaSuccess;
}

PHANTORA_EXPORT cudaError_t cudaProfilerStart() {
  return device_entry(Api::get_last_error, [] { return cudaSuccess; });
}

PHANTORA_EXPORT cudaError_t cudaProfilerStop() {
  return device_entry(Api::get_last_error, [] { return cudaSuccess; });
}
