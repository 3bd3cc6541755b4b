#include "cuda/cudart/kernels.hpp"
#include "cuda/cudart/stream_argument.hpp"

#include <vector_types.h>

using namespace phantora::cudart;
namespace driver = phantora::driver;
namespace rank = phantora::rank;

namespace {

/// Of a function that nobody registered: an H200's answer (test/native/h200/launches.txt), where
/// the documentation has cudaErrorInvalidDeviceFunction.
constexpr cudaError_t unknown_function = cudaErrorInvalidResourceHandle;

cudaError_t launch(Function* function, dim3 grid, dim3 block, void** arguments,
                   std::size_t shared_bytes, cudaStream_t stream,
                   const phantora::KernelQuery::Dim3& cluster = {0, 0, 0}) {
  if (!function) return unknown_function;
  const rank::LaunchShape shape{.grid = {grid.x, grid.y, grid.z},
                                .block = {block.x, block.y, block.z},
                                .shared_bytes = shared_bytes};
  switch (driver::launch(*function, shape, arguments, stream_of(stream), cluster)) {
    case driver::LaunchStatus::launched:
      return cudaSuccess;
    case driver::LaunchStatus::bad_configuration:
      return cudaErrorInvalidConfiguration;
    case driver::LaunchStatus::bad_cluster:
      return cudaErrorInvalidClusterSize;
    case driver::LaunchStatus::too_much_shared:
      return cudaErrorInvalidValue;
    case driver::LaunchStatus::out_of_resources:
      return cudaErrorLaunchOutOfResources;
    case driver::LaunchStatus::wrong_device:
      return cudaErrorInvalidResourceHandle;
  }
  return cudaErrorUnknown;
}

}  // namespace

PHANTORA_EXPORT cudaError_t PHANTORA_PTSZ(__cudaLaunchKernel)(cudaKernel_t kernel, dim3 grid,
                                                              dim3 block, void** arguments,
                                                              std::size_t shared_bytes,
                                                              cudaStream_t stream) {
  return device_entry(Api::launch, [&] {
    // The handle is what __cudaGetKernel gave: no look-up on this, the hot path.
    const cudaError_t status =
        launch(reinterpret_cast<Function*>(kernel), grid, block, arguments, shared_bytes, stream);
    // As CUDA 13's own answers on an H200, whatever its documentation says
    // (test/native/h200/launches.txt).
    const bool shape_is_wrong =
        status == cudaErrorInvalidConfiguration || status == cudaErrorLaunchOutOfResources;
    return shape_is_wrong ? cudaErrorInvalidValue : status;
  });
}

PHANTORA_EXPORT cudaError_t cudaLaunchKernel(const void* stub, dim3 grid, dim3 block,
                                             void** arguments, std::size_t shared_bytes,
                                             cudaStream_t stream) {
  return device_entry(Api::launch, [&] {
    return launch(function_of(stub), grid, block, arguments, shared_bytes, stream);
  });
}

PHANTORA_EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* stub,
                                                void** arguments) {
  return device_entry(Api::launch, [&] {
    if (!config) return cudaErrorInvalidValue;
    phantora::KernelQuery::Dim3 cluster{0, 0, 0};
    for (unsigned i = 0; i < config->numAttrs; ++i) {
      const cudaLaunchAttribute& attribute = config->attrs[i];
      if (attribute.id != cudaLaunchAttributeClusterDimension) continue;
      cluster = {attribute.val.clusterDim.x, attribute.val.clusterDim.y,
                 attribute.val.clusterDim.z};
    }
    return launch(function_of(stub), config->gridDim, config->blockDim, arguments,
                  config->dynamicSmemBytes, config->stream, cluster);
  });
}

PHANTORA_EXPORT cudaError_t cudaLaunchCooperativeKernel(const void* stub, dim3 grid, dim3 block,
                                                        void** arguments, std::size_t shared_bytes,
                                                        cudaStream_t stream) {
  return device_entry(Api::launch, [&] {
    Function* const function = function_of(stub);
    if (!function) return unknown_function;
    // All blocks must be resident at once.
    const auto threads = static_cast<int>(block.x * block.y * block.z);
    const int resident =
        driver::blocks_per_sm(*function, threads, shared_bytes) * rank::gpu().sm_count;
    if (static_cast<double>(grid.x) * grid.y * grid.z > resident) {
      return cudaErrorCooperativeLaunchTooLarge;
    }
    return launch(function, grid, block, arguments, shared_bytes, stream);
  });
}

PHANTORA_EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function,
                                               void* argument) {
  return device_entry(Api::launch, [&] {
    if (!function) return cudaErrorInvalidValue;
    rank::host_function(stream_of(stream), function, argument);
    return cudaSuccess;
  });
}
