#pragma once

#include <cstdint>
#include <type_traits>

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

/// Which object of the keys stands behind a handle of the program. Thread-safe.
namespace phantora::measure {

/// nullptr if none does.
void* handle_for_keys(const void* handle);
void stands_for(const void* handle, void* of_keys);
void forget_handle_at(const void* handle);

/// Types whose values are handles that the keys have objects of their own for.
template <class T>
inline constexpr bool is_handle =
    std::is_same_v<T, cublasHandle_t> || std::is_same_v<T, cublasLtMatmulDesc_t> ||
    std::is_same_v<T, cublasLtMatrixLayout_t> || std::is_same_v<T, cublasLtMatrixTransformDesc_t> ||
    std::is_same_v<T, cudnnHandle_t> || std::is_same_v<T, cudnnTensorDescriptor_t> ||
    std::is_same_v<T, cudnnFilterDescriptor_t> || std::is_same_v<T, cudnnConvolutionDescriptor_t> ||
    std::is_same_v<T, cudnnPoolingDescriptor_t> || std::is_same_v<T, cudnnActivationDescriptor_t> ||
    std::is_same_v<T, cudnnDropoutDescriptor_t> || std::is_same_v<T, cudnnRNNDescriptor_t> ||
    std::is_same_v<T, cudnnRNNDataDescriptor_t> || std::is_same_v<T, cudaKernel_t> ||
    std::is_same_v<T, cudaFunction_t> || std::is_same_v<T, CUmodule> ||
    std::is_same_v<T, CUlibrary>;

// Of libraries whose headers are not here (../cuda/README.md): what their handles are for the ABI.
enum class FftPlan : int {};  // cufftHandle
template <>
inline constexpr bool is_handle<FftPlan> = true;
#define PHANTORA_OPAQUE(name) \
  struct name;                \
  template <>                 \
  inline constexpr bool is_handle<name*> = true;
PHANTORA_OPAQUE(SolverHandle)  // cusolverDnHandle_t
PHANTORA_OPAQUE(SparseHandle)  // cusparseHandle_t
PHANTORA_OPAQUE(SparseMatrix)  // cusparseSpMatDescr_t
PHANTORA_OPAQUE(DenseMatrix)   // cusparseDnMatDescr_t
PHANTORA_OPAQUE(DenseVector)   // cusparseDnVecDescr_t
#undef PHANTORA_OPAQUE

/// A handle as an address: a number stands for itself.
template <class T>
const void* as_address(T handle) {
  if constexpr (std::is_enum_v<T>) {
    return reinterpret_cast<const void*>(static_cast<std::intptr_t>(handle));
  } else {
    return handle;
  }
}
template <class T>
T from_address(void* address) {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<T>(reinterpret_cast<std::intptr_t>(address));
  } else {
    return static_cast<T>(address);
  }
}

template <class T>
void forget_handle(T handle) {
  if constexpr (is_handle<T>) forget_handle_at(as_address(handle));
}

}  // namespace phantora::measure
