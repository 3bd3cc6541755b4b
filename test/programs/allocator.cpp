// A program with an allocator of its own that reads the clock and takes a lock whenever it
// allocates, as jemalloc does: the hooks allocate too.

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

namespace {

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
long calls = 0;
thread_local bool inside = false;

}  // namespace

extern "C" void* __libc_malloc(std::size_t size);

extern "C" void* malloc(std::size_t size) {
  if (inside) std::abort();  // an allocation within the allocator: it would wait for itself
  inside = true;
  pthread_mutex_lock(&lock);
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  ++calls;
  pthread_mutex_unlock(&lock);
  inside = false;
  return __libc_malloc(size);
}

int main() {
  void* cudart = dlopen("libcudart.so.13", RTLD_NOW);
  auto* set_device =
      cudart != nullptr ? reinterpret_cast<int (*)(int)>(dlsym(cudart, "cudaSetDevice")) : nullptr;
  if (set_device == nullptr || set_device(0) != 0) return 1;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { set_device(0); });
  }
  for (std::thread& thread : threads) thread.join();
  std::puts(calls > 0 ? "allocated" : "nobody allocated");
}
