#include "cuda/cublaslt/descriptors.hpp"

#include "cuda/library/entry.hpp"

#include <cstring>
#include <new>

namespace phantora::cublaslt {
namespace {

#define PHANTORA_FIELD(attribute, type, member) \
  Field { attribute, offsetof(type, member), sizeof(type::member) }

constexpr Field layout_fields[] = {
    PHANTORA_FIELD(CUBLASLT_MATRIX_LAYOUT_TYPE, MatrixLayout, type),
    PHANTORA_FIELD(CUBLASLT_MATRIX_LAYOUT_ORDER, MatrixLayout, order),
    PHANTORA_FIELD(CUBLASLT_MATRIX_LAYOUT_ROWS, MatrixLayout, rows),
    PHANTORA_FIELD(CUBLASLT_MATRIX_LAYOUT_COLS, MatrixLayout, columns),
    PHANTORA_FIELD(CUBLASLT_MATRIX_LAYOUT_LD, MatrixLayout, ld),
    PHANTORA_FIELD(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, MatrixLayout, batch),
    PHANTORA_FIELD(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, MatrixLayout, stride),
    PHANTORA_FIELD(CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, MatrixLayout, plane_offset),
    PHANTORA_FIELD(CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, MatrixLayout, batch_mode),
};

constexpr Field matmul_fields[] = {
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, MatmulDescription, compute),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_SCALE_TYPE, MatmulDescription, scale_type),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_POINTER_MODE, MatmulDescription, pointer_mode),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_TRANSA, MatmulDescription, transpose_a),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_TRANSB, MatmulDescription, transpose_b),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_TRANSC, MatmulDescription, transpose_c),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_FILL_MODE, MatmulDescription, fill_mode),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE, MatmulDescription, epilogue),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_BIAS_POINTER, MatmulDescription, bias),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, MatmulDescription, bias_stride),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, MatmulDescription, aux),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, MatmulDescription, aux_ld),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, MatmulDescription, aux_stride),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE, MatmulDescription,
                   alpha_vector_stride),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, MatmulDescription, sm_count_target),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, MatmulDescription, a_scale),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, MatmulDescription, b_scale),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, MatmulDescription, c_scale),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, MatmulDescription, d_scale),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, MatmulDescription, amax_d),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, MatmulDescription, aux_type),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_POINTER, MatmulDescription, aux_scale),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_AMAX_POINTER, MatmulDescription, aux_amax),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_FAST_ACCUM, MatmulDescription, fast_accumulation),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, MatmulDescription, bias_type),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, MatmulDescription, a_scale_mode),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, MatmulDescription, b_scale_mode),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_C_SCALE_MODE, MatmulDescription, c_scale_mode),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_D_SCALE_MODE, MatmulDescription, d_scale_mode),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_MODE, MatmulDescription, aux_scale_mode),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_D_OUT_SCALE_POINTER, MatmulDescription, d_out_scale),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_D_OUT_SCALE_MODE, MatmulDescription, d_out_scale_mode),
    PHANTORA_FIELD(CUBLASLT_MATMUL_DESC_EMULATION_DESCRIPTOR, MatmulDescription, emulation),
};

constexpr Field transform_fields[] = {
    PHANTORA_FIELD(CUBLASLT_MATRIX_TRANSFORM_DESC_SCALE_TYPE, TransformDescription, scale_type),
    PHANTORA_FIELD(CUBLASLT_MATRIX_TRANSFORM_DESC_POINTER_MODE, TransformDescription, pointer_mode),
    PHANTORA_FIELD(CUBLASLT_MATRIX_TRANSFORM_DESC_TRANSA, TransformDescription, transpose_a),
    PHANTORA_FIELD(CUBLASLT_MATRIX_TRANSFORM_DESC_TRANSB, TransformDescription, transpose_b),
};

constexpr Field preference_fields[] = {
    PHANTORA_FIELD(CUBLASLT_MATMUL_PREF_SEARCH_MODE, MatmulPreference, search_mode),
    PHANTORA_FIELD(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, MatmulPreference, max_workspace),
    PHANTORA_FIELD(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, MatmulPreference, reduction_mask),
    PHANTORA_FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, MatmulPreference, alignment_a),
    PHANTORA_FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, MatmulPreference, alignment_b),
    PHANTORA_FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, MatmulPreference, alignment_c),
    PHANTORA_FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, MatmulPreference, alignment_d),
    PHANTORA_FIELD(CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, MatmulPreference, max_waves),
    PHANTORA_FIELD(CUBLASLT_MATMUL_PREF_IMPL_MASK, MatmulPreference, implementation_mask),
};

}  // namespace

template <>
std::span<const Field> fields<MatrixLayout>() {
  return layout_fields;
}
template <>
std::span<const Field> fields<MatmulDescription>() {
  return matmul_fields;
}
template <>
std::span<const Field> fields<TransformDescription>() {
  return transform_fields;
}
template <>
std::span<const Field> fields<MatmulPreference>() {
  return preference_fields;
}

namespace {

const Field* find(std::span<const Field> all, int attribute) {
  for (const Field& field : all) {
    if (field.attribute == attribute) return &field;
  }
  return nullptr;
}

template <class T>
cublasStatus_t set(void* descriptor, int attribute, const void* buffer, std::size_t size) noexcept {
  const Field* const field = find(fields<T>(), attribute);
  if (!descriptor || !field || !buffer || size != field->size) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(static_cast<std::byte*>(descriptor) + field->offset, buffer, field->size);
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t get(const void* descriptor, int attribute, void* buffer, std::size_t size,
                   std::size_t* written) noexcept {
  const Field* const field = find(fields<T>(), attribute);
  if (!descriptor || !field) return CUBLAS_STATUS_INVALID_VALUE;
  if (size == 0) {  // only asks how much there is
    if (!written) return CUBLAS_STATUS_INVALID_VALUE;
    *written = field->size;
    return CUBLAS_STATUS_SUCCESS;
  }
  if (!buffer || size != field->size) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(buffer, static_cast<const std::byte*>(descriptor) + field->offset, field->size);
  if (written) *written = field->size;
  return CUBLAS_STATUS_SUCCESS;
}

/// Makes a descriptor of the opaque type `Opaque` that holds `value`.
template <class Opaque, class T>
cublasStatus_t create(Opaque** descriptor, const T& value) noexcept {
  if (!descriptor) return CUBLAS_STATUS_INVALID_VALUE;
  auto* const made = new (std::nothrow) Opaque{};
  if (!made) return CUBLAS_STATUS_ALLOC_FAILED;
  std::memcpy(made, &value, sizeof value);
  *descriptor = made;
  return CUBLAS_STATUS_SUCCESS;
}

template <class Opaque, class T>
cublasStatus_t initialise(Opaque* descriptor, std::size_t size, const T& value) noexcept {
  if (!descriptor || size < sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memset(descriptor, 0, size);
  std::memcpy(descriptor, &value, sizeof value);
  return CUBLAS_STATUS_SUCCESS;
}

MatrixLayout layout(cudaDataType type, std::uint64_t rows, std::uint64_t columns, std::int64_t ld) {
  MatrixLayout value;
  value.type = type;
  value.rows = rows;
  value.columns = columns;
  value.ld = ld;
  return value;
}

MatmulDescription matmul(cublasComputeType_t compute, cudaDataType scale_type) {
  MatmulDescription value;
  value.compute = compute;
  value.scale_type = scale_type;
  return value;
}

}  // namespace
}  // namespace phantora::cublaslt

using namespace phantora::cublaslt;

#define PHANTORA_ATTRIBUTES(name, Handle, Attributes, T)                                           \
  PHANTORA_EXPORT cublasStatus_t name##SetAttribute(Handle descriptor, Attributes attribute,       \
                                                    const void* buffer, std::size_t size) {        \
    return set<T>(descriptor, attribute, buffer, size);                                            \
  }                                                                                                \
  PHANTORA_EXPORT cublasStatus_t name##GetAttribute(const Handle descriptor, Attributes attribute, \
                                                    void* buffer, std::size_t size,                \
                                                    std::size_t* written) {                        \
    return get<T>(descriptor, attribute, buffer, size, written);                                   \
  }                                                                                                \
  PHANTORA_EXPORT cublasStatus_t name##Destroy(Handle descriptor) {                                \
    delete descriptor;                                                                             \
    return CUBLAS_STATUS_SUCCESS;                                                                  \
  }
PHANTORA_ATTRIBUTES(cublasLtMatrixLayout, cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t,
                    MatrixLayout)
PHANTORA_ATTRIBUTES(cublasLtMatmulDesc, cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t,
                    MatmulDescription)
PHANTORA_ATTRIBUTES(cublasLtMatrixTransformDesc, cublasLtMatrixTransformDesc_t,
                    cublasLtMatrixTransformDescAttributes_t, TransformDescription)
PHANTORA_ATTRIBUTES(cublasLtMatmulPreference, cublasLtMatmulPreference_t,
                    cublasLtMatmulPreferenceAttributes_t, MatmulPreference)

PHANTORA_EXPORT cublasStatus_t cublasLtMatrixLayoutInit_internal(
    cublasLtMatrixLayout_t descriptor, std::size_t size, cudaDataType type, std::uint64_t rows,
    std::uint64_t columns, std::int64_t ld) {
  return initialise(descriptor, size, layout(type, rows, columns, ld));
}

PHANTORA_EXPORT cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* descriptor,
                                                          cudaDataType type, std::uint64_t rows,
                                                          std::uint64_t columns, std::int64_t ld) {
  return create(descriptor, layout(type, rows, columns, ld));
}

PHANTORA_EXPORT cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t descriptor,
                                                               std::size_t size,
                                                               cublasComputeType_t compute,
                                                               cudaDataType_t scale_type) {
  return initialise(descriptor, size, matmul(compute, scale_type));
}

PHANTORA_EXPORT cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* descriptor,
                                                        cublasComputeType_t compute,
                                                        cudaDataType_t scale_type) {
  return create(descriptor, matmul(compute, scale_type));
}

PHANTORA_EXPORT cublasStatus_t cublasLtMatrixTransformDescInit_internal(
    cublasLtMatrixTransformDesc_t descriptor, std::size_t size, cudaDataType scale_type) {
  TransformDescription value;
  value.scale_type = scale_type;
  return initialise(descriptor, size, value);
}

PHANTORA_EXPORT cublasStatus_t cublasLtMatrixTransformDescCreate(
    cublasLtMatrixTransformDesc_t* descriptor, cudaDataType scale_type) {
  TransformDescription value;
  value.scale_type = scale_type;
  return create(descriptor, value);
}

PHANTORA_EXPORT cublasStatus_t
cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t descriptor, std::size_t size) {
  return initialise(descriptor, size, MatmulPreference{});
}

PHANTORA_EXPORT cublasStatus_t
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* descriptor) {
  return create(descriptor, MatmulPreference{});
}
