#pragma once

#include "cuda/driver/function.hpp"
#include "cuda/driver/loaded_module.hpp"

/// Kernels and variables that the program's host code registered with the runtime.
namespace phantora::cudart {

using driver::Function;
using driver::Variable;

/// The kernel behind a host stub, or behind a cudaKernel_t, registered or of a library that was
/// loaded; nullptr if it is neither.
Function* function_of(const void* stub_or_handle);

/// A registered variable on the current device, where its memory is taken at the first request.
Variable variable_of(const void* symbol);

}  // namespace phantora::cudart
