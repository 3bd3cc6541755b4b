#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <cublasLt.h>

/// What cuBLASLt's opaque descriptors hold. Programs may keep them on their stack (the *_internal
/// functions initialise those), so that all state lies inside the bytes that the header declares.
namespace phantora::cublaslt {

struct MatrixLayout {
  std::int32_t type = CUDA_R_32F;
  std::int32_t order = CUBLASLT_ORDER_COL;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t ld = 0;
  std::int64_t stride = 0;  ///< elements between matrices of a batch
  std::int64_t plane_offset = 0;
  std::int32_t batch = 1;
  std::int32_t batch_mode = 0;
};
static_assert(sizeof(MatrixLayout) <= sizeof(cublasLtMatrixLayoutOpaque_t));

struct MatmulDescription {
  std::int32_t compute = CUBLAS_COMPUTE_32F;
  std::int32_t scale_type = CUDA_R_32F;
  std::int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  std::int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N, transpose_c = CUBLAS_OP_N;
  std::int32_t fill_mode = CUBLAS_FILL_MODE_FULL;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  std::int64_t bias_stride = 0;
  void* aux = nullptr;
  std::int64_t aux_ld = 0, aux_stride = 0;
  std::int64_t alpha_vector_stride = 0;
  const void *a_scale = nullptr, *b_scale = nullptr, *c_scale = nullptr, *d_scale = nullptr;
  void* amax_d = nullptr;
  void *aux_scale = nullptr, *aux_amax = nullptr;
  void* d_out_scale = nullptr;
  void* emulation = nullptr;
  std::int32_t aux_type = -1, bias_type = -1;  ///< -1: as D
  std::int32_t sm_count_target = 0;
  std::int32_t a_scale_mode = 0, b_scale_mode = 0, c_scale_mode = 0, d_scale_mode = 0,
               aux_scale_mode = 0, d_out_scale_mode = 0;
  std::int8_t fast_accumulation = 0;
};
static_assert(sizeof(MatmulDescription) <= sizeof(cublasLtMatmulDescOpaque_t));

struct TransformDescription {
  std::int32_t scale_type = CUDA_R_32F;
  std::int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  std::int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
};
static_assert(sizeof(TransformDescription) <= sizeof(cublasLtMatrixTransformDescOpaque_t));

struct MatmulPreference {
  std::uint64_t max_workspace = 0;
  std::uint32_t search_mode = CUBLASLT_SEARCH_BEST_FIT;
  std::uint32_t reduction_mask = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t alignment_a = 256, alignment_b = 256, alignment_c = 256, alignment_d = 256;
  float max_waves = 0;
  std::uint64_t implementation_mask = ~std::uint64_t{0};
};
static_assert(sizeof(MatmulPreference) <= sizeof(cublasLtMatmulPreferenceOpaque_t));

/// Where an attribute lies in its descriptor.
struct Field {
  int attribute;
  std::size_t offset, size;
};
/// The fields of the descriptor type T.
template <class T>
std::span<const Field> fields();

}  // namespace phantora::cublaslt
