#pragma once

#include "measure/keys.hpp"

#include <cstdint>

/// Where the real functions are, and those that say what the simulation would ask for.
namespace phantora::measure {

/// A library of NVIDIA's, in the versions that a program may be linked with.
enum class Library : std::uint8_t {
  cudart12,
  cudart13,
  cublas12,
  cublas13,
  cublasLt12,
  cublasLt13,
  cudnn9,
  cufft11,
  cufft12,
  cusolver11,
  cusolver12,
  cusparse12,
};

/// The function that the program would have reached; the process ends if there is none.
void* real_function(Library library, const char* name);
/// The stand-in's function in libphantora_keys.so; nullptr if there is none.
void* keys_function_named(const char* name);
/// After the first call the keys know the GPU. nullptr without a GPU.
const Keys* keys();
/// The GPU that is measured, once there are keys().
const Machine& machine();

/// dlsym without our hook.
void* unhooked_dlsym(void* handle, const char* name);
/// Of the driver library, which is real; nullptr where it is not loaded or has none of that name.
void* driver_function(const char* name);

}  // namespace phantora::measure
