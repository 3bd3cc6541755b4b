// Libraries of GPU code that the program loads while it runs.
#include "cuda/cudart/entry.hpp"
#include "cuda/cudart/kernels.hpp"
#include "cuda/driver/image.hpp"
#include "cuda/driver/loaded_module.hpp"

#include <filesystem>

using namespace phantora::cudart;
namespace driver = phantora::driver;
using driver::LoadedModule;

namespace {

LoadedModule* module_of(cudaLibrary_t library) { return reinterpret_cast<LoadedModule*>(library); }
cudaKernel_t handle_of(Function* function) { return reinterpret_cast<cudaKernel_t>(function); }

}  // namespace

PHANTORA_EXPORT cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code,
                                                cudaJitOption*, void**, unsigned,
                                                cudaLibraryOption*, void**, unsigned) {
  return device_entry(Api::library_setup, [&] {
    if (!library || !code) return cudaErrorInvalidValue;
    *library = reinterpret_cast<cudaLibrary_t>(LoadedModule::load(driver::copy_image(code)));
    return *library ? cudaSuccess : cudaErrorInvalidKernelImage;
  });
}

PHANTORA_EXPORT cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* name,
                                                    cudaJitOption*, void**, unsigned,
                                                    cudaLibraryOption*, void**, unsigned) {
  return device_entry(Api::library_setup, [&] {
    if (!library || !name) return cudaErrorInvalidValue;
    *library = reinterpret_cast<cudaLibrary_t>(LoadedModule::load_file(name));
    if (*library) return cudaSuccess;
    return std::filesystem::exists(name) ? cudaErrorInvalidKernelImage : cudaErrorFileNotFound;
  });
}

PHANTORA_EXPORT cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  return device_entry(Api::library_setup,
                      [&] { return library ? cudaSuccess : cudaErrorInvalidResourceHandle; });
}

PHANTORA_EXPORT cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library,
                                                 const char* name) {
  return device_entry(Api::function_attributes, [&] {
    if (!library) return cudaErrorInvalidResourceHandle;
    if (!kernel || !name) return cudaErrorInvalidValue;
    Function* const found = module_of(library)->function(name);
    if (!found) return cudaErrorSymbolNotFound;
    *kernel = handle_of(found);
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaLibraryGetGlobal(void** place, std::size_t* size,
                                                 cudaLibrary_t library, const char* name) {
  return device_entry(Api::function_attributes, [&] {
    if (!library) return cudaErrorInvalidResourceHandle;
    if (!name) return cudaErrorInvalidValue;
    const driver::Variable found = module_of(library)->variable(name);
    if (found.size == 0) return cudaErrorSymbolNotFound;
    if (!found.address) return cudaErrorMemoryAllocation;
    if (place) *place = found.address;
    if (size) *size = found.size;
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaLibraryGetKernelCount(unsigned* kernels, cudaLibrary_t library) {
  return device_entry(Api::function_attributes, [&] {
    if (!library) return cudaErrorInvalidResourceHandle;
    if (!kernels) return cudaErrorInvalidValue;
    *kernels = static_cast<unsigned>(module_of(library)->functions().size());
    return cudaSuccess;
  });
}

PHANTORA_EXPORT cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t* kernels, unsigned most,
                                                        cudaLibrary_t library) {
  return device_entry(Api::function_attributes, [&] {
    if (!library) return cudaErrorInvalidResourceHandle;
    if (!kernels) return cudaErrorInvalidValue;
    for (Function* const function : module_of(library)->functions()) {
      if (most-- == 0) break;
      *kernels++ = handle_of(function);
    }
    return cudaSuccess;
  });
}
