#include "cuda/driver/function.hpp"
#include "cuda/libcuda/entry.hpp"

#include <cstddef>
#include <vector>

using namespace phantora::libcuda;
namespace driver = phantora::driver;
namespace rank = phantora::rank;

namespace {

/// The pointers that a launch takes, into a buffer that holds all parameters as the kernel expects
/// them (CU_LAUNCH_PARAM_BUFFER_POINTER).
class Parameters {
 public:
  /// False where the buffer is not as large as the kernel's parameters, or nothing tells these.
  bool read(const driver::Function& function, void** extra) {
    std::byte* buffer = nullptr;
    std::size_t size = 0;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
      if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = static_cast<std::byte*>(extra[1]);
      if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE) size = *static_cast<std::size_t*>(extra[1]);
    }
    const rank::KernelResources& kernel = rank::resources(function);
    const std::size_t count = kernel.parameter_offsets.size();
    if (!buffer || count != kernel.parameter_sizes.size()) return false;
    for (std::size_t i = 0; i < count; ++i) {
      if (kernel.parameter_offsets[i] + kernel.parameter_sizes[i] > size) return false;
      pointers_.push_back(buffer + kernel.parameter_offsets[i]);
    }
    return true;
  }
  void** get() { return pointers_.data(); }

 private:
  std::vector<void*> pointers_{};
};

CUresult launch(CUfunction handle, const rank::LaunchShape& shape, CUstream stream,
                void** arguments, void** extra,
                const phantora::KernelQuery::Dim3& cluster = {0, 0, 0},
                const char* name = __builtin_FUNCTION()) {
  return device_entry({Api::launch, name}, [&] {
    if (!handle) return CUDA_ERROR_INVALID_HANDLE;
    if (arguments && extra) return CUDA_ERROR_INVALID_VALUE;
    auto& function = *reinterpret_cast<driver::Function*>(handle);
    Parameters packed;
    if (extra) {
      if (!packed.read(function, extra)) return CUDA_ERROR_INVALID_VALUE;
      arguments = packed.get();
    }
    switch (driver::launch(function, shape, arguments, stream_of(stream), cluster)) {
      case driver::LaunchStatus::launched:
        return CUDA_SUCCESS;
      case driver::LaunchStatus::bad_cluster:
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
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
  phantora::KernelQuery::Dim3 cluster{0, 0, 0};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
    const auto& size = config->attrs[i].value.clusterDim;
    cluster = {size.x, size.y, size.z};
  }
  return launch(function,
                {.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
                 .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
                 .shared_bytes = config->sharedMemBytes},
                config->hStream, arguments, extra, cluster);
}

PHANTORA_EXPORT CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x,
                                                   unsigned grid_y, unsigned grid_z,
                                                   unsigned block_x, unsigned block_y,
                                                   unsigned block_z, unsigned shared_bytes,
                                                   CUstream stream, void** arguments) {
  return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                        stream, arguments, nullptr);
}
