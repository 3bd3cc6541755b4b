#include "measure/libraries.hpp"

#include "measure/aliased_memory.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <cuda.h>
#include <dlfcn.h>

namespace phantora::measure {
namespace {

constexpr std::array sonames = {"libcudart.so.12",   "libcudart.so.13",   "libcublas.so.12",
                                "libcublas.so.13",   "libcublasLt.so.12", "libcublasLt.so.13",
                                "libcudnn.so.9",     "libcufft.so.11",    "libcufft.so.12",
                                "libcusolver.so.11", "libcusolver.so.12", "libcusparse.so.12"};

/// Beside this library. Out of the program's sight, and its own names come first in it.
void* keys_library() {
  static void* const handle = [] {
    Dl_info own{};
    dladdr(reinterpret_cast<const void*>(&keys), &own);
    std::string path = own.dli_fname;
    path.replace(path.rfind('/') + 1, path.npos, "libphantora_keys.so");
    void* const opened = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (opened == nullptr) {
      std::fprintf(stderr, "phantora: %s\n", dlerror());
      std::_Exit(70);
    }
    return opened;
  }();
  return handle;
}

template <class F>
F* driver(const char* name) {
  return reinterpret_cast<F*>(driver_function(name));
}

Machine::Place place_of(const void* address) {
  static auto* const ask = driver<decltype(cuPointerGetAttributes)>("cuPointerGetAttributes");
  if (ask == nullptr) return Machine::Place::host;
  CUmemorytype type{};
  unsigned managed = 0;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      CU_POINTER_ATTRIBUTE_IS_MANAGED};
  void* answers[] = {&type, &managed};
  if (ask(2, attributes, answers, reinterpret_cast<CUdeviceptr>(address)) != CUDA_SUCCESS)
    return Machine::Place::host;
  if (managed != 0 || type == CU_MEMORYTYPE_HOST) return Machine::Place::pinned;
  return type == CU_MEMORYTYPE_DEVICE ? Machine::Place::device : Machine::Place::host;
}

bool allocation_of(const void* address, void** base, std::size_t* bytes) {
  static auto* const ask = driver<decltype(cuMemGetAddressRange)>("cuMemGetAddressRange_v2");
  if (ask == nullptr || place_of(address) != Machine::Place::device) return false;
  if (const auto shared = aliased_allocation(address)) {
    *base = shared->base;  // the driver knows of pieces
    *bytes = shared->bytes;
    return true;
  }
  CUdeviceptr start = 0;
  if (ask(&start, bytes, reinterpret_cast<CUdeviceptr>(address)) != CUDA_SUCCESS) return false;
  *base = reinterpret_cast<void*>(start);
  return true;
}

/// The first GPU of the process: one is measured at a time.
bool describe(Machine& real) {
  static std::array<char, 256> name{};
  auto* const init = driver<decltype(cuInit)>("cuInit");
  auto* const name_of = driver<decltype(cuDeviceGetName)>("cuDeviceGetName");
  auto* const attribute = driver<decltype(cuDeviceGetAttribute)>("cuDeviceGetAttribute");
  if (init == nullptr || name_of == nullptr || attribute == nullptr) return false;
  if (init(0) != CUDA_SUCCESS) return false;
  if (name_of(name.data(), name.size(), 0) != CUDA_SUCCESS) return false;
  attribute(&real.capability_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
  attribute(&real.capability_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
  attribute(&real.sm_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0);
  real.gpu_name = name.data();
  real.place_of = place_of;
  real.allocation_of = allocation_of;
  return true;
}

Machine the_machine{};

}  // namespace

void* real_function(Library library, const char* name) {
  const char* const soname = sonames.at(static_cast<std::size_t>(library));
  void* handle = dlopen(soname, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) handle = dlopen(soname, RTLD_LAZY);
  void* const found = handle != nullptr ? unhooked_dlsym(handle, name) : nullptr;
  if (found == nullptr) {
    std::fprintf(stderr, "phantora: %s has no %s: %s\n", soname, name, dlerror());
    std::_Exit(70);
  }
  return found;
}

void* keys_function_named(const char* name) { return unhooked_dlsym(keys_library(), name); }

const Machine& machine() { return the_machine; }

const Keys* keys() {
  static const Keys* const ready = []() -> const Keys* {
    if (!describe(the_machine)) return nullptr;
    const Keys* const all =
        reinterpret_cast<KeysFunction*>(keys_function_named(measure::keys_function))();
    all->begin(&the_machine);
    return all;
  }();
  return ready;
}

void* driver_function(const char* name) {
  static void* const handle = [] {
    void* const loaded = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    return loaded != nullptr ? loaded : dlopen("libcuda.so.1", RTLD_LAZY);
  }();
  return handle != nullptr ? unhooked_dlsym(handle, name) : nullptr;
}

}  // namespace phantora::measure
