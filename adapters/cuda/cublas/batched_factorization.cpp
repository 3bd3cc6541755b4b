// Factorisations of batches of small matrices. They are not executed: the matrices become unknown,
// and every factorisation reports success.
#include "cuda/cublas/handle.hpp"
#include "cuda/library/operation.hpp"
#include "rank/memory/data_queue.hpp"
#include "rank/memory/device_memory.hpp"

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>

using namespace phantora::cublas;
namespace library = phantora::library;
namespace rank = phantora::rank;
using phantora::KernelQuery;

namespace {

/// Appends `batch` routines of these sizes, which write `rows` x `columns` matrices whose pointers
/// are in the list `matrices`.
void submit(cublasHandle_t handle, const char* name, cudaDataType type,
            std::map<std::string, double, std::less<>> sizes, int batch, void* const* matrices,
            int ld, int columns) {
  KernelQuery query;
  query.name = name;
  query.features = std::move(sizes);
  query.features["batch"] = batch;
  query.attributes = {{"type", library::name_of(type)}};
  rank::launch(stream_of(handle), query);
  library::forget_listed_later(
      stream_of(handle), matrices, batch,
      static_cast<std::size_t>(ld) * static_cast<std::size_t>(columns) * library::size_of(type));
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
    submit(handle, "getrf", type_of<T>, {{"m", n}, {"n", n}}, batch,
           reinterpret_cast<void* const*>(a), lda, n);
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
    submit(handle, "getrs", type_of<T>, {{"n", n}, {"right", columns}}, batch,
           reinterpret_cast<void* const*>(b), ldb, columns);
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
    submit(handle, "getri", type_of<T>, {{"n", n}}, batch, reinterpret_cast<void* const*>(inverse),
           ld, n);
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
    submit(handle, "geqrf", type_of<T>, {{"m", m}, {"n", n}}, batch,
           reinterpret_cast<void* const*>(a), lda, n);
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
    // By QR, which is most of it.
    submit(handle, "geqrf", type_of<T>, {{"m", m}, {"n", n}}, batch,
           reinterpret_cast<void* const*>(c), ldc, columns);
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
