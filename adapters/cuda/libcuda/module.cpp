#include "cuda/driver/device_attributes.hpp"
#include "cuda/driver/function.hpp"
#include "cuda/driver/image.hpp"
#include "cuda/driver/loaded_module.hpp"
#include "cuda/libcuda/entry.hpp"
#include "cuda/libcuda/jit_options.hpp"

#include <algorithm>
#include <filesystem>

using namespace phantora::libcuda;
namespace driver = phantora::driver;
namespace rank = phantora::rank;
using driver::Function;
using driver::LoadedModule;

namespace {

LoadedModule* module_of(void* handle) { return static_cast<LoadedModule*>(handle); }
Function* function_of(void* handle) { return static_cast<Function*>(handle); }

CUresult load(void** handle, const void* image) {
  if (!handle || !image) return CUDA_ERROR_INVALID_VALUE;
  *handle = LoadedModule::load(driver::copy_image(image));
  return *handle ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

CUresult load_file(void** handle, const char* name) {
  if (!handle || !name) return CUDA_ERROR_INVALID_VALUE;
  *handle = LoadedModule::load_file(name);
  if (*handle) return CUDA_SUCCESS;
  return std::filesystem::exists(name) ? CUDA_ERROR_INVALID_IMAGE : CUDA_ERROR_FILE_NOT_FOUND;
}

CUresult find(void** function, void* module, const char* name) {
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  if (!function || !name) return CUDA_ERROR_INVALID_VALUE;
  Function* const found = module_of(module)->function(name);
  if (!found) return CUDA_ERROR_NOT_FOUND;
  *function = found;
  return CUDA_SUCCESS;
}

CUresult count(unsigned* functions, void* module) {
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  if (!functions) return CUDA_ERROR_INVALID_VALUE;
  *functions = static_cast<unsigned>(module_of(module)->functions().size());
  return CUDA_SUCCESS;
}

/// As many as there are, and `most` at most; the others' places stay as they are.
CUresult enumerate(void** functions, unsigned most, void* module) {
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  if (!functions) return CUDA_ERROR_INVALID_VALUE;
  for (Function* const function : module_of(module)->functions()) {
    if (most-- == 0) break;
    *functions++ = function;
  }
  return CUDA_SUCCESS;
}

CUresult find_variable(CUdeviceptr* place, std::size_t* size, void* module, const char* name) {
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  const driver::Variable found = module_of(module)->variable(name);
  if (found.size == 0) return CUDA_ERROR_NOT_FOUND;
  if (!found.address) return CUDA_ERROR_OUT_OF_MEMORY;
  if (place) *place = address(found.address);
  if (size) *size = found.size;
  return CUDA_SUCCESS;
}

CUresult get_name(const char** name, void* handle) {
  if (!handle) return CUDA_ERROR_INVALID_HANDLE;
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  *name = function_of(handle)->mangled;
  return CUDA_SUCCESS;
}

CUresult get_parameter(void* handle, std::size_t index, std::size_t* offset, std::size_t* size) {
  if (!handle) return CUDA_ERROR_INVALID_HANDLE;
  if (!offset) return CUDA_ERROR_INVALID_VALUE;
  const auto parameter = driver::parameter(*function_of(handle), index);
  if (!parameter) return CUDA_ERROR_INVALID_VALUE;
  *offset = parameter->offset;
  if (size) *size = parameter->size;
  return CUDA_SUCCESS;
}

CUresult count_parameters(void* handle, std::size_t* parameters) {
  if (!handle) return CUDA_ERROR_INVALID_HANDLE;
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  *parameters = rank::resources(*function_of(handle)).parameter_sizes.size();
  return CUDA_SUCCESS;
}

CUresult get_attribute(int* value, CUfunction_attribute attribute, void* handle) {
  if (!handle) return CUDA_ERROR_INVALID_HANDLE;
  const Function& function = *function_of(handle);
  const rank::KernelResources& kernel = rank::resources(function);
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = kernel.max_threads;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = static_cast<int>(kernel.static_shared);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      *value = static_cast<int>(kernel.constant);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = static_cast<int>(kernel.local);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = kernel.registers;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = kernel.architecture;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = driver::max_dynamic_shared(function);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = -1;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
      *value = kernel.cluster.x != 0;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
      *value = static_cast<int>(kernel.cluster.x);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
      *value = static_cast<int>(kernel.cluster.y);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      *value = static_cast<int>(kernel.cluster.z);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      *value = function.non_portable_clusters.load();
      return CUDA_SUCCESS;
    default:
      *value = 0;
      return attribute < CU_FUNC_ATTRIBUTE_MAX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult set_attribute(void* handle, CUfunction_attribute attribute, int value) {
  if (!handle) return CUDA_ERROR_INVALID_HANDLE;
  return driver::set_attribute(*function_of(handle), attribute, value) ? CUDA_SUCCESS
                                                                       : CUDA_ERROR_INVALID_VALUE;
}

unsigned cluster_size(const CUlaunchConfig& config) {
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    if (config.attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      const auto& size = config.attrs[i].value.clusterDim;
      return size.x * size.y * size.z;
    }
  }
  return 1;
}

}  // namespace

PHANTORA_EXPORT CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return device_entry(Api::library_setup,
                      [&] { return load(reinterpret_cast<void**>(module), image); });
}

PHANTORA_EXPORT CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count,
                                            CUjit_option* options, void** values) {
  answer_jit_options(count, options, values);
  return cuModuleLoadData(module, image);
}

PHANTORA_EXPORT CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return cuModuleLoadData(module, image);
}

PHANTORA_EXPORT CUresult cuModuleLoad(CUmodule* module, const char* name) {
  return device_entry(Api::library_setup,
                      [&] { return load_file(reinterpret_cast<void**>(module), name); });
}

PHANTORA_EXPORT CUresult cuModuleUnload(CUmodule module) {
  return device_entry(Api::library_setup,
                      [&] { return module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE; });
}

PHANTORA_EXPORT CUresult cuModuleGetFunction(CUfunction* function, CUmodule module,
                                             const char* name) {
  return device_entry(Api::function_attributes,
                      [&] { return find(reinterpret_cast<void**>(function), module, name); });
}

PHANTORA_EXPORT CUresult cuModuleGetFunctionCount(unsigned* functions, CUmodule module) {
  return device_entry(Api::function_attributes, [&] { return count(functions, module); });
}

PHANTORA_EXPORT CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned most,
                                                    CUmodule module) {
  return device_entry(Api::function_attributes,
                      [&] { return enumerate(reinterpret_cast<void**>(functions), most, module); });
}

PHANTORA_EXPORT CUresult cuModuleGetGlobal(CUdeviceptr* place, std::size_t* size, CUmodule module,
                                           const char* name) {  // _v2
  return device_entry(Api::function_attributes,
                      [&] { return find_variable(place, size, module, name); });
}

PHANTORA_EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr* place, std::size_t* size,
                                            CUlibrary library, const char* name) {
  return device_entry(Api::function_attributes,
                      [&] { return find_variable(place, size, library, name); });
}

PHANTORA_EXPORT CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  return entry(Api::get_device, [&] {
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuLibraryLoadData(CUlibrary* library, const void* code,
                                           CUjit_option* options, void** values, unsigned count,
                                           CUlibraryOption*, void**, unsigned) {
  answer_jit_options(count, options, values);
  return device_entry(Api::library_setup,
                      [&] { return load(reinterpret_cast<void**>(library), code); });
}

PHANTORA_EXPORT CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* name,
                                               CUjit_option* options, void** values, unsigned count,
                                               CUlibraryOption*, void**, unsigned) {
  answer_jit_options(count, options, values);
  return device_entry(Api::library_setup,
                      [&] { return load_file(reinterpret_cast<void**>(library), name); });
}

PHANTORA_EXPORT CUresult cuLibraryUnload(CUlibrary library) {
  return device_entry(Api::library_setup,
                      [&] { return library ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE; });
}

PHANTORA_EXPORT CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  return device_entry(Api::function_attributes,
                      [&] { return find(reinterpret_cast<void**>(kernel), library, name); });
}

PHANTORA_EXPORT CUresult cuLibraryGetKernelCount(unsigned* kernels, CUlibrary library) {
  return device_entry(Api::function_attributes, [&] { return count(kernels, library); });
}

PHANTORA_EXPORT CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned most,
                                                   CUlibrary library) {
  return device_entry(Api::function_attributes,
                      [&] { return enumerate(reinterpret_cast<void**>(kernels), most, library); });
}

PHANTORA_EXPORT CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  return device_entry(Api::function_attributes, [&] {
    if (!library) return CUDA_ERROR_INVALID_HANDLE;
    *module = reinterpret_cast<CUmodule>(library);
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  return device_entry(Api::function_attributes, [&] {
    if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
    *function = reinterpret_cast<CUfunction>(kernel);
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuKernelGetLibrary(CUlibrary* library, CUkernel kernel) {
  return device_entry(Api::function_attributes, [&] {
    LoadedModule* const module = driver::loaded_function(kernel).module;
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    if (!library) return CUDA_ERROR_INVALID_VALUE;
    *library = reinterpret_cast<CUlibrary>(module);
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute,
                                              CUkernel kernel, CUdevice) {
  return device_entry(Api::function_attributes,
                      [&] { return get_attribute(value, attribute, kernel); });
}

PHANTORA_EXPORT CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value,
                                              CUkernel kernel, CUdevice) {
  return device_entry(Api::function_attributes,
                      [&] { return set_attribute(kernel, attribute, value); });
}

PHANTORA_EXPORT CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute,
                                            CUfunction function) {
  return device_entry(Api::function_attributes,
                      [&] { return get_attribute(value, attribute, function); });
}

PHANTORA_EXPORT CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute,
                                            int value) {
  return device_entry(Api::function_attributes,
                      [&] { return set_attribute(function, attribute, value); });
}

PHANTORA_EXPORT CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache, CUdevice) {
  return device_entry(Api::function_attributes,
                      [&] { return kernel ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE; });
}

PHANTORA_EXPORT CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache) {
  return device_entry(Api::function_attributes,
                      [&] { return function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE; });
}

PHANTORA_EXPORT CUresult cuFuncGetName(const char** name, CUfunction function) {
  return device_entry(Api::function_attributes, [&] { return get_name(name, function); });
}

PHANTORA_EXPORT CUresult cuKernelGetName(const char** name, CUkernel kernel) {
  return device_entry(Api::function_attributes, [&] { return get_name(name, kernel); });
}

PHANTORA_EXPORT CUresult cuFuncGetParamInfo(CUfunction function, std::size_t index,
                                            std::size_t* offset, std::size_t* size) {
  return device_entry(Api::function_attributes,
                      [&] { return get_parameter(function, index, offset, size); });
}

PHANTORA_EXPORT CUresult cuKernelGetParamInfo(CUkernel kernel, std::size_t index,
                                              std::size_t* offset, std::size_t* size) {
  return device_entry(Api::function_attributes,
                      [&] { return get_parameter(kernel, index, offset, size); });
}

PHANTORA_EXPORT CUresult cuFuncGetParamCount(CUfunction function, std::size_t* parameters) {
  return device_entry(Api::function_attributes,
                      [&] { return count_parameters(function, parameters); });
}

PHANTORA_EXPORT CUresult cuKernelGetParamCount(CUkernel kernel, std::size_t* parameters) {
  return device_entry(Api::function_attributes,
                      [&] { return count_parameters(kernel, parameters); });
}

PHANTORA_EXPORT CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction function) {
  return device_entry(Api::function_attributes, [&] {
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    if (!state) return CUDA_ERROR_INVALID_VALUE;
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuFuncLoad(CUfunction function) {
  return device_entry(Api::function_attributes,
                      [&] { return function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE; });
}

PHANTORA_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, CUfunction function, int threads, std::size_t dynamic_shared, unsigned) {
  return device_entry(Api::occupancy, [&] {
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    *blocks = driver::blocks_per_sm(*function_of(function), threads, dynamic_shared);
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                                     CUfunction function,
                                                                     int threads,
                                                                     std::size_t dynamic_shared) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads,
                                                              dynamic_shared, 0);
}

/// The largest block of those that fill an SM best, in steps of a warp (cuda_occupancy.h).
PHANTORA_EXPORT CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(
    int* grid, int* block, CUfunction function, CUoccupancyB2DSize shared_of_block,
    std::size_t shared, int limit, unsigned) {
  return device_entry(Api::occupancy, [&] {
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    if (!grid || !block) return CUDA_ERROR_INVALID_VALUE;
    const Function& kernel = *function_of(function);
    int most = rank::resources(kernel).max_threads;
    if (limit > 0) most = std::min(most, limit);
    int best = 0;
    for (int threads = (most + 31) / 32 * 32; threads > 0; threads -= 32) {
      const int size = std::min(threads, most);
      const int blocks =
          driver::blocks_per_sm(kernel, size, shared_of_block ? shared_of_block(size) : shared);
      if (blocks * size <= best) continue;
      best = blocks * size;
      *block = size;
      *grid = blocks * rank::gpu().sm_count;
    }
    return best > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

PHANTORA_EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block,
                                                          CUfunction function,
                                                          CUoccupancyB2DSize shared_of_block,
                                                          std::size_t shared, int limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, shared_of_block, shared,
                                                   limit, 0);
}

PHANTORA_EXPORT CUresult cuOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes,
                                                                 CUfunction function, int blocks,
                                                                 int threads) {
  return device_entry(Api::occupancy, [&] {
    if (!bytes || !function) return CUDA_ERROR_INVALID_VALUE;
    const auto room = driver::dynamic_shared_room(*function_of(function), blocks, threads);
    *bytes = room.value_or(0);
    return room ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

PHANTORA_EXPORT CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction function,
                                                      const CUlaunchConfig* config) {
  return device_entry(Api::occupancy, [&] {
    if (!function || !config) return CUDA_ERROR_INVALID_VALUE;
    const auto threads =
        static_cast<int>(config->blockDimX * config->blockDimY * config->blockDimZ);
    *clusters = driver::clusters_at_once(*function_of(function), threads, config->sharedMemBytes,
                                         cluster_size(*config));
    return CUDA_SUCCESS;
  });
}
