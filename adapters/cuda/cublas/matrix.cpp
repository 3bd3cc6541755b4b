// Level 2 and 3 beside the general products: these are not executed, they take their time and make
// their outputs unknown.
#include "cuda/cublas/handle.hpp"
#include "cuda/cublas/index.hpp"
#include "cuda/library/operation.hpp"

#include <cstdint>

using namespace phantora::cublas;
namespace library = phantora::library;
namespace rank = phantora::rank;
using phantora::KernelQuery;

namespace {

/// An operation on matrices of one type: m, n, k as its documentation has them, `flops` and the
/// number of elements read and written.
KernelQuery describe(const char* name, cudaDataType type, std::int64_t m, std::int64_t n,
                     std::int64_t k, std::int64_t batch, double flops, double elements) {
  KernelQuery query;
  query.name = name;
  query.features = {{"m", static_cast<double>(m)},
                    {"n", static_cast<double>(n)},
                    {"k", static_cast<double>(k)},
                    {"batch", static_cast<double>(batch)}};
  query.attributes = {{"type", library::name_of(type)}};
  query.flops = flops * static_cast<double>(batch);
  query.bytes = elements * static_cast<double>(library::size_of(type)) * static_cast<double>(batch);
  return query;
}

/// Bytes of a column-major matrix.
std::size_t extent(std::int64_t rows, std::int64_t columns, std::int64_t ld, cudaDataType type) {
  if (rows <= 0 || columns <= 0) return 0;
  return static_cast<std::size_t>(ld * (columns - 1) + rows) * library::size_of(type);
}

/// B (m x n) becomes op(A)^-1 B or B op(A)^-1.
template <class T>
KernelQuery trsm_query(cublasSideMode_t side, Index m, Index n, Index batch) {
  const bool left = side == CUBLAS_SIDE_LEFT;
  KernelQuery query;
  query.name = "trsm";
  query.features = {{"n", static_cast<double>(left ? m : n)},
                    {"right", static_cast<double>(left ? n : m)},
                    {"batch", static_cast<double>(batch)}};
  query.attributes = {{"type", library::name_of(type_of<T>)}, {"side", left ? "left" : "right"}};
  return query;
}

template <class T>
cublasStatus_t trsm(cublasHandle_t handle, cublasSideMode_t side, Index m, Index n, T* b,
                    Index ldb) {
  return entry(handle, Api::gemm, [&] {
    if (m < 0 || n < 0) return CUBLAS_STATUS_INVALID_VALUE;
    if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
    library::submit(stream_of(handle), trsm_query<T>(side, m, n, 1),
                    {{b, extent(m, n, ldb, type_of<T>)}});
    return CUBLAS_STATUS_SUCCESS;
  });
}

template <class T>
cublasStatus_t trsm_batched(cublasHandle_t handle, cublasSideMode_t side, Index m, Index n,
                            T* const b[], Index ldb, Index batch) {
  return entry(handle, Api::gemm, [&] {
    if (m < 0 || n < 0 || batch < 0) return CUBLAS_STATUS_INVALID_VALUE;
    if (m == 0 || n == 0 || batch == 0) return CUBLAS_STATUS_SUCCESS;
    rank::launch(stream_of(handle), trsm_query<T>(side, m, n, batch));
    library::forget_listed_later(stream_of(handle), reinterpret_cast<void* const*>(b), batch,
                                 extent(m, n, ldb, type_of<T>));
    return CUBLAS_STATUS_SUCCESS;
  });
}

/// C (m x n) from products of matrices of which one has structure: symm, hemm, trmm, syrk, herk,
/// syr2k, her2k. `flops` and `elements` as in describe().
template <class T>
cublasStatus_t structured(cublasHandle_t handle, const char* name, Index m, Index n, Index k,
                          double flops, double elements, T* c, Index ldc) {
  return entry(handle, Api::gemm, [&] {
    if (m < 0 || n < 0 || k < 0) return CUBLAS_STATUS_INVALID_VALUE;
    if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
    library::submit(stream_of(handle), describe(name, type_of<T>, m, n, k, 1, flops, elements),
                    {{c, extent(m, n, ldc, type_of<T>)}});
    return CUBLAS_STATUS_SUCCESS;
  });
}

double product(Index a, Index b) { return static_cast<double>(a) * static_cast<double>(b); }

template <class T>
cublasStatus_t rank_k(cublasHandle_t handle, const char* name, Index n, Index k, int sides, T* c,
                      Index ldc) {
  return structured(handle, name, n, n, k, sides * product(n, n) * static_cast<double>(k),
                    sides * product(n, k) + product(n, n), c, ldc);
}

template <class T>
cublasStatus_t side_product(cublasHandle_t handle, const char* name, cublasSideMode_t side, Index m,
                            Index n, double flops_per_element, T* c, Index ldc) {
  const Index order = side == CUBLAS_SIDE_LEFT ? m : n;
  return structured(handle, name, m, n, order,
                    flops_per_element * product(m, n) * static_cast<double>(order),
                    product(order, order) + 3 * product(m, n), c, ldc);
}

template <class T>
cublasStatus_t ger(cublasHandle_t handle, Index m, Index n, T* a, Index lda) {
  return structured(handle, "ger", m, n, 1, 2 * product(m, n), 2 * product(m, n), a, lda);
}

}  // namespace

#define PHANTORA_MATRICES(letter, T)                                                              \
  PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(cublas##letter##trsm_v2)(                          \
      cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t, cublasOperation_t,          \
      cublasDiagType_t, Index m, Index n, const T*, const T*, Index, T* b, Index ldb) {           \
    return trsm(handle, side, m, n, b, ldb);                                                      \
  }                                                                                               \
  PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(cublas##letter##trsmBatched)(                      \
      cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t, cublasOperation_t,          \
      cublasDiagType_t, Index m, Index n, const T*, const T* const[], Index, T* const b[],        \
      Index ldb, Index batch) {                                                                   \
    return trsm_batched(handle, side, m, n, b, ldb, batch);                                       \
  }                                                                                               \
  PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(cublas##letter##syrk_v2)(                          \
      cublasHandle_t handle, cublasFillMode_t, cublasOperation_t, Index n, Index k, const T*,     \
      const T*, Index, const T*, T* c, Index ldc) {                                               \
    return rank_k(handle, "syrk", n, k, 1, c, ldc);                                               \
  }                                                                                               \
  PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(cublas##letter##syr2k_v2)(                         \
      cublasHandle_t handle, cublasFillMode_t, cublasOperation_t, Index n, Index k, const T*,     \
      const T*, Index, const T*, Index, const T*, T* c, Index ldc) {                              \
    return rank_k(handle, "syr2k", n, k, 2, c, ldc);                                              \
  }                                                                                               \
  PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(cublas##letter##symm_v2)(                          \
      cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t, Index m, Index n, const T*, \
      const T*, Index, const T*, Index, const T*, T* c, Index ldc) {                              \
    return side_product(handle, "symm", side, m, n, 2, c, ldc);                                   \
  }                                                                                               \
  PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(cublas##letter##trmm_v2)(                          \
      cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t, cublasOperation_t,          \
      cublasDiagType_t, Index m, Index n, const T*, const T*, Index, const T*, Index, T* c,       \
      Index ldc) {                                                                                \
    return side_product(handle, "trmm", side, m, n, 1, c, ldc);                                   \
  }                                                                                               \
  PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(cublas##letter##geam)(                             \
      cublasHandle_t handle, cublasOperation_t, cublasOperation_t, Index m, Index n, const T*,    \
      const T*, Index, const T*, const T*, Index, T* c, Index ldc) {                              \
    return structured(handle, "geam", m, n, 1, 3 * product(m, n), 3 * product(m, n), c, ldc);     \
  }
PHANTORA_MATRICES(S, float)
PHANTORA_MATRICES(D, double)
PHANTORA_MATRICES(C, cuComplex)
PHANTORA_MATRICES(Z, cuDoubleComplex)

#define PHANTORA_GER(name, T)                                                                    \
  PHANTORA_EXPORT cublasStatus_t PHANTORA_BLAS(name)(cublasHandle_t handle, Index m, Index n,    \
                                                     const T*, const T*, Index, const T*, Index, \
                                                     T* a, Index lda) {                          \
    return ger(handle, m, n, a, lda);                                                            \
  }
PHANTORA_GER(cublasSger_v2, float)
PHANTORA_GER(cublasDger_v2, double)
PHANTORA_GER(cublasCgeru_v2, cuComplex)
PHANTORA_GER(cublasCgerc_v2, cuComplex)
PHANTORA_GER(cublasZgeru_v2, cuDoubleComplex)
PHANTORA_GER(cublasZgerc_v2, cuDoubleComplex)
