#pragma once

#include <cstdint>

// cuBLAS exports each routine twice: NAME with int sizes, and NAME_64 with 64-bit ones. Sources
// that include this header are compiled twice, the second time with PHANTORA_BLAS_64.

#ifdef PHANTORA_BLAS_64
using Index = std::int64_t;
#define PHANTORA_BLAS(name) name##_64
#else
using Index = int;
#define PHANTORA_BLAS(name) name
#endif
