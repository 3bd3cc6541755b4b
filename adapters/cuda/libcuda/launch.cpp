#include "cuda/driver/function.hpp"
#include "cuda/libcuda/entry.hpp"

using namespace phantora::libcuda;
namespace driver = phantora::driver;
namespace rank = phantora::rank;

namespace {

CUresult launch(CUfunction handle, const rank::LaunchShape& shape, CUstream stream,
                void** arguments, void** extra) {
  return device_entry(Api::launch, [&] {
    if (!handle) return CUDA_ERROR_INVALID_HANDLE;
    auto& function = *reinterpret_cast<driver::Function*>(handle);
    if (!arguments && extra) {  // one packed buffer, whose layout the cubin alone knows
      rank::unsupported("cuLaunchKernel with CU_LAUNCH_PARAM_BUFFER_POINTER");
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    switch (driver::launch(function, shape, arguments, stream_of(stream))) {
      case driver::LaunchStatus::launched:
        return CUDA_SUCCESS;
      case driver::LaunchStatus::out_of_resources:
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
      case driver::LaunchStatus::wrong_device:
        return CUDA_ERROR_INVALID_HANDLE;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  });
}

}  // namespace

PHANTORA_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                        unsigned grid_z, unsigned block_x, unsigned block_y,
                                        unsigned block_z, unsigned shared_bytes, CUstream stream,
                                        void** arguments, void** extra) {
  return launch(function,
                {.grid = {grid_x, grid_y, grid_z},
                 .block = {block_x, block_y, block_z},
                 .shared_bytes = shared_bytes},
                stream, arguments, extra);
}

PHANTORA_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function,
                                          void** arguments, void** extra) {
  if (!config) return CUDA_ERROR_INVALID_VALUE;
  return launch(function,
                {.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
                 .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
                 .shared_bytes = config->sharedMemBytes},
                config->hStream, arguments, extra);
}

PHANTORA_EXPORT CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x,
                                                   unsigned grid_y, unsigned grid_z,
                                                   unsigned block_x, unsigned block_y,
                                                   unsigned block_z, unsigned shared_bytes,
                                                   CUstream stream, void** arguments) {
  return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                        stream, arguments, nullptr);
}
