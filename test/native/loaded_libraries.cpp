// GPU code that a program loads while it runs, through the runtime and the driver.
#include "expect.hpp"

#include <array>
#include <cstring>
#include <set>
#include <string>

namespace {

constexpr const char* code =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .global .align 4 .u32 counter = 7;\n"
    ".visible .entry f(.param .u64 p, .param .u32 n)\n{\n  ret;\n}\n"
    ".visible .entry g(.param .u32 n)\n{\n  ret;\n}\n";

void by_the_runtime() {
  cudaLibrary_t library = nullptr;
  EXPECT_STATUS(cudaErrorInvalidValue,
                cudaLibraryLoadData(&library, nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0));
  EXPECT_STATUS(cudaErrorFileNotFound, cudaLibraryLoadFromFile(&library, "/no/such/file", nullptr,
                                                               nullptr, 0, nullptr, nullptr, 0));
  WORKS(cudaLibraryLoadData(&library, code, nullptr, nullptr, 0, nullptr, nullptr, 0));
  unsigned value = 0;
  void* counter = nullptr;
  std::size_t size = 0;
  EXPECT_STATUS(cudaErrorSymbolNotFound, cudaLibraryGetGlobal(&counter, &size, library, "none"));
  WORKS(cudaLibraryGetGlobal(&counter, &size, library, "counter"));
  WORKS(cudaMemcpy(&value, counter, sizeof value, cudaMemcpyDeviceToHost));
  EXPECT(size == 4 && value == 7);
  unsigned count = 0;
  WORKS(cudaLibraryGetKernelCount(&count, library));
  EXPECT(count == 2);
  std::array<cudaKernel_t, 2> kernels{};
  WORKS(cudaLibraryEnumerateKernels(kernels.data(), 2, library));
  std::set<std::string> names;
  for (const cudaKernel_t kernel : kernels) {
    const char* name = nullptr;
    WORKS(cudaFuncGetName(&name, kernel));
    names.insert(name);
  }
  EXPECT((names == std::set<std::string>{"f", "g"}));

  cudaKernel_t kernel = nullptr;
  EXPECT_STATUS(cudaErrorSymbolNotFound, cudaLibraryGetKernel(&kernel, library, "h"));
  WORKS(cudaLibraryGetKernel(&kernel, library, "g"));
  EXPECT(kernel == kernels[0] || kernel == kernels[1]);
  WORKS(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        64 << 10, 0));
  cudaFuncAttributes attributes{};
  WORKS(cudaFuncGetAttributes(&attributes, kernel));
  EXPECT(attributes.maxDynamicSharedSizeBytes == 64 << 10);
  unsigned number = 0;
  std::array<void*, 1> arguments{&number};
  WORKS(cudaLaunchKernel(kernel, dim3{1}, dim3{32}, arguments.data(), 64 << 10, nullptr));
  const cudaLaunchConfig_t config{dim3{1}, dim3{32}, 0, nullptr, nullptr, 0};
  WORKS(cudaLaunchKernelExC(&config, kernel, arguments.data()));
  WORKS(cudaDeviceSynchronize());

  WORKS(cudaLibraryUnload(library));
}

void by_the_driver() {
  CUlibrary library = nullptr;
  WORKS(cuLibraryLoadData(&library, code, nullptr, nullptr, 0, nullptr, nullptr, 0));
  unsigned count = 0;
  WORKS(cuLibraryGetKernelCount(&count, library));
  EXPECT(count == 2);
  CUkernel first = nullptr;
  WORKS(cuLibraryEnumerateKernels(&first, 1, library));
  CUlibrary its_library = nullptr;
  WORKS(cuKernelGetLibrary(&its_library, first));
  EXPECT(its_library == library);

  CUkernel kernel = nullptr;
  WORKS(cuLibraryGetKernel(&kernel, library, "f"));
  const char* name = nullptr;
  WORKS(cuKernelGetName(&name, kernel));
  EXPECT(std::strcmp(name, "f") == 0);
  std::size_t parameters = 0;
  WORKS(cuKernelGetParamCount(kernel, &parameters));
  EXPECT(parameters == 2);
  std::size_t offset = 0;
  std::size_t size = 0;
  WORKS(cuKernelGetParamInfo(kernel, 1, &offset, &size));
  EXPECT(offset == 8 && size == 4);
  EXPECT_STATUS(CUDA_ERROR_INVALID_VALUE, cuKernelGetParamInfo(kernel, 2, &offset, &size));
  CUfunction function = nullptr;
  WORKS(cuKernelGetFunction(&function, kernel));
  CUfunctionLoadingState state = CU_FUNCTION_LOADING_STATE_UNLOADED;
  WORKS(cuFuncIsLoaded(&state, function));
  EXPECT(state == CU_FUNCTION_LOADING_STATE_LOADED);

  CUmodule module = nullptr;
  WORKS(cuLibraryGetModule(&module, library));
  WORKS(cuModuleGetFunctionCount(&count, module));
  EXPECT(count == 2);
  std::array<CUfunction, 2> functions{};
  WORKS(cuModuleEnumerateFunctions(functions.data(), 2, module));
  EXPECT(functions[0] == function || functions[1] == function);
  WORKS(cuLibraryUnload(library));
}

}  // namespace

int main() {
  by_the_runtime();
  by_the_driver();
  return failures == 0 ? 0 : 1;
}
