// cuSOLVER's dense factorisations, solves, eigenvalues and singular values, as PyTorch's linear
// algebra uses them. None is executed: they take their time, report success, and what they write is
// unknown. The few types of its documented ABI are declared here: the header would be one more
// wheel to fetch.
#include "cuda/library/algebra.hpp"
#include "cuda/library/element.hpp"
#include "cuda/library/operation.hpp"
#include "cuda/library/version.hpp"
#include "rank/memory/data_queue.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/runtime/capture.hpp"

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include <driver_types.h>
#include <library_types.h>

using namespace phantora;
using namespace phantora::library::algebra;
using library::Api;
using library::Output;

namespace {

struct Handle {  // cusolverDnHandle_t
  cudaStream_t stream = nullptr;
  int deterministic = 1;  // CUSOLVER_DETERMINISTIC_RESULTS
};

/// Settings of which only the address is used: they change accuracy, not time or sizes.
struct Settings {
  double tolerance = 0;
};

cudaDataType real_of(cudaDataType type) {
  return type == CUDA_C_32F ? CUDA_R_32F : type == CUDA_C_64F ? CUDA_R_64F : type;
}

/// Columns of `rows` elements, `leading` apart.
Output matrix(const void* address, std::int64_t rows, std::int64_t columns, std::int64_t leading,
              cudaDataType type) {
  if (rows < 1 || columns < 1) return {};
  return {address,
          static_cast<std::size_t>(leading * (columns - 1) + rows) * library::size_of(type)};
}

Output vector(const void* address, std::int64_t size, cudaDataType type) {
  return matrix(address, size, 1, size, type);
}

/// What a query tells of a routine: a size, or a word.
struct Told {
  const char* key;
  double size = 0;
  const char* word = nullptr;

  Told(const char* name, std::integral auto value) : key{name}, size{static_cast<double>(value)} {}
  Told(const char* name, bool answer) : key{name}, word{answer ? "1" : "0"} {}
  Told(const char* name, const char* value) : key{name}, word{value} {}
};

/// These look at results on the way, so that the program waits for all but the last kernels: 268
/// calls on an H200 (lib/kernels/data/h200_sweep15.jsonl.gz) return when 0.99 of their time is
/// over, in the median.
bool waits_for_results(std::string_view name) {
  return name.starts_with("syev") || name.starts_with("gesvd") || name == "geev";
}

/// `count` zeros at `info`, in stream order: all went well.
void succeed(rank::Stream& stream, int* info, std::int64_t count) {
  if (!info) return;
  const auto bytes = static_cast<std::size_t>(count) * sizeof(int);
  rank::data::enqueue(stream, [=] { rank::fill(info, 0, bytes); });
}

/// One call, of `batch` problems.
Status submit(void* handle, const char* name, cudaDataType type, std::initializer_list<Told> told,
              std::initializer_list<Output> outputs, int* info, std::int64_t batch = 1) {
  return library::guarded(failures, Api::launch, [&] {
    if (!handle) return not_initialized;
    if (batch < 0) return invalid_value;
    KernelQuery query;
    query.name = name;
    query.attributes = {{"type", library::name_of(type)}};
    query.features = {{"batch", static_cast<double>(batch)}};
    bool empty = batch == 0;
    for (const Told& one : told) {
      if (one.word) {
        query.attributes[one.key] = one.word;
      } else {
        query.features[one.key] = one.size;
        empty = empty || one.size <= 0;
      }
    }
    rank::Stream& stream = driver::stream_of(as<Handle>(handle).stream);
    if (!empty) library::submit(stream, query, outputs);
    succeed(stream, info, batch);
    if (waits_for_results(name) && !rank::capturing(stream)) rank::synchronize(stream);
    return success;
  });
}

/// The same for matrices of `columns` columns that a list of addresses on the GPU names. `infos`:
/// how many numbers the call reports.
Status submit_listed(void* handle, const char* name, cudaDataType type,
                     std::initializer_list<Told> told, void* const* list, int leading, int columns,
                     int* info, int infos, int batch) {
  const Status status = submit(handle, name, type, told, {}, nullptr, batch);
  if (status != success || batch == 0) return status;
  rank::Stream& stream = driver::stream_of(as<Handle>(handle).stream);
  library::forget_listed_later(stream, list, batch,
                               static_cast<std::size_t>(leading) *
                                   static_cast<std::size_t>(columns) * library::size_of(type));
  succeed(stream, info, infos);
  return success;
}

/// What a program is asked to give as workspace: a panel of 64 columns. NVIDIA's own sizes differ.
std::int64_t panel(std::int64_t m, std::int64_t n) {
  return 64 * std::max<std::int64_t>({m, n, 1});
}
Status elements(int* count, std::int64_t m, std::int64_t n, std::int64_t batch = 1) {
  if (!count || m < 0 || n < 0) return invalid_value;
  *count = static_cast<int>(panel(m, n) * batch);
  return success;
}
Status bytes(std::size_t* device, std::size_t* host, std::int64_t n, cudaDataType type,
             std::int64_t batch = 1) {
  if (!device || !host || n < 0) return invalid_value;
  *device = static_cast<std::size_t>(panel(n, n) * batch) * library::size_of(type);
  *host = 0;
  return success;
}

constexpr int with_vectors = 1;  // CUSOLVER_EIG_MODE_VECTOR
constexpr int left_side = 0;     // CUBLAS_SIDE_LEFT

}  // namespace

#define PHANTORA_OBJECT(NAME, TYPE)                                                         \
  PHANTORA_EXPORT Status cusolverDnCreate##NAME(void** made) { return create<TYPE>(made); } \
  PHANTORA_EXPORT Status cusolverDnDestroy##NAME(void* made) { return destroy<TYPE>(made); }
PHANTORA_OBJECT(, Handle)
PHANTORA_OBJECT(Params, Settings)
PHANTORA_OBJECT(SyevjInfo, Settings)
PHANTORA_OBJECT(GesvdjInfo, Settings)
#undef PHANTORA_OBJECT

constexpr phantora::library::Version version_of_cusolver{12, 0, 4};  // cusolver_common.h

PHANTORA_EXPORT Status cusolverGetVersion(int* version) {
  return version_of_cusolver.tell(version, success, invalid_value);
}

PHANTORA_EXPORT Status cusolverGetProperty(libraryPropertyType part, int* value) {
  return version_of_cusolver.tell(part, value, success, invalid_value);
}

PHANTORA_EXPORT Status cusolverDnSetStream(void* handle, cudaStream_t stream) {
  return set(handle, &Handle::stream, stream);
}
PHANTORA_EXPORT Status cusolverDnGetStream(void* handle, cudaStream_t* stream) {
  return get(handle, &Handle::stream, stream);
}
PHANTORA_EXPORT Status cusolverDnSetDeterministicMode(void* handle, int mode) {
  return set(handle, &Handle::deterministic, mode);
}
PHANTORA_EXPORT Status cusolverDnGetDeterministicMode(void* handle, int* mode) {
  return get(handle, &Handle::deterministic, mode);
}

#define PHANTORA_JACOBI(NAME)                                                            \
  PHANTORA_EXPORT Status cusolverDnX##NAME##SetTolerance(void* settings, double value) { \
    as<Settings>(settings).tolerance = value;                                            \
    return success;                                                                      \
  }                                                                                      \
  PHANTORA_EXPORT Status cusolverDnX##NAME##SetMaxSweeps(void*, int) { return success; } \
  PHANTORA_EXPORT Status cusolverDnX##NAME##SetSortEig(void*, int) { return success; }
PHANTORA_JACOBI(syevj)
PHANTORA_JACOBI(gesvdj)
#undef PHANTORA_JACOBI

// The calls of one element type. L is its letter, T the type; ORTHOGONAL and SYMMETRIC are what
// LAPACK calls such matrices of real (or, syevd, heevd) and complex numbers.
#define PHANTORA_TYPE(L, T, ORG, ORM, SYEV)                                                        \
  PHANTORA_EXPORT Status cusolverDn##L##getrf_bufferSize(void*, int m, int n, void*, int,          \
                                                         int* size) {                              \
    return elements(size, m, n);                                                                   \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##getrf(void* handle, int m, int n, void* a, int lda, void*, \
                                              int* pivots, int* info) {                            \
    return submit(handle, "getrf", T, {{"m", m}, {"n", n}},                                        \
                  {matrix(a, m, n, lda, T), vector(pivots, std::min(m, n), CUDA_R_32I)}, info);    \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##getrs(void* handle, int, int n, int right, const void*,    \
                                              int, const int*, void* b, int ldb, int* info) {      \
    return submit(handle, "getrs", T, {{"n", n}, {"right", right}}, {matrix(b, n, right, ldb, T)}, \
                  info);                                                                           \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##geqrf_bufferSize(void*, int m, int n, void*, int,          \
                                                         int* size) {                              \
    return elements(size, m, n);                                                                   \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##geqrf(void* handle, int m, int n, void* a, int lda,        \
                                              void* tau, void*, int, int* info) {                  \
    return submit(handle, "geqrf", T, {{"m", m}, {"n", n}},                                        \
                  {matrix(a, m, n, lda, T), vector(tau, std::min(m, n), T)}, info);                \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##potrf_bufferSize(void*, int, int n, void*, int,            \
                                                         int* size) {                              \
    return elements(size, n, n);                                                                   \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##potrf(void* handle, int, int n, void* a, int lda, void*,   \
                                              int, int* info) {                                    \
    return submit(handle, "potrf", T, {{"n", n}}, {matrix(a, n, n, lda, T)}, info);                \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##potrs(void* handle, int, int n, int right, const void*,    \
                                              int, void* b, int ldb, int* info) {                  \
    return submit(handle, "potrs", T, {{"n", n}, {"right", right}}, {matrix(b, n, right, ldb, T)}, \
                  info);                                                                           \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##potrfBatched(void* handle, int, int n, void* a[], int lda, \
                                                     int* info, int batch) {                       \
    return submit_listed(handle, "potrf", T, {{"n", n}}, a, lda, n, info, batch, batch);           \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##potrsBatched(void* handle, int, int n, int right, void**,  \
                                                     int, void* b[], int ldb, int* info,           \
                                                     int batch) {                                  \
    return submit_listed(handle, "potrs", T, {{"n", n}, {"right", right}}, b, ldb, right, info, 1, \
                         batch);                                                                   \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##potri_bufferSize(void*, int, int n, void*, int,            \
                                                         int* size) {                              \
    return elements(size, n, n);                                                                   \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##potri(void* handle, int, int n, void* a, int lda, void*,   \
                                              int, int* info) {                                    \
    return submit(handle, "potri", T, {{"n", n}}, {matrix(a, n, n, lda, T)}, info);                \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##sytrf_bufferSize(void*, int n, void*, int, int* size) {    \
    return elements(size, n, n);                                                                   \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##sytrf(void* handle, int, int n, void* a, int lda,          \
                                              int* pivots, void*, int, int* info) {                \
    return submit(handle, "sytrf", T, {{"n", n}},                                                  \
                  {matrix(a, n, n, lda, T), vector(pivots, n, CUDA_R_32I)}, info);                 \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##ORG##gqr_bufferSize(void*, int m, int n, int, const void*, \
                                                            int, const void*, int* size) {         \
    return elements(size, m, n);                                                                   \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##ORG##gqr(void* handle, int m, int n, int k, void* a,       \
                                                 int lda, const void*, void*, int, int* info) {    \
    return submit(handle, "orgqr", T, {{"m", m}, {"n", n}, {"k", k}}, {matrix(a, m, n, lda, T)},   \
                  info);                                                                           \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##ORM##mqr_bufferSize(void*, int, int, int m, int n, int,    \
                                                            const void*, int, const void*,         \
                                                            const void*, int, int* size) {         \
    return elements(size, m, n);                                                                   \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##ORM##mqr(void* handle, int side, int, int m, int n, int k, \
                                                 const void*, int, const void*, void* c, int ldc,  \
                                                 void*, int, int* info) {                          \
    return submit(handle, "ormqr", T,                                                              \
                  {{"m", m}, {"n", n}, {"k", k}, {"side", side == left_side ? "left" : "right"}},  \
                  {matrix(c, m, n, ldc, T)}, info);                                                \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##SYEV##d_bufferSize(void*, int, int, int n, const void*,    \
                                                           int, const void*, int* size) {          \
    return elements(size, n, n);                                                                   \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##SYEV##d(void* handle, int mode, int, int n, void* a,       \
                                                int lda, void* w, void*, int, int* info) {         \
    return submit(handle, "syevd", T, {{"n", n}, {"vectors", mode == with_vectors}},               \
                  {matrix(a, n, n, lda, T), vector(w, n, real_of(T))}, info);                      \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##SYEV##j_bufferSize(void*, int, int, int n, const void*,    \
                                                           int, const void*, int* size, void*) {   \
    return elements(size, n, n);                                                                   \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##SYEV##j(void* handle, int mode, int, int n, void* a,       \
                                                int lda, void* w, void*, int, int* info, void*) {  \
    return submit(handle, "syevj", T, {{"n", n}, {"vectors", mode == with_vectors}},               \
                  {matrix(a, n, n, lda, T), vector(w, n, real_of(T))}, info);                      \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##SYEV##jBatched_bufferSize(                                 \
      void*, int, int, int n, const void*, int, const void*, int* size, void*, int batch) {        \
    return elements(size, n, n, batch);                                                            \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##SYEV##jBatched(void* handle, int mode, int, int n,         \
                                                       void* a, int lda, void* w, void*, int,      \
                                                       int* info, void*, int batch) {              \
    return submit(handle, "syevj", T, {{"n", n}, {"vectors", mode == with_vectors}},               \
                  {matrix(a, n, std::int64_t{n} * batch, lda, T),                                  \
                   vector(w, std::int64_t{n} * batch, real_of(T))},                                \
                  info, batch);                                                                    \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##gesvd_bufferSize(void*, int m, int n, int* size) {         \
    return elements(size, m, n);                                                                   \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##gesvd(                                                     \
      void* handle, signed char u_job, signed char v_job, int m, int n, void* a, int lda, void* s, \
      void* u, int ldu, void* vt, int ldvt, void*, int, void*, int* info) {                        \
    const bool vectors = u_job != 'N' || v_job != 'N';                                             \
    const int u_columns = u_job == 'A' ? m : std::min(m, n);                                       \
    return submit(                                                                                 \
        handle, "gesvd", T, {{"m", m}, {"n", n}, {"vectors", vectors}},                            \
        {matrix(a, m, n, lda, T), vector(s, std::min(m, n), real_of(T)),                           \
         matrix(u_job == 'N' ? nullptr : u, m, u_columns, ldu, T),                                 \
         matrix(v_job == 'N' ? nullptr : vt, v_job == 'A' ? n : std::min(m, n), n, ldvt, T)},      \
        info);                                                                                     \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##gesvdj_bufferSize(                                         \
      void*, int, int, int m, int n, const void*, int, const void*, const void*, int, const void*, \
      int, int* size, void*) {                                                                     \
    return elements(size, m, n);                                                                   \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##gesvdj(void* handle, int mode, int thin, int m, int n,     \
                                               void* a, int lda, void* s, void* u, int ldu,        \
                                               void* v, int ldv, void*, int, int* info, void*) {   \
    const bool vectors = mode == with_vectors;                                                     \
    const int least = std::min(m, n);                                                              \
    return submit(handle, "gesvdj", T, {{"m", m}, {"n", n}, {"vectors", vectors}},                 \
                  {matrix(a, m, n, lda, T), vector(s, least, real_of(T)),                          \
                   matrix(vectors ? u : nullptr, m, thin ? least : m, ldu, T),                     \
                   matrix(vectors ? v : nullptr, n, thin ? least : n, ldv, T)},                    \
                  info);                                                                           \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##gesvdjBatched_bufferSize(                                  \
      void*, int, int m, int n, const void*, int, const void*, const void*, int, const void*, int, \
      int* size, void*, int batch) {                                                               \
    return elements(size, m, n, batch);                                                            \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##gesvdjBatched(                                             \
      void* handle, int mode, int m, int n, void* a, int lda, void* s, void* u, int ldu, void* v,  \
      int ldv, void*, int, int* info, void*, int batch) {                                          \
    const bool vectors = mode == with_vectors;                                                     \
    const std::int64_t many = batch;                                                               \
    return submit(handle, "gesvdj", T, {{"m", m}, {"n", n}, {"vectors", vectors}},                 \
                  {matrix(a, m, n * many, lda, T), vector(s, std::min(m, n) * many, real_of(T)),   \
                   matrix(vectors ? u : nullptr, m, m * many, ldu, T),                             \
                   matrix(vectors ? v : nullptr, n, n * many, ldv, T)},                            \
                  info, batch);                                                                    \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##gesvdaStridedBatched_bufferSize(                           \
      void*, int, int, int m, int n, const void*, int, long long, const void*, long long,          \
      const void*, int, long long, const void*, int, long long, int* size, int batch) {            \
    return elements(size, m, n, batch);                                                            \
  }                                                                                                \
  PHANTORA_EXPORT Status cusolverDn##L##gesvdaStridedBatched(                                      \
      void* handle, int mode, int rank, int m, int n, const void*, int, long long, void* s,        \
      long long s_stride, void* u, int ldu, long long u_stride, void* v, int ldv,                  \
      long long v_stride, void*, int, int* info, double*, int batch) {                             \
    const bool vectors = mode == with_vectors;                                                     \
    const auto strided = [&](void* address, std::int64_t rows, std::int64_t columns,               \
                             std::int64_t leading, long long stride, cudaDataType type) {          \
      Output one = matrix(address, rows, columns, leading, type);                                  \
      one.bytes += static_cast<std::size_t>(stride * (batch - 1)) * library::size_of(type);        \
      return one;                                                                                  \
    };                                                                                             \
    return submit(handle, "gesvda", T, {{"m", m}, {"n", n}, {"vectors", vectors}},                 \
                  {strided(s, rank, 1, rank, s_stride, real_of(T)),                                \
                   strided(vectors ? u : nullptr, m, rank, ldu, u_stride, T),                      \
                   strided(vectors ? v : nullptr, n, rank, ldv, v_stride, T)},                     \
                  info, batch);                                                                    \
  }

PHANTORA_TYPE(S, CUDA_R_32F, or, or, syev)
PHANTORA_TYPE(D, CUDA_R_64F, or, or, syev)
PHANTORA_TYPE(C, CUDA_C_32F, un, un, heev)
PHANTORA_TYPE(Z, CUDA_C_64F, un, un, heev)
#undef PHANTORA_TYPE

// The calls that are told their types.

PHANTORA_EXPORT Status cusolverDnXgetrf_bufferSize(void*, void*, std::int64_t, std::int64_t n,
                                                   cudaDataType type, const void*, std::int64_t,
                                                   cudaDataType, std::size_t* device,
                                                   std::size_t* host) {
  return bytes(device, host, n, type);
}
PHANTORA_EXPORT Status cusolverDnXgetrf(void* handle, void*, std::int64_t m, std::int64_t n,
                                        cudaDataType type, void* a, std::int64_t lda,
                                        std::int64_t* pivots, cudaDataType, void*, std::size_t,
                                        void*, std::size_t, int* info) {
  return submit(handle, "getrf", type, {{"m", m}, {"n", n}},
                {matrix(a, m, n, lda, type), vector(pivots, std::min(m, n), CUDA_R_64I)}, info);
}
PHANTORA_EXPORT Status cusolverDnXgetrs(void* handle, void*, int, std::int64_t n,
                                        std::int64_t right, cudaDataType, const void*, std::int64_t,
                                        const std::int64_t*, cudaDataType type, void* b,
                                        std::int64_t ldb, int* info) {
  return submit(handle, "getrs", type, {{"n", n}, {"right", right}},
                {matrix(b, n, right, ldb, type)}, info);
}

PHANTORA_EXPORT Status cusolverDnXgeqrf_bufferSize(void*, void*, std::int64_t m, std::int64_t n,
                                                   cudaDataType type, const void*, std::int64_t,
                                                   cudaDataType, const void*, cudaDataType,
                                                   std::size_t* device, std::size_t* host) {
  return bytes(device, host, std::max(m, n), type);
}
PHANTORA_EXPORT Status cusolverDnXgeqrf(void* handle, void*, std::int64_t m, std::int64_t n,
                                        cudaDataType type, void* a, std::int64_t lda,
                                        cudaDataType tau_type, void* tau, cudaDataType, void*,
                                        std::size_t, void*, std::size_t, int* info) {
  return submit(handle, "geqrf", type, {{"m", m}, {"n", n}},
                {matrix(a, m, n, lda, type), vector(tau, std::min(m, n), tau_type)}, info);
}

PHANTORA_EXPORT Status cusolverDnXpotrf_bufferSize(void*, void*, int, std::int64_t n,
                                                   cudaDataType type, const void*, std::int64_t,
                                                   cudaDataType, std::size_t* device,
                                                   std::size_t* host) {
  return bytes(device, host, n, type);
}
PHANTORA_EXPORT Status cusolverDnXpotrf(void* handle, void*, int, std::int64_t n, cudaDataType type,
                                        void* a, std::int64_t lda, cudaDataType, void*, std::size_t,
                                        void*, std::size_t, int* info) {
  return submit(handle, "potrf", type, {{"n", n}}, {matrix(a, n, n, lda, type)}, info);
}
PHANTORA_EXPORT Status cusolverDnXpotrs(void* handle, void*, int, std::int64_t n,
                                        std::int64_t right, cudaDataType, const void*, std::int64_t,
                                        cudaDataType type, void* b, std::int64_t ldb, int* info) {
  return submit(handle, "potrs", type, {{"n", n}, {"right", right}},
                {matrix(b, n, right, ldb, type)}, info);
}

PHANTORA_EXPORT Status cusolverDnXsytrs_bufferSize(void*, int, std::int64_t n, std::int64_t,
                                                   cudaDataType type, const void*, std::int64_t,
                                                   const std::int64_t*, cudaDataType, void*,
                                                   std::int64_t, std::size_t* device,
                                                   std::size_t* host) {
  return bytes(device, host, n, type);
}
PHANTORA_EXPORT Status cusolverDnXsytrs(void* handle, int, std::int64_t n, std::int64_t right,
                                        cudaDataType, const void*, std::int64_t,
                                        const std::int64_t*, cudaDataType type, void* b,
                                        std::int64_t ldb, void*, std::size_t, void*, std::size_t,
                                        int* info) {
  return submit(handle, "sytrs", type, {{"n", n}, {"right", right}},
                {matrix(b, n, right, ldb, type)}, info);
}

PHANTORA_EXPORT Status cusolverDnXsyevd_bufferSize(void*, void*, int, int, std::int64_t n,
                                                   cudaDataType type, const void*, std::int64_t,
                                                   cudaDataType, const void*, cudaDataType,
                                                   std::size_t* device, std::size_t* host) {
  return bytes(device, host, n, type);
}
PHANTORA_EXPORT Status cusolverDnXsyevd(void* handle, void*, int mode, int, std::int64_t n,
                                        cudaDataType type, void* a, std::int64_t lda,
                                        cudaDataType w_type, void* w, cudaDataType, void*,
                                        std::size_t, void*, std::size_t, int* info) {
  return submit(handle, "syevd", type, {{"n", n}, {"vectors", mode == with_vectors}},
                {matrix(a, n, n, lda, type), vector(w, n, w_type)}, info);
}

PHANTORA_EXPORT Status cusolverDnXsyevBatched_bufferSize(void*, void*, int, int, std::int64_t n,
                                                         cudaDataType type, const void*,
                                                         std::int64_t, cudaDataType, const void*,
                                                         cudaDataType, std::size_t* device,
                                                         std::size_t* host, std::int64_t batch) {
  return bytes(device, host, n, type, batch);
}
PHANTORA_EXPORT Status cusolverDnXsyevBatched(void* handle, void*, int mode, int, std::int64_t n,
                                              cudaDataType type, void* a, std::int64_t lda,
                                              cudaDataType w_type, void* w, cudaDataType, void*,
                                              std::size_t, void*, std::size_t, int* info,
                                              std::int64_t batch) {
  return submit(handle, "syevj", type, {{"n", n}, {"vectors", mode == with_vectors}},
                {matrix(a, n, n * batch, lda, type), vector(w, n * batch, w_type)}, info, batch);
}

PHANTORA_EXPORT Status cusolverDnXgeev_bufferSize(void*, void*, int, int, std::int64_t n,
                                                  cudaDataType type, const void*, std::int64_t,
                                                  cudaDataType, const void*, cudaDataType,
                                                  const void*, std::int64_t, cudaDataType,
                                                  const void*, std::int64_t, cudaDataType,
                                                  std::size_t* device, std::size_t* host) {
  return bytes(device, host, n, type);
}
PHANTORA_EXPORT Status cusolverDnXgeev(void* handle, void*, int left, int right, std::int64_t n,
                                       cudaDataType type, void* a, std::int64_t lda,
                                       cudaDataType w_type, void* w, cudaDataType left_type,
                                       void* vl, std::int64_t ldvl, cudaDataType right_type,
                                       void* vr, std::int64_t ldvr, cudaDataType, void*,
                                       std::size_t, void*, std::size_t, int* info) {
  const bool vectors = left == with_vectors || right == with_vectors;
  return submit(handle, "geev", type, {{"n", n}, {"vectors", vectors}},
                {matrix(a, n, n, lda, type), vector(w, n, w_type),
                 matrix(left == with_vectors ? vl : nullptr, n, n, ldvl, left_type),
                 matrix(right == with_vectors ? vr : nullptr, n, n, ldvr, right_type)},
                info);
}
