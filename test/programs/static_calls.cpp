// Calls a runtime that is linked with it: from an initializer, as code that registers kernels does,
// and later.
#include <cstddef>
#include <cstdio>

extern "C" {
int cudaRuntimeGetVersion(int* version) __attribute__((visibility("hidden")));
int cudaMalloc(void** pointer, std::size_t size) __attribute__((visibility("hidden")));
int cudaFree(void* pointer) __attribute__((visibility("hidden")));
}

namespace {
int version_before_main = 0;
__attribute__((constructor)) void first() { cudaRuntimeGetVersion(&version_before_main); }
}  // namespace

/// A function of the program's own that names one of the runtime's, and nothing else.
extern "C" const char* allocating_function() { return "cudaMalloc"; }

extern "C" int call_static_runtime(int megabytes) {
  void* pointer = nullptr;
  const int allocated = cudaMalloc(&pointer, static_cast<std::size_t>(megabytes) << 20U);
  const bool there = pointer != nullptr;
  const int freed = cudaFree(pointer);
  std::printf("%d: %s %d %s, cudaFree %d\n", version_before_main / 1000, allocating_function(),
              allocated, there ? "memory" : "nothing", freed);
  return std::fflush(stdout);
}
