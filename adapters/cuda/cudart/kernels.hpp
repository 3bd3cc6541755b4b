#pragma once

#include "cuda/driver/function.hpp"

#include <cstddef>

/// Kernels and variables that the program's host code registered with the runtime.
namespace phantora::cudart {

using driver::Function;

/// The kernel behind a host stub, or behind a cudaKernel_t; nullptr if it is neither.
Function* function_of(const void* stub_or_handle);

/// Device memory of a registered __device__ or __constant__ variable on the current device,
/// allocated at the first request.
struct Variable {
  void* address = nullptr;
  std::size_t size = 0;
};
/// A null address with a non-zero size means that device memory ran out; size 0 that `symbol` is
/// not registered.
Variable variable_of(const void* symbol);

}  // namespace phantora::cudart
