#include "cuda/cublas/handle.hpp"

#include "cuda/driver/copy.hpp"
#include "cuda/version.hpp"

using namespace phantora::cublas;
namespace driver = phantora::driver;
namespace library = phantora::library;

namespace phantora::cublas {

const char* compute_name(cublasComputeType_t compute_type, cublasHandle_t handle) noexcept {
  switch (compute_type) {
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC:
      return "fp16";
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
      return "fp64";
    case CUBLAS_COMPUTE_32I:
    case CUBLAS_COMPUTE_32I_PEDANTIC:
      return "int32";
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return "tf32";
    default:
      return handle && (handle->math_mode & 0xf) == CUBLAS_TF32_TENSOR_OP_MATH ? "tf32" : "fp32";
  }
}

}  // namespace phantora::cublas

PHANTORA_EXPORT cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  return library::guarded(failures, Api::library_setup, [&] {
    if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
    *handle = new cublasContext;
    return CUBLAS_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  return entry(handle, Api::library_setup, [&] {
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int* version) {
  if (!version) return CUBLAS_STATUS_INVALID_VALUE;
  *version = CUBLAS_VERSION;
  return CUBLAS_STATUS_SUCCESS;
}

PHANTORA_EXPORT cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
  if (!value) return CUBLAS_STATUS_INVALID_VALUE;
  switch (type) {
    case MAJOR_VERSION:
      *value = CUBLAS_VER_MAJOR;
      return CUBLAS_STATUS_SUCCESS;
    case MINOR_VERSION:
      *value = CUBLAS_VER_MINOR;
      return CUBLAS_STATUS_SUCCESS;
    case PATCH_LEVEL:
      *value = CUBLAS_VER_PATCH;
      return CUBLAS_STATUS_SUCCESS;
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

PHANTORA_EXPORT std::size_t cublasGetCudartVersion() { return PHANTORA_CUDA_VERSION; }

#define PHANTORA_STATUS(name, text) \
  case name:                        \
    return #name;
PHANTORA_EXPORT const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
#include "cuda/library/cublas_statuses.inc"
    default:
      return "unrecognized status";
  }
}
#undef PHANTORA_STATUS

#define PHANTORA_STATUS(name, text) \
  case name:                        \
    return text;
PHANTORA_EXPORT const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
#include "cuda/library/cublas_statuses.inc"
    default:
      return "unrecognized status";
  }
}
#undef PHANTORA_STATUS

// PHANTORA_PROPERTY(Name, Type, member) defines cublasSetName and cublasGetName.
#define PHANTORA_PROPERTY(set, get, type, member)                          \
  PHANTORA_EXPORT cublasStatus_t set(cublasHandle_t handle, type value) {  \
    return entry(handle, Api::library_setup, [&] {                         \
      handle->member = value;                                              \
      return CUBLAS_STATUS_SUCCESS;                                        \
    });                                                                    \
  }                                                                        \
  PHANTORA_EXPORT cublasStatus_t get(cublasHandle_t handle, type* value) { \
    return entry(handle, Api::library_setup, [&] {                         \
      if (!value) return CUBLAS_STATUS_INVALID_VALUE;                      \
      *value = handle->member;                                             \
      return CUBLAS_STATUS_SUCCESS;                                        \
    });                                                                    \
  }

PHANTORA_PROPERTY(cublasSetStream_v2, cublasGetStream_v2, cudaStream_t, stream)
PHANTORA_PROPERTY(cublasSetMathMode, cublasGetMathMode, cublasMath_t, math_mode)
PHANTORA_PROPERTY(cublasSetPointerMode_v2, cublasGetPointerMode_v2, cublasPointerMode_t,
                  pointer_mode)
PHANTORA_PROPERTY(cublasSetAtomicsMode, cublasGetAtomicsMode, cublasAtomicsMode_t, atomics_mode)
PHANTORA_PROPERTY(cublasSetSmCountTarget, cublasGetSmCountTarget, int, sm_count_target)

PHANTORA_EXPORT cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void*, std::size_t) {
  // Nothing of ours needs one.
  return entry(handle, Api::library_setup, [] { return CUBLAS_STATUS_SUCCESS; });
}

namespace {

/// Column-major copies between host and device; `blocking` as the functions without Async.
cublasStatus_t copy(std::int64_t rows, std::int64_t columns, std::int64_t element, const void* from,
                    std::int64_t from_ld, void* to, std::int64_t to_ld, bool blocking,
                    cudaStream_t stream) {
  return library::guarded(failures, Api::memcpy_async_h2d_pageable, [&] {
    if (rows < 0 || columns < 0 || element <= 0 || from_ld < 1 || to_ld < 1) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    const auto bytes = [&](std::int64_t n) { return static_cast<std::size_t>(n * element); };
    driver::copy(
        {to, bytes(to_ld), from, bytes(from_ld), bytes(rows), static_cast<std::size_t>(columns)},
        blocking, driver::stream_of(stream));
    return CUBLAS_STATUS_SUCCESS;
  });
}

}  // namespace

// A vector with increment i is a matrix of one row per column and leading dimension i.
#define PHANTORA_TRANSFERS(direction, Int, suffix)                                           \
  PHANTORA_EXPORT cublasStatus_t cublas##direction##Vector##suffix(                          \
      Int n, Int element, const void* x, Int incx, void* y, Int incy) {                      \
    return copy(1, n, element, x, incx, y, incy, true, nullptr);                             \
  }                                                                                          \
  PHANTORA_EXPORT cublasStatus_t cublas##direction##VectorAsync##suffix(                     \
      Int n, Int element, const void* x, Int incx, void* y, Int incy, cudaStream_t stream) { \
    return copy(1, n, element, x, incx, y, incy, false, stream);                             \
  }                                                                                          \
  PHANTORA_EXPORT cublasStatus_t cublas##direction##Matrix##suffix(                          \
      Int rows, Int columns, Int element, const void* a, Int lda, void* b, Int ldb) {        \
    return copy(rows, columns, element, a, lda, b, ldb, true, nullptr);                      \
  }                                                                                          \
  PHANTORA_EXPORT cublasStatus_t cublas##direction##MatrixAsync##suffix(                     \
      Int rows, Int columns, Int element, const void* a, Int lda, void* b, Int ldb,          \
      cudaStream_t stream) {                                                                 \
    return copy(rows, columns, element, a, lda, b, ldb, false, stream);                      \
  }
PHANTORA_TRANSFERS(Set, int, )
PHANTORA_TRANSFERS(Get, int, )
PHANTORA_TRANSFERS(Set, std::int64_t, _64)
PHANTORA_TRANSFERS(Get, std::int64_t, _64)
