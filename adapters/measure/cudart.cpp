// Entry points of the runtime API: kernels and copies.
#include "measure/mirror.hpp"

#include <vector_types.h>

namespace phantora::measure {
namespace {

// Registration happens before main(), where nothing is asked of the driver: the keys only note it.

template <Library library>
void** register_fat_binary(void* image) {
  void** const handle = real<library, "__cudaRegisterFatBinary", void**(void*)>()(image);
  stands_for(handle, keyed<"__cudaRegisterFatBinary", void**(void*)>()(image));
  return handle;
}

template <Library library>
void unregister_fat_binary(void** handle) {
  if (void* const ours = handle_for_keys(handle)) {
    keyed<"__cudaUnregisterFatBinary", void(void**)>()(static_cast<void**>(ours));
    forget_handle_at(handle);
  }
  real<library, "__cudaUnregisterFatBinary", void(void**)>()(handle);
}

template <Library library>
void register_function(void** handle, const char* stub, char* device, const char* name, int limit,
                       uint3* thread, uint3* block, dim3* block_size, dim3* grid_size, int* warp) {
  using F = void(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*, dim3*, int*);
  if (void* const ours = handle_for_keys(handle))
    keyed<"__cudaRegisterFunction", F>()(static_cast<void**>(ours), stub, device, name, limit,
                                         thread, block, block_size, grid_size, warp);
  real<library, "__cudaRegisterFunction", F>()(handle, stub, device, name, limit, thread, block,
                                               block_size, grid_size, warp);
}

template <Library library>
void register_variable(void** handle, char* host, char* device, const char* name, int external,
                       std::size_t size, int constant, int global) {
  using F = void(void**, char*, char*, const char*, int, std::size_t, int, int);
  if (void* const ours = handle_for_keys(handle))
    keyed<"__cudaRegisterVar", F>()(static_cast<void**>(ours), host, device, name, external, size,
                                    constant, global);
  real<library, "__cudaRegisterVar", F>()(handle, host, device, name, external, size, constant,
                                          global);
}

/// Of a host stub, or of a handle that the runtime gave for one.
const void* function_for_keys(const void* function) {
  const void* const ours = handle_for_keys(function);
  return ours != nullptr ? ours : function;
}

template <Library library, Name name>
cudaError_t launch(const void* function, dim3 grid, dim3 block, void** arguments,
                   std::size_t shared, cudaStream_t stream) {
  using F = cudaError_t(const void*, dim3, dim3, void**, std::size_t, cudaStream_t);
  return timed(
      [&] {
        keyed<name, F>()(function_for_keys(function), grid, block, arguments, shared, stream);
      },
      [&] { return real<library, name, F>()(function, grid, block, arguments, shared, stream); });
}
template <Library library>
constexpr auto launch_kernel = &launch<library, "cudaLaunchKernel">;
template <Library library>
constexpr auto launch_cooperative = &launch<library, "cudaLaunchCooperativeKernel">;

template <Library library>
cudaError_t launch_with(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  using F = cudaError_t(const cudaLaunchConfig_t*, const void*, void**);
  return timed(
      [&] { keyed<"cudaLaunchKernelExC", F>()(config, function_for_keys(function), arguments); },
      [&] { return real<library, "cudaLaunchKernelExC", F>()(config, function, arguments); });
}

/// What code of nvcc 13 calls. A null stream is another one by the second name: the keys need not
/// know.
template <Library library, Name name>
cudaError_t launch_handle(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                          std::size_t shared, cudaStream_t stream) {
  using F = cudaError_t(cudaKernel_t, dim3, dim3, void**, std::size_t, cudaStream_t);
  return timed(
      [&] {
        keyed<"__cudaLaunchKernel", F>()(translated(kernel), grid, block, arguments, shared,
                                         stream);
      },
      [&] { return real<library, name, F>()(kernel, grid, block, arguments, shared, stream); });
}
template <Library library>
constexpr auto launch_of_stub = &launch_handle<library, "__cudaLaunchKernel">;
template <Library library>
constexpr auto launch_of_stub_per_thread = &launch_handle<library, "__cudaLaunchKernel_ptsz">;

}  // namespace
}  // namespace phantora::measure

#define PHANTORA_MIRROR_AS(name, type)                        \
  PHANTORA_MIRROR_IN(cudart12, "libcudart.so.12", name, type) \
  PHANTORA_MIRROR_IN(cudart13, "libcudart.so.13", name, type)
#define PHANTORA_MIRROR(name) PHANTORA_MIRROR_AS(name, decltype(name))

PHANTORA_OF_RUNTIME(__cudaRegisterFatBinary, void**(void*), register_fat_binary)
PHANTORA_OF_RUNTIME(__cudaUnregisterFatBinary, void(void**), unregister_fat_binary)
PHANTORA_OF_RUNTIME(__cudaRegisterFunction,
                    void(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*, dim3*,
                         int*),
                    register_function)
PHANTORA_OF_RUNTIME(__cudaRegisterVar,
                    void(void**, char*, char*, const char*, int, std::size_t, int, int),
                    register_variable)

PHANTORA_MIRROR_AS(__cudaGetKernel, cudaError_t(cudaKernel_t*, const void*))
PHANTORA_MIRROR(cudaGetKernel)
PHANTORA_MIRROR(cudaGetFuncBySymbol)
PHANTORA_OF_RUNTIME(cudaLaunchKernel, decltype(cudaLaunchKernel), launch_kernel)
PHANTORA_OF_RUNTIME(cudaLaunchCooperativeKernel, decltype(cudaLaunchCooperativeKernel),
                    launch_cooperative)
PHANTORA_OF_RUNTIME(cudaLaunchKernelExC, decltype(cudaLaunchKernelExC), launch_with)
PHANTORA_OF_RUNTIME(__cudaLaunchKernel,
                    cudaError_t(cudaKernel_t, dim3, dim3, void**, std::size_t, cudaStream_t),
                    launch_of_stub)
PHANTORA_OF_RUNTIME(__cudaLaunchKernel_ptsz,
                    cudaError_t(cudaKernel_t, dim3, dim3, void**, std::size_t, cudaStream_t),
                    launch_of_stub_per_thread)

PHANTORA_MIRROR(cudaMemcpy)
PHANTORA_MIRROR(cudaMemcpyAsync)
PHANTORA_MIRROR(cudaMemcpy2D)
PHANTORA_MIRROR(cudaMemcpy2DAsync)
PHANTORA_MIRROR(cudaMemcpyToSymbol)
PHANTORA_MIRROR(cudaMemcpyToSymbolAsync)
PHANTORA_MIRROR(cudaMemcpyFromSymbol)
PHANTORA_MIRROR(cudaMemcpyFromSymbolAsync)
PHANTORA_MIRROR(cudaMemset)
PHANTORA_MIRROR(cudaMemsetAsync)
PHANTORA_MIRROR(cudaMemset2D)
PHANTORA_MIRROR(cudaMemset2DAsync)
