// Entry points of the driver API, by which Triton, CuPy and the like load and launch kernels. They
// find them by dlsym, of which there is a hook for that.
#include "measure/mirror.hpp"

#include <string_view>

#include <cuda.h>
#include <dlfcn.h>

namespace phantora::measure {
namespace {

template <Name name, class F>
F* really() {
  static F* const found = reinterpret_cast<F*>(driver_function(name.text));
  return found;
}

/// Makes a handle of the program's and one of the keys'.
template <Name name, class F, class T, class... A>
CUresult make(T* handle, A... arguments) {
  const CUresult status = really<name, F>()(handle, arguments...);
  if (status != CUDA_SUCCESS || handle == nullptr || depth > 0 || keys() == nullptr) return status;
  const Inside inside;
  T made{};
  keyed<name, F>()(&made, translated(arguments)...);
  stands_for(*handle, made);
  return status;
}

CUresult load_module(CUmodule* module, const void* image) {
  return make<"cuModuleLoadData", decltype(cuModuleLoadData)>(module, image);
}
CUresult load_module_file(CUmodule* module, const char* path) {
  return make<"cuModuleLoad", decltype(cuModuleLoad)>(module, path);
}
CUresult load_module_with(CUmodule* module, const void* image, unsigned count,
                          CUjit_option* options, void** values) {
  return make<"cuModuleLoadDataEx", decltype(cuModuleLoadDataEx)>(module, image, count, options,
                                                                  values);
}
CUresult function_of_module(CUfunction* function, CUmodule module, const char* name) {
  return make<"cuModuleGetFunction", decltype(cuModuleGetFunction)>(function, module, name);
}
CUresult load_library(CUlibrary* library, const void* code, CUjit_option* jit, void** jit_values,
                      unsigned jit_count, CUlibraryOption* options, void** values, unsigned count) {
  return make<"cuLibraryLoadData", decltype(cuLibraryLoadData)>(library, code, jit, jit_values,
                                                                jit_count, options, values, count);
}
CUresult kernel_of_library(CUkernel* kernel, CUlibrary library, const char* name) {
  return make<"cuLibraryGetKernel", decltype(cuLibraryGetKernel)>(kernel, library, name);
}
CUresult function_of_kernel(CUfunction* function, CUkernel kernel) {
  return make<"cuKernelGetFunction", decltype(cuKernelGetFunction)>(function, kernel);
}

CUresult launch(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                CUstream stream, void** arguments, void** extra) {
  const auto call = [&](decltype(cuLaunchKernel)* to, CUfunction which) {
    return to(which, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, arguments,
              extra);
  };
  return timed(
      [&] {
        // Of a function that was loaded unseen nothing can be said.
        if (CUfunction const ours = translated(function))
          call(keyed<"cuLaunchKernel", decltype(cuLaunchKernel)>(), ours);
      },
      [&] { return call(really<"cuLaunchKernel", decltype(cuLaunchKernel)>(), function); });
}
CUresult launch_with(const CUlaunchConfig* config, CUfunction function, void** arguments,
                     void** extra) {
  return timed(
      [&] {
        if (CUfunction const ours = translated(function))
          keyed<"cuLaunchKernelEx", decltype(cuLaunchKernelEx)>()(config, ours, arguments, extra);
      },
      [&] {
        return really<"cuLaunchKernelEx", decltype(cuLaunchKernelEx)>()(config, function, arguments,
                                                                        extra);
      });
}

struct Hooked {
  std::string_view name;
  void* function;
};
void* hook_of(std::string_view name) {
  static const Hooked hooks[] = {
      {"cuModuleLoadData", reinterpret_cast<void*>(&load_module)},
      {"cuModuleLoad", reinterpret_cast<void*>(&load_module_file)},
      {"cuModuleLoadDataEx", reinterpret_cast<void*>(&load_module_with)},
      {"cuModuleGetFunction", reinterpret_cast<void*>(&function_of_module)},
      {"cuLibraryLoadData", reinterpret_cast<void*>(&load_library)},
      {"cuLibraryGetKernel", reinterpret_cast<void*>(&kernel_of_library)},
      {"cuKernelGetFunction", reinterpret_cast<void*>(&function_of_kernel)},
      {"cuLaunchKernel", reinterpret_cast<void*>(&launch)},
      {"cuLaunchKernelEx", reinterpret_cast<void*>(&launch_with)},
  };
  for (const Hooked& hook : hooks)
    if (hook.name == name) return hook.function;
  return nullptr;
}

using Lookup = void*(void*, const char*) noexcept;
/// glibc's, which takes who calls for its caller: a call of it has to be a tail call.
Lookup* real_dlsym() {
  static auto* const found = [] {
    void* const newer = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    return reinterpret_cast<Lookup*>(newer != nullptr ? newer
                                                      : dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"));
  }();
  return found;
}

}  // namespace

// Our own look-ups are of the real ones.
void* unhooked_dlsym(void* handle, const char* name) { return real_dlsym()(handle, name); }

}  // namespace phantora::measure

// Programs that are linked with the driver; its symbols have no version.
#define PHANTORA_OF_DRIVER(name, function)                                                 \
  extern "C" {                                                                             \
  [[gnu::visibility("hidden")]] extern decltype(&name) const phantora_cuda_##name;         \
  [[gnu::used]] decltype(&name) const phantora_cuda_##name = &phantora::measure::function; \
  }                                                                                        \
  __asm__(                                                                                 \
      ".pushsection .text\n"                                                               \
      ".globl " #name                                                                      \
      "\n"                                                                                 \
      ".type " #name ", @function\n" #name                                                 \
      ":\n"                                                                                \
      "  jmp *phantora_cuda_" #name                                                        \
      "(%rip)\n"                                                                           \
      ".size " #name ", .-" #name                                                          \
      "\n"                                                                                 \
      ".popsection");
PHANTORA_OF_DRIVER(cuModuleLoadData, load_module)
PHANTORA_OF_DRIVER(cuModuleLoad, load_module_file)
PHANTORA_OF_DRIVER(cuModuleLoadDataEx, load_module_with)
PHANTORA_OF_DRIVER(cuModuleGetFunction, function_of_module)
PHANTORA_OF_DRIVER(cuLibraryLoadData, load_library)
PHANTORA_OF_DRIVER(cuLibraryGetKernel, kernel_of_library)
PHANTORA_OF_DRIVER(cuKernelGetFunction, function_of_kernel)
PHANTORA_OF_DRIVER(cuLaunchKernel, launch)
PHANTORA_OF_DRIVER(cuLaunchKernelEx, launch_with)

extern "C" __attribute__((visibility("default"))) void* dlsym(void* handle,
                                                              const char* name) noexcept {
  using namespace phantora::measure;
  if (handle != RTLD_NEXT && handle != RTLD_DEFAULT && depth == 0) {
    if (void* const hook = hook_of(name)) {
      // Only in front of the driver's: others may have functions of the same name.
      void* const found = real_dlsym()(handle, name);
      return found != nullptr && found == driver_function(name) ? hook : found;
    }
  }
  return real_dlsym()(handle, name);
}
