// cuSPARSE: descriptors and the operations of its generic API, and what PyTorch and preconditioners
// use of the older one. Operations are not executed: they take the time of their bytes and
// arithmetic, and what they write is unknown. Operations whose result decides the size of a matrix
// (SpGEMM, csrgeam2, conversions from dense) are refused. The few types of its documented ABI are
// declared here: the header would be one more wheel to fetch.
#include "cuda/library/algebra.hpp"
#include "cuda/library/element.hpp"
#include "cuda/library/operation.hpp"
#include "cuda/library/version.hpp"

#include <cstdint>
#include <memory>
#include <string>

#include <driver_types.h>
#include <library_types.h>

using namespace phantora;
using namespace phantora::library::algebra;
using library::Api;

namespace {

struct Handle {  // cusparseHandle_t
  cudaStream_t stream = nullptr;
  int pointer_mode = 0;
};

enum class Format : int { csr = 1, csc = 2, coo = 3 };  // cusparseFormat_t

struct SparseMatrix {  // cusparseSpMatDescr_t
  Format format{};
  std::int64_t rows = 0, columns = 0, entries = 0;
  void *offsets = nullptr, *indices = nullptr, *values = nullptr;
  int offset_type = 0, index_type = 0;  // cusparseIndexType_t
  int base = 0;
  cudaDataType type{};
  int batch = 1;
  int fill = 0, diagonal = 0;  // attributes
};

struct DenseMatrix {  // cusparseDnMatDescr_t
  std::int64_t rows = 0, columns = 0, leading = 0;
  void* values = nullptr;
  cudaDataType type{};
  int order = 1;  // 1: columns first, 2: rows first
  int batch = 1;
  std::int64_t batch_stride = 0;
};

struct DenseVector {  // cusparseDnVecDescr_t
  std::int64_t size = 0;
  void* values = nullptr;
  cudaDataType type{};
};

struct SparseVector {  // cusparseSpVecDescr_t
  std::int64_t size = 0, entries = 0;
  void *indices = nullptr, *values = nullptr;
  int index_type = 0, base = 0;
  cudaDataType type{};
};

/// What the older API calls a description of a matrix (cusparseMatDescr_t).
struct Description {
  int type = 0, fill = 0, diagonal = 0, base = 0;
};

/// State of an operation in several steps, of which only the address is used.
struct Steps {};

std::size_t index_bytes(int type) { return type == 3 ? 8 : type == 2 ? 4 : 2; }

double bytes_of(const SparseMatrix& m) {
  const auto entries = static_cast<double>(m.entries);
  const double offsets =
      m.format == Format::coo
          ? entries
          : static_cast<double>(m.format == Format::csr ? m.rows : m.columns) + 1;
  return m.batch * (entries * static_cast<double>(index_bytes(m.index_type)) +
                    offsets * static_cast<double>(index_bytes(m.offset_type)) +
                    entries * static_cast<double>(library::size_of(m.type)));
}

std::size_t bytes_of(const DenseVector& v) {
  return static_cast<std::size_t>(v.size) * library::size_of(v.type);
}

/// From the first to the last element.
std::size_t extent(const DenseMatrix& m) {
  const std::int64_t lines = m.order == 1 ? m.columns : m.rows;
  const std::int64_t line = m.order == 1 ? m.rows : m.columns;
  const std::int64_t one = lines > 0 ? m.leading * (lines - 1) + line : 0;
  return static_cast<std::size_t>(m.batch_stride * (m.batch - 1) + one) * library::size_of(m.type);
}
double bytes_of(const DenseMatrix& m) {
  return static_cast<double>(m.rows) * static_cast<double>(m.columns) * m.batch *
         static_cast<double>(library::size_of(m.type));
}

/// Multiplications and additions of `pairs` products of this type.
double arithmetic(double pairs, cudaDataType type) {
  const bool complex = type == CUDA_C_32F || type == CUDA_C_64F;
  return pairs * (complex ? 8 : 2);
}

/// Submits one operation; its query says bytes, arithmetic and type, which the roofline takes.
Status submit(void* handle, const char* name, double bytes, double flops, cudaDataType type,
              library::Output output) {
  KernelQuery query;
  query.name = name;
  query.bytes = bytes;
  query.flops = flops;
  query.attributes = {{"type", library::name_of(type)}};
  library::submit(driver::stream_of(as<Handle>(handle).stream), query, {output});
  return success;
}

const char* name_of(Format format) {
  switch (format) {
    case Format::csr:
      return "csr";
    case Format::csc:
      return "csc";
    case Format::coo:
      return "coo";
  }
  return "csr";
}

/// A product with `matrix`, or at its entries, of `right` columns or products for each entry, by an
/// algorithm that the program chose by its number.
Status submit_product(void* handle, const char* name, const SparseMatrix& matrix, double right,
                      int algorithm, library::Output output) {
  const double rows = static_cast<double>(matrix.rows) * matrix.batch,
               columns = static_cast<double>(matrix.columns);
  if (rows <= 0 || columns <= 0 || right <= 0) return success;
  KernelQuery query;
  query.name = name;
  query.features = {{"rows", rows},
                    {"columns", columns},
                    {"entries", static_cast<double>(matrix.entries) * matrix.batch},
                    {"right", right}};
  query.attributes = {{"type", library::name_of(matrix.type)},
                      {"format", name_of(matrix.format)},
                      {"index", index_bytes(matrix.index_type) == 8 ? "64" : "32"},
                      {"algorithm", std::to_string(algorithm)}};
  library::submit(driver::stream_of(as<Handle>(handle).stream), query, {output});
  return success;
}

/// Bytes that the calls `..._bufferSize` ask the program to give: NVIDIA's own depend on the
/// matrix; a buffer of one index for each row serves for accounting.
template <class Size>
Status buffer_size(Size* size, std::int64_t rows) {
  if (!size) return invalid_value;
  *size = static_cast<Size>((static_cast<std::size_t>(rows) * 4 + 255) / 256 * 256);
  return success;
}

}  // namespace

constexpr phantora::library::Version version_of_cusparse{12, 6, 3};  // cusparse.h

PHANTORA_EXPORT Status cusparseGetVersion(const void* handle, int* version) {
  return handle ? version_of_cusparse.tell(version, success, invalid_value) : not_initialized;
}

PHANTORA_EXPORT Status cusparseGetProperty(libraryPropertyType part, int* value) {
  return version_of_cusparse.tell(part, value, success, invalid_value);
}

PHANTORA_EXPORT Status cusparseCreate(void** handle) { return create<Handle>(handle); }
PHANTORA_EXPORT Status cusparseDestroy(void* handle) { return destroy<Handle>(handle); }

PHANTORA_EXPORT Status cusparseSetStream(void* handle, cudaStream_t stream) {
  return set(handle, &Handle::stream, stream);
}

PHANTORA_EXPORT Status cusparseGetStream(void* handle, cudaStream_t* stream) {
  return get(handle, &Handle::stream, stream);
}

PHANTORA_EXPORT Status cusparseSetPointerMode(void* handle, int mode) {
  return set(handle, &Handle::pointer_mode, mode);
}

PHANTORA_EXPORT Status cusparseGetPointerMode(void* handle, int* mode) {
  return get(handle, &Handle::pointer_mode, mode);
}

PHANTORA_EXPORT const char* cusparseGetErrorName(Status status) {
  switch (status) {
    case success:
      return "CUSPARSE_STATUS_SUCCESS";
    case not_initialized:
      return "CUSPARSE_STATUS_NOT_INITIALIZED";
    case alloc_failed:
      return "CUSPARSE_STATUS_ALLOC_FAILED";
    case invalid_value:
      return "CUSPARSE_STATUS_INVALID_VALUE";
    case internal_error:
      return "CUSPARSE_STATUS_INTERNAL_ERROR";
    case not_supported:
      return "CUSPARSE_STATUS_NOT_SUPPORTED";
  }
  return "unrecognized error code";
}

PHANTORA_EXPORT const char* cusparseGetErrorString(Status status) {
  switch (status) {
    case success:
      return "success";
    case not_initialized:
      return "initialization error";
    case alloc_failed:
      return "resource allocation failed";
    case invalid_value:
      return "invalid value";
    case internal_error:
      return "internal error";
    case not_supported:
      return "operation not supported";
  }
  return "unrecognized error code";
}

// Descriptions of the older API.

PHANTORA_EXPORT Status cusparseCreateMatDescr(void** description) {
  return create<Description>(description);
}
PHANTORA_EXPORT Status cusparseDestroyMatDescr(void* description) {
  return destroy<Description>(description);
}

#define PHANTORA_DESCRIPTION(NAME, FIELD)                                  \
  PHANTORA_EXPORT Status cusparseSet##NAME(void* description, int value) { \
    if (!description) return invalid_value;                                \
    as<Description>(description).FIELD = value;                            \
    return success;                                                        \
  }                                                                        \
  PHANTORA_EXPORT int cusparseGet##NAME(const void* description) {         \
    return description ? as<Description>(description).FIELD : 0;           \
  }
PHANTORA_DESCRIPTION(MatType, type)
PHANTORA_DESCRIPTION(MatFillMode, fill)
PHANTORA_DESCRIPTION(MatDiagType, diagonal)
PHANTORA_DESCRIPTION(MatIndexBase, base)
#undef PHANTORA_DESCRIPTION

// Matrices and vectors of the generic API.

PHANTORA_EXPORT Status cusparseCreateCsr(void** matrix, std::int64_t rows, std::int64_t columns,
                                         std::int64_t entries, void* offsets, void* indices,
                                         void* values, int offset_type, int index_type, int base,
                                         cudaDataType type) {
  return create<SparseMatrix>(matrix, Format::csr, rows, columns, entries, offsets, indices, values,
                              offset_type, index_type, base, type);
}

PHANTORA_EXPORT Status cusparseCreateCsc(void** matrix, std::int64_t rows, std::int64_t columns,
                                         std::int64_t entries, void* offsets, void* indices,
                                         void* values, int offset_type, int index_type, int base,
                                         cudaDataType type) {
  return create<SparseMatrix>(matrix, Format::csc, rows, columns, entries, offsets, indices, values,
                              offset_type, index_type, base, type);
}

PHANTORA_EXPORT Status cusparseCreateCoo(void** matrix, std::int64_t rows, std::int64_t columns,
                                         std::int64_t entries, void* row_indices,
                                         void* column_indices, void* values, int index_type,
                                         int base, cudaDataType type) {
  return create<SparseMatrix>(matrix, Format::coo, rows, columns, entries, row_indices,
                              column_indices, values, index_type, index_type, base, type);
}

PHANTORA_EXPORT Status cusparseDestroySpMat(const void* matrix) {
  return destroy<SparseMatrix>(matrix);
}

PHANTORA_EXPORT Status cusparseCsrSetPointers(void* matrix, void* offsets, void* indices,
                                              void* values) {
  if (!matrix) return invalid_value;
  auto& known = as<SparseMatrix>(matrix);
  known.offsets = offsets;
  known.indices = indices;
  known.values = values;
  return success;
}

PHANTORA_EXPORT Status cusparseCsrSetStridedBatch(void* matrix, int batch, std::int64_t,
                                                  std::int64_t) {
  if (!matrix || batch < 1) return invalid_value;
  as<SparseMatrix>(matrix).batch = batch;
  return success;
}

PHANTORA_EXPORT Status cusparseSpMatGetSize(const void* matrix, std::int64_t* rows,
                                            std::int64_t* columns, std::int64_t* entries) {
  if (!matrix || !rows || !columns || !entries) return invalid_value;
  const auto& known = as<SparseMatrix>(matrix);
  *rows = known.rows;
  *columns = known.columns;
  *entries = known.entries;
  return success;
}

PHANTORA_EXPORT Status cusparseSpMatSetAttribute(void* matrix, int attribute, void* data,
                                                 std::size_t size) {
  if (!matrix || !data || size != sizeof(int)) return invalid_value;
  (attribute == 0 ? as<SparseMatrix>(matrix).fill : as<SparseMatrix>(matrix).diagonal) =
      *static_cast<int*>(data);
  return success;
}

PHANTORA_EXPORT Status cusparseCreateDnVec(void** vector, std::int64_t size, void* values,
                                           cudaDataType type) {
  return create<DenseVector>(vector, size, values, type);
}
PHANTORA_EXPORT Status cusparseDestroyDnVec(const void* vector) {
  return destroy<DenseVector>(vector);
}
PHANTORA_EXPORT Status cusparseDnVecSetValues(void* vector, void* values) {
  if (!vector) return invalid_value;
  as<DenseVector>(vector).values = values;
  return success;
}

PHANTORA_EXPORT Status cusparseCreateSpVec(void** vector, std::int64_t size, std::int64_t entries,
                                           void* indices, void* values, int index_type, int base,
                                           cudaDataType type) {
  return create<SparseVector>(vector, size, entries, indices, values, index_type, base, type);
}
PHANTORA_EXPORT Status cusparseDestroySpVec(const void* vector) {
  return destroy<SparseVector>(vector);
}

PHANTORA_EXPORT Status cusparseCreateDnMat(void** matrix, std::int64_t rows, std::int64_t columns,
                                           std::int64_t leading, void* values, cudaDataType type,
                                           int order) {
  return create<DenseMatrix>(matrix, rows, columns, leading, values, type, order);
}
PHANTORA_EXPORT Status cusparseDestroyDnMat(const void* matrix) {
  return destroy<DenseMatrix>(matrix);
}
PHANTORA_EXPORT Status cusparseDnMatSetStridedBatch(void* matrix, int batch, std::int64_t stride) {
  if (!matrix || batch < 1) return invalid_value;
  as<DenseMatrix>(matrix).batch = batch;
  as<DenseMatrix>(matrix).batch_stride = stride;
  return success;
}

// Operations.

PHANTORA_EXPORT Status cusparseSpMV_bufferSize(void*, int, const void*, const void* a, const void*,
                                               const void*, void*, cudaDataType, int,
                                               std::size_t* size) {
  return a ? buffer_size(size, as<SparseMatrix>(a).rows) : invalid_value;
}

PHANTORA_EXPORT Status cusparseSpMV_preprocess(void* handle, int, const void*, const void* a,
                                               const void*, const void*, void*, cudaDataType, int,
                                               void*) {
  return handle && a ? success : invalid_value;
}

PHANTORA_EXPORT Status cusparseSpMV(void* handle, int, const void*, const void* a, const void* x,
                                    const void*, void* y, cudaDataType, int algorithm, void*) {
  return library::guarded(failures, Api::launch, [&] {
    if (!handle) return not_initialized;
    if (!a || !x || !y) return invalid_value;
    const auto& matrix = as<SparseMatrix>(a);
    const auto& out = as<DenseVector>(y);
    return submit_product(handle, "spmv", matrix, 1, algorithm, {out.values, bytes_of(out)});
  });
}

PHANTORA_EXPORT Status cusparseSpMM_bufferSize(void*, int, int, const void*, const void* a,
                                               const void*, const void*, void*, cudaDataType, int,
                                               std::size_t* size) {
  return a ? buffer_size(size, as<SparseMatrix>(a).rows) : invalid_value;
}

PHANTORA_EXPORT Status cusparseSpMM_preprocess(void* handle, int, int, const void*, const void* a,
                                               const void*, const void*, void*, cudaDataType, int,
                                               void*) {
  return handle && a ? success : invalid_value;
}

PHANTORA_EXPORT Status cusparseSpMM(void* handle, int, int, const void*, const void* a,
                                    const void* b, const void*, void* c, cudaDataType,
                                    int algorithm, void*) {
  return library::guarded(failures, Api::launch, [&] {
    if (!handle) return not_initialized;
    if (!a || !b || !c) return invalid_value;
    const auto& matrix = as<SparseMatrix>(a);
    const auto& out = as<DenseMatrix>(c);
    const double columns = static_cast<double>(out.columns) * out.batch / matrix.batch;
    return submit_product(handle, "spmm", matrix, columns, algorithm, {out.values, extent(out)});
  });
}

PHANTORA_EXPORT Status cusparseSDDMM_bufferSize(void*, int, int, const void*, const void*,
                                                const void*, const void*, void* c, cudaDataType,
                                                int, std::size_t* size) {
  return c ? buffer_size(size, as<SparseMatrix>(c).rows) : invalid_value;
}

PHANTORA_EXPORT Status cusparseSDDMM_preprocess(void* handle, int, int, const void*, const void*,
                                                const void*, const void*, void* c, cudaDataType,
                                                int, void*) {
  return handle && c ? success : invalid_value;
}

PHANTORA_EXPORT Status cusparseSDDMM(void* handle, int a_operation, int, const void*, const void* a,
                                     const void* b, const void*, void* c, cudaDataType,
                                     int algorithm, void*) {
  return library::guarded(failures, Api::launch, [&] {
    if (!handle) return not_initialized;
    if (!a || !b || !c) return invalid_value;
    const auto& one = as<DenseMatrix>(a);
    const auto& out = as<SparseMatrix>(c);
    const auto inner = static_cast<double>(a_operation == 0 ? one.columns : one.rows);
    return submit_product(
        handle, "sddmm", out, inner, algorithm,
        {out.values, static_cast<std::size_t>(out.entries) * library::size_of(out.type)});
  });
}

PHANTORA_EXPORT Status cusparseScatter(void* handle, const void* x, void* y) {
  return library::guarded(failures, Api::launch, [&] {
    if (!handle) return not_initialized;
    if (!x || !y) return invalid_value;
    const auto& in = as<SparseVector>(x);
    const auto& out = as<DenseVector>(y);
    const double bytes =
        static_cast<double>(in.entries) *
        static_cast<double>(index_bytes(in.index_type) + 2 * library::size_of(in.type));
    return submit(handle, "sparse_scatter", bytes, 0, in.type, {out.values, bytes_of(out)});
  });
}

// Triangular solves. How many steps follow each other depends on the pattern, which nobody reads:
// they are priced by their bytes and arithmetic, as if all rows were solved at once.

PHANTORA_EXPORT Status cusparseSpSV_createDescr(void** descriptor) {
  return create<Steps>(descriptor);
}
PHANTORA_EXPORT Status cusparseSpSV_destroyDescr(void* descriptor) {
  return destroy<Steps>(descriptor);
}
PHANTORA_EXPORT Status cusparseSpSV_bufferSize(void*, int, const void*, const void* a, const void*,
                                               void*, cudaDataType, int, void*, std::size_t* size) {
  return a ? buffer_size(size, as<SparseMatrix>(a).rows) : invalid_value;
}
PHANTORA_EXPORT Status cusparseSpSV_analysis(void* handle, int, const void*, const void* a,
                                             const void*, void*, cudaDataType, int, void*, void*) {
  return library::guarded(failures, Api::launch, [&] {
    if (!handle) return not_initialized;
    if (!a) return invalid_value;
    const auto& matrix = as<SparseMatrix>(a);
    return submit(handle, "spsv_analysis", bytes_of(matrix), 0, matrix.type, {});
  });
}
PHANTORA_EXPORT Status cusparseSpSV_solve(void* handle, int, const void*, const void* a,
                                          const void* x, void* y, cudaDataType type, int, void*) {
  return library::guarded(failures, Api::launch, [&] {
    if (!handle) return not_initialized;
    if (!a || !x || !y) return invalid_value;
    const auto& matrix = as<SparseMatrix>(a);
    const auto& out = as<DenseVector>(y);
    return submit(handle, "spsv", bytes_of(matrix) + 2 * static_cast<double>(bytes_of(out)),
                  arithmetic(static_cast<double>(matrix.entries), type), matrix.type,
                  {out.values, bytes_of(out)});
  });
}

PHANTORA_EXPORT Status cusparseSpSM_createDescr(void** descriptor) {
  return create<Steps>(descriptor);
}
PHANTORA_EXPORT Status cusparseSpSM_destroyDescr(void* descriptor) {
  return destroy<Steps>(descriptor);
}
PHANTORA_EXPORT Status cusparseSpSM_bufferSize(void*, int, int, const void*, const void* a,
                                               const void*, void*, cudaDataType, int, void*,
                                               std::size_t* size) {
  return a ? buffer_size(size, as<SparseMatrix>(a).rows) : invalid_value;
}
PHANTORA_EXPORT Status cusparseSpSM_analysis(void* handle, int, int, const void*, const void* a,
                                             const void*, void*, cudaDataType, int, void*, void*) {
  return library::guarded(failures, Api::launch, [&] {
    if (!handle) return not_initialized;
    if (!a) return invalid_value;
    const auto& matrix = as<SparseMatrix>(a);
    return submit(handle, "spsm_analysis", bytes_of(matrix), 0, matrix.type, {});
  });
}
PHANTORA_EXPORT Status cusparseSpSM_solve(void* handle, int, int, const void*, const void* a,
                                          const void* b, void* c, cudaDataType type, int, void*) {
  return library::guarded(failures, Api::launch, [&] {
    if (!handle) return not_initialized;
    if (!a || !b || !c) return invalid_value;
    const auto& matrix = as<SparseMatrix>(a);
    const auto& out = as<DenseMatrix>(c);
    return submit(
        handle, "spsm", bytes_of(matrix) + bytes_of(as<DenseMatrix>(b)) + bytes_of(out),
        arithmetic(static_cast<double>(matrix.entries) * static_cast<double>(out.columns), type),
        matrix.type, {out.values, extent(out)});
  });
}

// Incomplete LU factorisation without fill-in, in place.

PHANTORA_EXPORT Status cusparseCreateCsrilu02Info(void** info) { return create<Steps>(info); }
PHANTORA_EXPORT Status cusparseDestroyCsrilu02Info(void* info) { return destroy<Steps>(info); }

#define PHANTORA_ILU(LETTER, TYPE)                                                                \
  PHANTORA_EXPORT Status cusparse##LETTER##csrilu02_bufferSize(                                   \
      void*, int rows, int, const void*, void*, const int*, const int*, void*, int* size) {       \
    return buffer_size(size, rows);                                                               \
  }                                                                                               \
  PHANTORA_EXPORT Status cusparse##LETTER##csrilu02_analysis(void* handle, int, int, const void*, \
                                                             const void*, const int*, const int*, \
                                                             void*, int, void*) {                 \
    return handle ? success : not_initialized;                                                    \
  }                                                                                               \
  PHANTORA_EXPORT Status cusparse##LETTER##csrilu02(void* handle, int, int entries, const void*,  \
                                                    void* values, const int*, const int*, void*,  \
                                                    int, void*) {                                 \
    return library::guarded(failures, Api::launch, [&] {                                          \
      if (!handle) return not_initialized;                                                        \
      const std::size_t bytes = static_cast<std::size_t>(entries) * library::size_of(TYPE);       \
      return submit(handle, "csrilu02", 2 * static_cast<double>(bytes) + 4.0 * entries,           \
                    arithmetic(entries, TYPE), TYPE, {values, bytes});                            \
    });                                                                                           \
  }
PHANTORA_ILU(S, CUDA_R_32F)
PHANTORA_ILU(D, CUDA_R_64F)
PHANTORA_ILU(C, CUDA_C_32F)
PHANTORA_ILU(Z, CUDA_C_64F)
#undef PHANTORA_ILU

PHANTORA_EXPORT Status cusparseXcsrilu02_zeroPivot(void* handle, void*, int* position) {
  if (!handle) return not_initialized;
  *position = -1;  // none was met
  return success;
}

// PyTorch's conversion of a list of rows into their offsets.
PHANTORA_EXPORT Status cusparseXcoo2csr(void* handle, const int* rows, int entries, int count,
                                        int* offsets, int) {
  return library::guarded(failures, Api::launch, [&] {
    if (!handle) return not_initialized;
    if ((!rows && entries > 0) || !offsets) return invalid_value;
    const std::size_t bytes = sizeof(int) * (static_cast<std::size_t>(count) + 1);
    return submit(handle, "coo2csr", static_cast<double>(bytes) + 4.0 * entries, 0, CUDA_R_32I,
                  {offsets, bytes});
  });
}
