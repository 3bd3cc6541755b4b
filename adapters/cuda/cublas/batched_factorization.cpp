// Factorisations of batches of small matrices. They are not executed: the matrices become unknown,
// and every factorisation reports success.
#include "cuda/cublas/handle.hpp"
#include "cuda/library/operation.hpp"
#include "rank/memory/data_queue.hpp"
#include "rank/memory/device_memory.hpp"

#include <cstring>
#include <vector>

using namespace phantora::cublas;
namespace library = phantora::library;
namespace rank = phantora::rank;
using phantora::KernelQuery;

namespace {

/// Appends `batch` operations on n-column matrices of `rows` rows, whose pointers are in the device
/// list `matrices`.
void submit(cublasHandle_t handle, const char* name, cudaDataType type, int rows, int n, int batch,
            double flops, void* const* matrices, int ld) {
  KernelQuery query;
  query.name = name;
  query.features = {{"m", rows}, {"n", n}, {"batch", batch}};
  query.attributes = {{"type", library::name_of(type)}};
  query.flops = flops * batch;
  const auto element = static_cast<double>(library::size_of(type));
  query.bytes = 2.0 * rows * n * batch * element;
  rank::launch(stream_of(handle), query);
  const auto bytes =
      static_cast<std::size_t>(ld) * static_cast<std::size_t>(n) * library::size_of(type);
  rank::data::enqueue(stream_of(handle), [=] {
    std::vector<void*> list(static_cast<std::size_t>(batch));
    if (!rank::known(matrices, list.size() * sizeof(void*))) return;
    rank::read(list.data(), matrices, list.size() * sizeof(void*));
    for (void* matrix : list) rank::forget(matrix, bytes);
  });
}

/// Zeros at `info`: every matrix was regular.
void succeed(cublasHandle_t handle, int* info, int batch) {
  if (!info) return;
  const auto bytes = static_cast<std::size_t>(batch) * sizeof(int);
  if (!rank::is_device_address(info)) {
    std::memset(info, 0, bytes);
    return;
  }
  rank::data::enqueue(stream_of(handle), [=] { rank::fill(info, 0, bytes); });
}

template <class T>
cublasStatus_t getrf(cublasHandle_t handle, int n, T* const a[], int lda, int* pivots, int* info,
                     int batch) {
  return entry(handle, Api::gemm, [&] {
    if (n < 0 || batch < 0) return CUBLAS_STATUS_INVALID_VALUE;
    if (n == 0 || batch == 0) return CUBLAS_STATUS_SUCCESS;
    submit(handle, "getrf", type_of<T>, n, n, batch, 2.0 / 3 * n * n * n,
           reinterpret_cast<void* const*>(a), lda);
    if (pivots) {
      // No row was exchanged: pivot i is i, counted from one.
      rank::data::enqueue(stream_of(handle), [=] {
        for (int i = 0; i < n * batch; ++i) {
          const int row = i % n + 1;
          rank::write(pivots + i, &row, sizeof row);
        }
      });
    }
    succeed(handle, info, batch);
    return CUBLAS_STATUS_SUCCESS;
  });
}

template <class T>
cublasStatus_t getrs(cublasHandle_t handle, int n, int columns, T* const b[], int ldb, int* info,
                     int batch) {
  return entry(handle, Api::gemm, [&] {
    if (n < 0 || columns < 0 || batch < 0) return CUBLAS_STATUS_INVALID_VALUE;
    if (n == 0 || columns == 0 || batch == 0) return CUBLAS_STATUS_SUCCESS;
    submit(handle, "getrs", type_of<T>, n, columns, batch, 2.0 * n * n * columns,
           reinterpret_cast<void* const*>(b), ldb);
    if (info) *info = 0;  // a host value in this function
    return CUBLAS_STATUS_SUCCESS;
  });
}

template <class T>
cublasStatus_t getri(cublasHandle_t handle, int n, T* const inverse[], int ld, int* info,
                     int batch) {
  return entry(handle, Api::gemm, [&] {
    if (n < 0 || batch < 0) return CUBLAS_STATUS_INVALID_VALUE;
    if (n == 0 || batch == 0) return CUBLAS_STATUS_SUCCESS;
    submit(handle, "getri", type_of<T>, n, n, batch, 4.0 / 3 * n * n * n,
           reinterpret_cast<void* const*>(inverse), ld);
    succeed(handle, info, batch);
    return CUBLAS_STATUS_SUCCESS;
  });
}

template <class T>
cublasStatus_t geqrf(cublasHandle_t handle, int m, int n, T* const a[], int lda, int* info,
                     int batch) {
  return entry(handle, Api::gemm, [&] {
    if (m < 0 || n < 0 || batch < 0) return CUBLAS_STATUS_INVALID_VALUE;
    if (m == 0 || n == 0 || batch == 0) return CUBLAS_STATUS_SUCCESS;
    submit(handle, "geqrf", type_of<T>, m, n, batch, 2.0 * m * n * n,
           reinterpret_cast<void* const*>(a), lda);
    if (info) *info = 0;
    return CUBLAS_STATUS_SUCCESS;
  });
}

template <class T>
cublasStatus_t gels(cublasHandle_t handle, int m, int n, int columns, T* const c[], int ldc,
                    int* info, int* device_info, int batch) {
  return entry(handle, Api::gemm, [&] {
    if (m < 0 || n < 0 || batch < 0) return CUBLAS_STATUS_INVALID_VALUE;
    if (m == 0 || n == 0 || batch == 0) return CUBLAS_STATUS_SUCCESS;
    submit(handle, "gels", type_of<T>, m, columns, batch, 2.0 * m * n * n,
           reinterpret_cast<void* const*>(c), ldc);
    if (info) *info = 0;
    succeed(handle, device_info, batch);
    return CUBLAS_STATUS_SUCCESS;
  });
}

}  // namespace

#define PHANTORA_FACTORIZATIONS(letter, T)                                                         \
  PHANTORA_EXPORT cublasStatus_t cublas##letter##getrfBatched(                                     \
      cublasHandle_t handle, int n, T* const a[], int lda, int* pivots, int* info, int batch) {    \
    return getrf(handle, n, a, lda, pivots, info, batch);                                          \
  }                                                                                                \
  PHANTORA_EXPORT cublasStatus_t cublas##letter##getrsBatched(                                     \
      cublasHandle_t handle, cublasOperation_t, int n, int columns, const T* const[], int,         \
      const int*, T* const b[], int ldb, int* info, int batch) {                                   \
    return getrs(handle, n, columns, b, ldb, info, batch);                                         \
  }                                                                                                \
  PHANTORA_EXPORT cublasStatus_t cublas##letter##getriBatched(                                     \
      cublasHandle_t handle, int n, const T* const[], int, const int*, T* const c[], int ldc,      \
      int* info, int batch) {                                                                      \
    return getri(handle, n, c, ldc, info, batch);                                                  \
  }                                                                                                \
  PHANTORA_EXPORT cublasStatus_t cublas##letter##geqrfBatched(cublasHandle_t handle, int m, int n, \
                                                              T* const a[], int lda, T* const[],   \
                                                              int* info, int batch) {              \
    return geqrf(handle, m, n, a, lda, info, batch);                                               \
  }                                                                                                \
  PHANTORA_EXPORT cublasStatus_t cublas##letter##gelsBatched(                                      \
      cublasHandle_t handle, cublasOperation_t, int m, int n, int columns, T* const[], int,        \
      T* const c[], int ldc, int* info, int* device_info, int batch) {                             \
    return gels(handle, m, n, columns, c, ldc, info, device_info, batch);                          \
  }
PHANTORA_FACTORIZATIONS(S, float)
PHANTORA_FACTORIZATIONS(D, double)
PHANTORA_FACTORIZATIONS(C, cuComplex)
PHANTORA_FACTORIZATIONS(Z, cuDoubleComplex)
