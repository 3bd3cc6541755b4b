#include "cuda/cublaslt/descriptors.hpp"
#include "cuda/library/entry.hpp"
#include "cuda/library/gemm.hpp"
#include "cuda/library/operation.hpp"
#include "cuda/version.hpp"

#include <cstring>
#include <new>
#include <optional>
#include <string>

using namespace phantora::cublaslt;
namespace driver = phantora::driver;
namespace library = phantora::library;
namespace rank = phantora::rank;
using library::Api;
using phantora::KernelQuery;

namespace {

constexpr library::Failures<cublasStatus_t> failures{
    CUBLAS_STATUS_NOT_INITIALIZED, CUBLAS_STATUS_ALLOC_FAILED, CUBLAS_STATUS_INTERNAL_ERROR};

/// What an opaque descriptor holds.
template <class T, class Opaque>
const T& contents(const Opaque* descriptor) {
  static_assert(alignof(T) <= alignof(Opaque));
  return *std::launder(reinterpret_cast<const T*>(descriptor));
}

/// As kernel queries name it.
const char* epilogue_name(std::uint32_t epilogue) {
  switch (epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
      return "none";
    case CUBLASLT_EPILOGUE_RELU:
      return "relu";
    case CUBLASLT_EPILOGUE_RELU_AUX:
      return "relu_aux";
    case CUBLASLT_EPILOGUE_BIAS:
      return "bias";
    case CUBLASLT_EPILOGUE_RELU_BIAS:
      return "relu_bias";
    case CUBLASLT_EPILOGUE_RELU_AUX_BIAS:
      return "relu_aux_bias";
    case CUBLASLT_EPILOGUE_DRELU:
      return "drelu";
    case CUBLASLT_EPILOGUE_DRELU_BGRAD:
      return "drelu_bgrad";
    case CUBLASLT_EPILOGUE_GELU:
      return "gelu";
    case CUBLASLT_EPILOGUE_GELU_AUX:
      return "gelu_aux";
    case CUBLASLT_EPILOGUE_GELU_BIAS:
      return "gelu_bias";
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
      return "gelu_aux_bias";
    case CUBLASLT_EPILOGUE_DGELU:
      return "dgelu";
    case CUBLASLT_EPILOGUE_DGELU_BGRAD:
      return "dgelu_bgrad";
    case CUBLASLT_EPILOGUE_BGRADA:
      return "bgrada";
    case CUBLASLT_EPILOGUE_BGRADB:
      return "bgradb";
    default:
      return "other";
  }
}

const char* compute_name(std::int32_t compute) {
  switch (compute) {
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC:
      return "fp16";
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return "tf32";
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
      return "fp64";
    case CUBLAS_COMPUTE_32I:
    case CUBLAS_COMPUTE_32I_PEDANTIC:
      return "int32";
    default:
      return "fp32";
  }
}

/// The matrices of one call, checked against one another.
struct Problem {
  Problem(const cublasLtMatmulDescOpaque_t* matmul_, const cublasLtMatrixLayoutOpaque_t* a_,
          const cublasLtMatrixLayoutOpaque_t* b_, const cublasLtMatrixLayoutOpaque_t* c_,
          const cublasLtMatrixLayoutOpaque_t* d_)
      : matmul{contents<MatmulDescription>(matmul_)},
        a{contents<MatrixLayout>(a_)},
        b{contents<MatrixLayout>(b_)},
        c{contents<MatrixLayout>(c_)},
        d{contents<MatrixLayout>(d_)} {}
  const MatmulDescription& matmul;
  const MatrixLayout &a, &b, &c, &d;
  std::uint64_t m = 0, n = 0, k = 0;
};

/// nullopt if the shapes do not fit.
std::optional<Problem> problem(const cublasLtMatmulDescOpaque_t* matmul,
                               const cublasLtMatrixLayoutOpaque_t* a,
                               const cublasLtMatrixLayoutOpaque_t* b,
                               const cublasLtMatrixLayoutOpaque_t* c,
                               const cublasLtMatrixLayoutOpaque_t* d) {
  std::optional<Problem> result;
  if (!matmul || !a || !b || !d) return result;
  Problem& p = result.emplace(matmul, a, b, c ? c : d, d);
  const bool ta = p.matmul.transpose_a != CUBLAS_OP_N, tb = p.matmul.transpose_b != CUBLAS_OP_N;
  p.m = p.d.rows;
  p.n = p.d.columns;
  p.k = ta ? p.a.rows : p.a.columns;
  const bool fits = (ta ? p.a.columns : p.a.rows) == p.m && (tb ? p.b.columns : p.b.rows) == p.k &&
                    (tb ? p.b.rows : p.b.columns) == p.n && p.c.rows == p.m && p.c.columns == p.n;
  if (!fits) result.reset();
  return result;
}

/// A layout in column-major terms. A row-major matrix is the transpose of a column-major one.
library::Matrix matrix(const void* data, const MatrixLayout& layout) {
  return {data, static_cast<cudaDataType>(layout.type), layout.ld, layout.stride};
}

bool row_major(const MatrixLayout& layout) { return layout.order == CUBLASLT_ORDER_ROW; }

}  // namespace

PHANTORA_EXPORT cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return library::guarded(failures, Api::library_setup, [&] {
    if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
    // The handle has no state: what it would cache are NVIDIA's kernels. cuBLAS's handles are
    // accepted in its place, as the real library accepts them.
    *handle = reinterpret_cast<cublasLtHandle_t>(new char{});
    return CUBLAS_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<char*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

PHANTORA_EXPORT std::size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
PHANTORA_EXPORT std::size_t cublasLtGetCudartVersion() { return PHANTORA_CUDA_VERSION; }

PHANTORA_EXPORT cublasStatus_t cublasLtGetProperty(libraryPropertyType type, int* value) {
  if (!value) return CUBLAS_STATUS_INVALID_VALUE;
  constexpr int version[] = {CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH};
  if (type < MAJOR_VERSION || type > PATCH_LEVEL) return CUBLAS_STATUS_INVALID_VALUE;
  *value = version[type];
  return CUBLAS_STATUS_SUCCESS;
}

#define PHANTORA_STATUS(name, text) \
  case name:                        \
    return #name;
PHANTORA_EXPORT const char* cublasLtGetStatusName(cublasStatus_t status) {
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
PHANTORA_EXPORT const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
#include "cuda/library/cublas_statuses.inc"
    default:
      return "unrecognized status";
  }
}
#undef PHANTORA_STATUS

PHANTORA_EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t matmul, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference, int requested, cublasLtMatmulHeuristicResult_t results[],
    int* returned) {
  return library::guarded(failures, Api::lt_heuristic, [&] {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!preference || requested < 1 || !results || !returned) return CUBLAS_STATUS_INVALID_VALUE;
    *returned = 0;
    if (!problem(matmul, a, b, c, d)) return CUBLAS_STATUS_INVALID_VALUE;
    // One algorithm, which needs no workspace: which kernel the real one would choose is part of
    // the cost model.
    results[0] = {};
    results[0].state = CUBLAS_STATUS_SUCCESS;
    results[0].wavesCount = 1.0f;
    *returned = 1;
    return CUBLAS_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cublasStatus_t
cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void* alpha,
               const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
               cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
               cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
               const cublasLtMatmulAlgo_t*, void*, std::size_t, cudaStream_t stream) {
  return library::guarded(failures, Api::lt_matmul, [&] {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    const auto p = problem(description, a_layout, b_layout, c_layout, d_layout);
    if (!p || !a || !b || !d || !alpha) return CUBLAS_STATUS_INVALID_VALUE;
    const MatmulDescription& matmul = p->matmul;
    const auto type = static_cast<cudaDataType>(p->d.type);

    library::Gemm gemm;
    gemm.m = static_cast<std::int64_t>(p->m);
    gemm.n = static_cast<std::int64_t>(p->n);
    gemm.k = static_cast<std::int64_t>(p->k);
    gemm.batch = p->d.batch;
    gemm.transpose_a = (matmul.transpose_a != CUBLAS_OP_N) != row_major(p->a);
    gemm.transpose_b = (matmul.transpose_b != CUBLAS_OP_N) != row_major(p->b);
    gemm.a = matrix(a, p->a);
    gemm.b = matrix(b, p->b);
    gemm.c = matrix(c ? c : d, p->c);
    gemm.d = matrix(d, p->d);
    gemm.alpha = alpha;
    gemm.beta = beta ? beta : alpha;
    gemm.scale_type = static_cast<cudaDataType>(matmul.scale_type);
    gemm.scalars_on_device = matmul.pointer_mode != CUBLASLT_POINTER_MODE_HOST;
    gemm.compute = compute_name(matmul.compute);
    gemm.epilogue = epilogue_name(matmul.epilogue);
    const bool bias = matmul.epilogue == CUBLASLT_EPILOGUE_BIAS;
    if (bias) {
      gemm.bias = matmul.bias;
      gemm.bias_type = matmul.bias_type >= 0 ? static_cast<cudaDataType>(matmul.bias_type) : type;
    }
    const bool scaled = matmul.a_scale || matmul.b_scale || matmul.c_scale || matmul.d_scale;
    gemm.plain = (bias || matmul.epilogue == CUBLASLT_EPILOGUE_DEFAULT) && !scaled && beta &&
                 p->c.order == CUBLASLT_ORDER_COL && p->d.order == CUBLASLT_ORDER_COL &&
                 matmul.pointer_mode <= CUBLASLT_POINTER_MODE_DEVICE;
    rank::Stream& target = driver::stream_of(stream);
    library::gemm(target, gemm);

    // Side outputs of the epilogue.
    const auto element = library::size_of(type);
    const bool writes_bias =
        matmul.epilogue & (CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB | 16u);
    if (writes_bias && matmul.bias) {
      const std::uint64_t length = matmul.epilogue & CUBLASLT_EPILOGUE_BGRADB ? p->n : p->m;
      library::forget_later(target, {matmul.bias, length * element});
    }
    const bool writes_aux = (matmul.epilogue & 128u) && !(matmul.epilogue & (8u | 64u));
    if (writes_aux && matmul.aux) {
      library::forget_later(target,
                            {matmul.aux, static_cast<std::size_t>(matmul.aux_ld) * p->n * element});
    }
    if (matmul.amax_d) library::forget_later(target, {matmul.amax_d, sizeof(float)});
    return CUBLAS_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cublasStatus_t cublasLtMatrixTransform(
    cublasLtHandle_t handle, cublasLtMatrixTransformDesc_t, const void*, const void*,
    cublasLtMatrixLayout_t a_layout, const void*, const void* b, cublasLtMatrixLayout_t, void* c,
    cublasLtMatrixLayout_t c_layout, cudaStream_t stream) {
  return library::guarded(failures, Api::lt_matmul, [&] {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!a_layout || !c || !c_layout) return CUBLAS_STATUS_INVALID_VALUE;
    const auto& layout = contents<MatrixLayout>(c_layout);
    const auto type = static_cast<cudaDataType>(layout.type);
    const auto lines = row_major(layout) ? layout.rows : layout.columns;
    const auto batch = static_cast<std::size_t>(layout.batch > 0 ? layout.batch : 1);
    KernelQuery query;
    query.name = "matrix_transform";
    query.features = {{"m", static_cast<double>(layout.rows)},
                      {"n", static_cast<double>(layout.columns)},
                      {"batch", static_cast<double>(batch)}};
    query.attributes = {{"type", library::name_of(type)}};
    query.bytes =
        static_cast<double>(layout.rows * layout.columns * batch * library::size_of(type)) *
        (b ? 3 : 2);
    library::submit(
        driver::stream_of(stream), query,
        {{c, static_cast<std::size_t>(layout.ld) * lines * batch * library::size_of(type)}});
    return CUBLAS_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cublasStatus_t cublasLtMatmulAlgoGetIds(cublasLtHandle_t, cublasComputeType_t,
                                                        cudaDataType_t, cudaDataType_t,
                                                        cudaDataType_t, cudaDataType_t,
                                                        cudaDataType_t, int requested, int ids[],
                                                        int* returned) {
  if (requested < 1 || !ids || !returned) return CUBLAS_STATUS_INVALID_VALUE;
  ids[0] = 0;
  *returned = 1;
  return CUBLAS_STATUS_SUCCESS;
}

PHANTORA_EXPORT cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t, cublasComputeType_t,
                                                      cudaDataType_t, cudaDataType_t,
                                                      cudaDataType_t, cudaDataType_t,
                                                      cudaDataType_t, int id,
                                                      cublasLtMatmulAlgo_t* algo) {
  if (id != 0 || !algo) return CUBLAS_STATUS_INVALID_VALUE;
  *algo = {};
  return CUBLAS_STATUS_SUCCESS;
}

PHANTORA_EXPORT cublasStatus_t cublasLtMatmulAlgoCheck(
    cublasLtHandle_t, cublasLtMatmulDesc_t matmul, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    const cublasLtMatmulAlgo_t* algo, cublasLtMatmulHeuristicResult_t* result) {
  return library::guarded(failures, Api::lt_heuristic, [&] {
    if (!algo || !result || !problem(matmul, a, b, c, d)) return CUBLAS_STATUS_INVALID_VALUE;
    *result = {};
    result->algo = *algo;
    result->state = CUBLAS_STATUS_SUCCESS;
    result->wavesCount = 1.0f;
    return CUBLAS_STATUS_SUCCESS;
  });
}

PHANTORA_EXPORT cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(
    const cublasLtMatmulAlgo_t* algo, cublasLtMatmulAlgoConfigAttributes_t attribute, void* buffer,
    std::size_t size, std::size_t* written) {
  if (!algo || attribute < CUBLASLT_ALGO_CONFIG_ID ||
      attribute > CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  // Every property of our only algorithm is the default, 0; the last two are 16 bits wide.
  const std::size_t width = attribute >= CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID ? 2 : 4;
  if (written) *written = width;
  if (size == 0) return written ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
  if (!buffer || size < width) return CUBLAS_STATUS_INVALID_VALUE;
  std::memset(buffer, 0, width);
  return CUBLAS_STATUS_SUCCESS;
}
