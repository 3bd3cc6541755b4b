#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>

/// A few calls of the CUDA runtime, for native test programs that are built without its headers.
namespace gpu {

inline void expect(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::exit(1);
}

template <class... Arguments>
int call(const char* name, Arguments... arguments) {
  static void* const runtime = dlopen("libcudart.so.13", RTLD_NOW);
  expect(runtime != nullptr, "dlopen of the CUDA runtime");
  auto* const function = reinterpret_cast<int (*)(Arguments...)>(dlsym(runtime, name));
  expect(function != nullptr, name);
  return function(arguments...);
}
/// The same, expected to succeed.
template <class... Arguments>
void must(const char* name, Arguments... arguments) {
  expect(call(name, arguments...) == 0, name);
}

constexpr int not_ready = 600;  // cudaErrorNotReady

/// A stream with about `milliseconds` of work under way, and an event behind it.
struct Work {
  void *stream = nullptr, *event = nullptr;

  explicit Work(int milliseconds) {
    constexpr std::size_t size = std::size_t{1} << 30;  // a quarter of a millisecond each
    void* memory = nullptr;
    must("cudaStreamCreate", &stream);
    must("cudaEventCreate", &event);
    must("cudaMalloc", &memory, size);
    for (int i = 0; i < 4 * milliseconds; ++i) {
      must("cudaMemsetAsync", memory, 0, size, stream);
    }
    must("cudaEventRecord", event, stream);
  }
  [[nodiscard]] bool done() const { return call("cudaEventQuery", event) == 0; }
  void poll() const {
    while (!done()) {
    }
  }
};

}  // namespace gpu
