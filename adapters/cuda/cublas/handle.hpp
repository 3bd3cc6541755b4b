#pragma once

#include "cuda/library/element.hpp"
#include "cuda/library/entry.hpp"
#include "rank/runtime/timeline.hpp"

#include <cublas_v2.h>
#include <cuda_fp16.h>

/// What a cublasHandle_t points to.
struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasMath_t math_mode = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
  cublasAtomicsMode_t atomics_mode = CUBLAS_ATOMICS_NOT_ALLOWED;
  int sm_count_target = 0;
};

namespace phantora::cublas {

using library::Api;

inline constexpr library::Failures<cublasStatus_t> failures{
    CUBLAS_STATUS_NOT_INITIALIZED, CUBLAS_STATUS_ALLOC_FAILED, CUBLAS_STATUS_INTERNAL_ERROR};

/// Runs `body` on a valid handle.
template <class Body>
cublasStatus_t entry(cublasHandle_t handle, Api api, Body&& body) noexcept {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  return library::guarded(failures, api, body);
}

inline rank::Stream& stream_of(cublasHandle_t handle) { return driver::stream_of(handle->stream); }
inline bool scalars_on_device(cublasHandle_t handle) {
  return handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE;
}

/// The element type of a BLAS letter.
template <class T>
inline constexpr cudaDataType type_of = CUDA_R_32F;
template <>
inline constexpr cudaDataType type_of<__half> = CUDA_R_16F;
template <>
inline constexpr cudaDataType type_of<double> = CUDA_R_64F;
template <>
inline constexpr cudaDataType type_of<cuComplex> = CUDA_C_32F;
template <>
inline constexpr cudaDataType type_of<cuDoubleComplex> = CUDA_C_64F;

/// What products in `compute_type` use, as kernel queries name it, under the handle's math mode.
const char* compute_name(cublasComputeType_t compute_type, cublasHandle_t handle) noexcept;

}  // namespace phantora::cublas
