#include "cuda/library/gemm.hpp"

#include "cuda/cublas/handle.hpp"
#include "cuda/cublas/index.hpp"

using namespace phantora::cublas;
namespace library = phantora::library;
using library::Gemm;

namespace {

/// What every product takes: operations, sizes and the handle's settings.
Gemm start(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, Index m,
           Index n, Index k, const void* alpha, const void* beta, cudaDataType scale,
           const char* compute) {
  Gemm gemm;
  gemm.m = m;
  gemm.n = n;
  gemm.k = k;
  gemm.transpose_a = transa != CUBLAS_OP_N;
  gemm.transpose_b = transb != CUBLAS_OP_N;
  gemm.alpha = alpha;
  gemm.beta = beta;
  gemm.scale_type = scale;
  gemm.scalars_on_device = scalars_on_device(handle);
  gemm.compute = compute;
  return gemm;
}

/// Checks sizes and leading dimensions as cuBLAS does, then appends the product.
cublasStatus_t submit(cublasHandle_t handle, const Gemm& gemm) {
  if (gemm.m < 0 || gemm.n < 0 || gemm.k < 0 || gemm.batch < 0) return CUBLAS_STATUS_INVALID_VALUE;
  const auto at_least = [](std::int64_t ld, std::int64_t rows) {
    return ld >= (rows > 1 ? rows : 1);
  };
  if (!at_least(gemm.a.ld, gemm.transpose_a ? gemm.k : gemm.m) ||
      !at_least(gemm.b.ld, gemm.transpose_b ? gemm.n : gemm.k) || !at_least(gemm.d.ld, gemm.m) ||
      !gemm.alpha || !gemm.beta) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  library::gemm(stream_of(handle), gemm);
  return CUBLAS_STATUS_SUCCESS;
}

/// The type of alpha and beta that belongs to a compute type.
cudaDataType scale_type(cublasComputeType_t compute) {
  switch (compute) {
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC:
      return CUDA_R_16F;
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
      return CUDA_R_64F;
    case CUBLAS_COMPUTE_32I:
    case CUBLAS_COMPUTE_32I_PEDANTIC:
      return CUDA_R_32I;
    default:
      return CUDA_R_32F;
  }
}

/// Complex operands take complex scalars of their precision.
cudaDataType scale_type(cublasComputeType_t compute, cudaDataType a) {
  if (a == CUDA_C_32F || a == CUDA_C_64F) return a;
  return scale_type(compute);
}

template <class T>
const char* compute_of(cublasHandle_t handle) {
  constexpr bool is_double = type_of<T> == CUDA_R_64F || type_of<T> == CUDA_C_64F;
  return compute_name(is_double ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, handle);
}

template <class T>
cublasStatus_t plain(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                     Index m, Index n, Index k, const T* alpha, const T* a, Index lda,
                     long long stride_a, const T* b, Index ldb, long long stride_b, const T* beta,
                     T* c, Index ldc, long long stride_c, Index batch) {
  return entry(handle, Api::gemm, [&] {
    Gemm gemm =
        start(handle, transa, transb, m, n, k, alpha, beta, type_of<T>, compute_of<T>(handle));
    gemm.a = {a, type_of<T>, lda, stride_a};
    gemm.b = {b, type_of<T>, ldb, stride_b};
    gemm.c = gemm.d = {c, type_of<T>, ldc, stride_c};
    gemm.batch = batch;
    return submit(handle, gemm);
  });
}

/// Products of lists of matrices. The lists are of pointers to matrices of one type.
cublasStatus_t batched(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                       Index m, Index n, Index k, const void* alpha, const void* const* a,
                       cudaDataType a_type, Index lda, const void* const* b, cudaDataType b_type,
                       Index ldb, const void* beta, void* const* c, cudaDataType c_type, Index ldc,
                       Index batch, cudaDataType scale, const char* compute) {
  return entry(handle, Api::gemm, [&] {
    Gemm gemm = start(handle, transa, transb, m, n, k, alpha, beta, scale, compute);
    gemm.a = {nullptr, a_type, lda, 0};
    gemm.b = {nullptr, b_type, ldb, 0};
    gemm.c = gemm.d = {nullptr, c_type, ldc, 0};
    gemm.a_array = a;
    gemm.b_array = b;
    gemm.d_array = c;
    gemm.batch = batch;
    return submit(handle, gemm);
  });
}

template <class T>
cublasStatus_t batched(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                       Index m, Index n, Index k, const T* alpha, const T* const* a, Index lda,
                       const T* const* b, Index ldb, const T* beta, T* const* c, Index ldc,
                       Index batch) {
  return batched(handle, transa, transb, m, n, k, alpha, reinterpret_cast<const void* const*>(a),
                 type_of<T>, lda, reinterpret_cast<const void* const*>(b), type_of<T>, ldb, beta,
                 reinterpret_cast<void* const*>(c), type_of<T>, ldc, batch, type_of<T>,
                 compute_of<T>(handle));
}

cublasStatus_t extended(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                        Index m, Index n, Index k, const void* alpha, const void* a,
                        cudaDataType a_type, Index lda, long long stride_a, const void* b,
                        cudaDataType b_type, Index ldb, long long stride_b, const void* beta,
                        void* c, cudaDataType c_type, Index ldc, long long stride_c, Index batch,
                        cublasComputeType_t compute) {
  return entry(handle, Api::gemm, [&] {
    Gemm gemm = start(handle, transa, transb, m, n, k, alpha, beta, scale_type(compute, a_type),
                      compute_name(compute, handle));
    gemm.a = {a, a_type, lda, stride_a};
    gemm.b = {b, b_type, ldb, stride_b};
    gemm.c = gemm.d = {c, c_type, ldc, stride_c};
    gemm.batch = batch;
    return submit(handle, gemm);
  });
}

}  // namespace

#define PHANTORA_GEMMS(letter, T)                                                                  \
  PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(cublas##letter##gemm_v2)(                           \
      cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, Index m, Index n, \
      Index k, const T* alpha, const T* a, Index lda, const T* b, Index ldb, const T* beta, T* c,  \
      Index ldc) {                                                                                 \
    return plain(handle, transa, transb, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0,    \
                 1);                                                                               \
  }                                                                                                \
  PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(cublas##letter##gemmStridedBatched)(                \
      cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, Index m, Index n, \
      Index k, const T* alpha, const T* a, Index lda, long long stride_a, const T* b, Index ldb,   \
      long long stride_b, const T* beta, T* c, Index ldc, long long stride_c, Index batch) {       \
    return plain(handle, transa, transb, m, n, k, alpha, a, lda, stride_a, b, ldb, stride_b, beta, \
                 c, ldc, stride_c, batch);                                                         \
  }                                                                                                \
  PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(cublas##letter##gemmBatched)(                       \
      cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, Index m, Index n, \
      Index k, const T* alpha, const T* const a[], Index lda, const T* const b[], Index ldb,       \
      const T* beta, T* const c[], Index ldc, Index batch) {                                       \
    return batched(handle, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, batch);   \
  }
PHANTORA_GEMMS(H, __half)
PHANTORA_GEMMS(S, float)
PHANTORA_GEMMS(D, double)
PHANTORA_GEMMS(C, cuComplex)
PHANTORA_GEMMS(Z, cuDoubleComplex)

PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(cublasSgemmEx)(
    cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, Index m, Index n,
    Index k, const float* alpha, const void* a, cudaDataType a_type, Index lda, const void* b,
    cudaDataType b_type, Index ldb, const float* beta, void* c, cudaDataType c_type, Index ldc) {
  return extended(handle, transa, transb, m, n, k, alpha, a, a_type, lda, 0, b, b_type, ldb, 0,
                  beta, c, c_type, ldc, 0, 1, CUBLAS_COMPUTE_32F);
}

PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(cublasGemmEx)(
    cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, Index m, Index n,
    Index k, const void* alpha, const void* a, cudaDataType a_type, Index lda, const void* b,
    cudaDataType b_type, Index ldb, const void* beta, void* c, cudaDataType c_type, Index ldc,
    cublasComputeType_t compute, cublasGemmAlgo_t) {
  return extended(handle, transa, transb, m, n, k, alpha, a, a_type, lda, 0, b, b_type, ldb, 0,
                  beta, c, c_type, ldc, 0, 1, compute);
}

PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(cublasGemmStridedBatchedEx)(
    cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, Index m, Index n,
    Index k, const void* alpha, const void* a, cudaDataType a_type, Index lda, long long stride_a,
    const void* b, cudaDataType b_type, Index ldb, long long stride_b, const void* beta, void* c,
    cudaDataType c_type, Index ldc, long long stride_c, Index batch, cublasComputeType_t compute,
    cublasGemmAlgo_t) {
  return extended(handle, transa, transb, m, n, k, alpha, a, a_type, lda, stride_a, b, b_type, ldb,
                  stride_b, beta, c, c_type, ldc, stride_c, batch, compute);
}

PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(cublasGemmBatchedEx)(
    cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, Index m, Index n,
    Index k, const void* alpha, const void* const a[], cudaDataType a_type, Index lda,
    const void* const b[], cudaDataType b_type, Index ldb, const void* beta, void* const c[],
    cudaDataType c_type, Index ldc, Index batch, cublasComputeType_t compute, cublasGemmAlgo_t) {
  return batched(handle, transa, transb, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c,
                 c_type, ldc, batch, scale_type(compute, a_type), compute_name(compute, handle));
}

PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(cublasGemmGroupedBatchedEx)(
    cublasHandle_t handle, const cublasOperation_t transa[], const cublasOperation_t transb[],
    const Index m[], const Index n[], const Index k[], const void* alpha, const void* const a[],
    cudaDataType a_type, const Index lda[], const void* const b[], cudaDataType b_type,
    const Index ldb[], const void* beta, void* const c[], cudaDataType c_type, const Index ldc[],
    Index groups, const Index group_size[], cublasComputeType_t compute) {
  // Groups have one alpha and beta each and follow one another in the lists of matrices.
  const std::size_t scalar = library::size_of(scale_type(compute));
  std::size_t first = 0;
  for (Index group = 0; group < groups; ++group) {
    const auto offset = static_cast<std::size_t>(group) * scalar;
    const cublasStatus_t status = batched(
        handle, transa[group], transb[group], m[group], n[group], k[group],
        static_cast<const std::byte*>(alpha) + offset, a + first, a_type, lda[group], b + first,
        b_type, ldb[group], static_cast<const std::byte*>(beta) + offset, c + first, c_type,
        ldc[group], group_size[group], scale_type(compute), compute_name(compute, handle));
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    first += static_cast<std::size_t>(group_size[group]);
  }
  return CUBLAS_STATUS_SUCCESS;
}

PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(cublasSgemmGroupedBatched)(
    cublasHandle_t handle, const cublasOperation_t transa[], const cublasOperation_t transb[],
    const Index m[], const Index n[], const Index k[], const float alpha[], const float* const a[],
    const Index lda[], const float* const b[], const Index ldb[], const float beta[],
    float* const c[], const Index ldc[], Index groups, const Index group_size[]) {
  return PHANTORA_BLAS(cublasGemmGroupedBatchedEx)(
      handle, transa, transb, m, n, k, alpha, reinterpret_cast<const void* const*>(a), CUDA_R_32F,
      lda, reinterpret_cast<const void* const*>(b), CUDA_R_32F, ldb, beta,
      reinterpret_cast<void* const*>(c), CUDA_R_32F, ldc, groups, group_size, CUBLAS_COMPUTE_32F);
}

PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(cublasDgemmGroupedBatched)(
    cublasHandle_t handle, const cublasOperation_t transa[], const cublasOperation_t transb[],
    const Index m[], const Index n[], const Index k[], const double alpha[],
    const double* const a[], const Index lda[], const double* const b[], const Index ldb[],
    const double beta[], double* const c[], const Index ldc[], Index groups,
    const Index group_size[]) {
  return PHANTORA_BLAS(cublasGemmGroupedBatchedEx)(
      handle, transa, transb, m, n, k, alpha, reinterpret_cast<const void* const*>(a), CUDA_R_64F,
      lda, reinterpret_cast<const void* const*>(b), CUDA_R_64F, ldb, beta,
      reinterpret_cast<void* const*>(c), CUDA_R_64F, ldc, groups, group_size, CUBLAS_COMPUTE_64F);
}

// A matrix-vector product is a product whose right side has one column; increments other than one
// are leading dimensions of a row.
#define PHANTORA_GEMV(letter, T)                                                                   \
  PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(cublas##letter##gemv_v2)(                           \
      cublasHandle_t handle, cublasOperation_t trans, Index m, Index n, const T* alpha,            \
      const T* a, Index lda, const T* x, Index incx, const T* beta, T* y, Index incy) {            \
    return entry(handle, Api::gemm, [&] {                                                          \
      if (incx == 0 || incy == 0) return CUBLAS_STATUS_INVALID_VALUE;                              \
      /* y^T (1 x rows) = x^T (1 x columns) * op(A)^T: rows of one element keep the increments. */ \
      const bool transposed = trans != CUBLAS_OP_N;                                                \
      Gemm gemm = start(handle, CUBLAS_OP_N, transposed ? CUBLAS_OP_N : CUBLAS_OP_T, 1,            \
                        transposed ? n : m, transposed ? m : n, alpha, beta, type_of<T>,           \
                        compute_of<T>(handle));                                                    \
      gemm.a = {x, type_of<T>, incx, 0};                                                           \
      gemm.b = {a, type_of<T>, lda, 0};                                                            \
      gemm.c = gemm.d = {y, type_of<T>, incy, 0};                                                  \
      return submit(handle, gemm);                                                                 \
    });                                                                                            \
  }
PHANTORA_GEMV(S, float)
PHANTORA_GEMV(D, double)
PHANTORA_GEMV(C, cuComplex)
PHANTORA_GEMV(Z, cuDoubleComplex)
