#pragma once

#include <cuda_runtime_api.h>

/// The release of CUDA whose libraries are made: the newest, or the last of CUDA 12 where CMake
/// says so.
#ifndef PHANTORA_CUDA_VERSION
#define PHANTORA_CUDA_VERSION CUDART_VERSION
#endif
