// Entry points of cuBLAS.
#include "measure/mirror.hpp"

#define PHANTORA_MIRROR_AS(name, type)                        \
  PHANTORA_MIRROR_IN(cublas12, "libcublas.so.12", name, type) \
  PHANTORA_MIRROR_IN(cublas13, "libcublas.so.13", name, type)
#define PHANTORA_MIRROR(name) PHANTORA_MIRROR_AS(name, decltype(name))
/// Of a routine with int sizes and of its second name, with 64 bits.
#define PHANTORA_ROUTINE(name) \
  PHANTORA_MIRROR(name)        \
  PHANTORA_MIRROR(name##_64)

PHANTORA_MIRROR(cublasCreate_v2)
PHANTORA_MIRROR(cublasDestroy_v2)
PHANTORA_MIRROR(cublasSetStream_v2)
PHANTORA_MIRROR(cublasSetMathMode)
PHANTORA_MIRROR(cublasSetPointerMode_v2)

#define PHANTORA_OF_LETTER(letter)                     \
  PHANTORA_ROUTINE(cublas##letter##gemm_v2)            \
  PHANTORA_ROUTINE(cublas##letter##gemmStridedBatched) \
  PHANTORA_ROUTINE(cublas##letter##gemmBatched)        \
  PHANTORA_ROUTINE(cublas##letter##gemv_v2)            \
  PHANTORA_ROUTINE(cublas##letter##trsm_v2)            \
  PHANTORA_ROUTINE(cublas##letter##trsmBatched)        \
  PHANTORA_ROUTINE(cublas##letter##syrk_v2)            \
  PHANTORA_ROUTINE(cublas##letter##geam)               \
  PHANTORA_ROUTINE(cublas##letter##axpy_v2)            \
  PHANTORA_ROUTINE(cublas##letter##scal_v2)            \
  PHANTORA_ROUTINE(cublas##letter##copy_v2)            \
  PHANTORA_MIRROR(cublas##letter##getrfBatched)        \
  PHANTORA_MIRROR(cublas##letter##getrsBatched)        \
  PHANTORA_MIRROR(cublas##letter##getriBatched)
PHANTORA_OF_LETTER(S)
PHANTORA_OF_LETTER(D)
PHANTORA_OF_LETTER(C)
PHANTORA_OF_LETTER(Z)
PHANTORA_ROUTINE(cublasHgemm)
PHANTORA_ROUTINE(cublasHgemmStridedBatched)
PHANTORA_ROUTINE(cublasHgemmBatched)
PHANTORA_ROUTINE(cublasSgemmEx)
PHANTORA_ROUTINE(cublasSdot_v2)
PHANTORA_ROUTINE(cublasDdot_v2)
PHANTORA_ROUTINE(cublasDotEx)
PHANTORA_ROUTINE(cublasSnrm2_v2)
PHANTORA_ROUTINE(cublasDnrm2_v2)

// The header has these twice for C++, with the compute type as a type of data.
#define PHANTORA_EX(suffix, Int)                                                               \
  PHANTORA_MIRROR_AS(cublasGemmEx##suffix,                                                     \
                     cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, Int, \
                                    Int, Int, const void*, const void*, cudaDataType, Int,     \
                                    const void*, cudaDataType, Int, const void*, void*,        \
                                    cudaDataType, Int, cublasComputeType_t, cublasGemmAlgo_t)) \
  PHANTORA_MIRROR_AS(                                                                          \
      cublasGemmStridedBatchedEx##suffix,                                                      \
      cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, Int, Int, Int,      \
                     const void*, const void*, cudaDataType, Int, long long, const void*,      \
                     cudaDataType, Int, long long, const void*, void*, cudaDataType, Int,      \
                     long long, Int, cublasComputeType_t, cublasGemmAlgo_t))                   \
  PHANTORA_MIRROR_AS(                                                                          \
      cublasGemmBatchedEx##suffix,                                                             \
      cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, Int, Int, Int,      \
                     const void*, const void* const[], cudaDataType, Int, const void* const[], \
                     cudaDataType, Int, const void*, void* const[], cudaDataType, Int, Int,    \
                     cublasComputeType_t, cublasGemmAlgo_t))
PHANTORA_EX(, int)
PHANTORA_EX(_64, std::int64_t)
