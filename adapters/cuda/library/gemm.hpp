#pragma once

#include "cuda/library/element.hpp"
#include "rank/runtime/timeline.hpp"

#include <cstdint>
#include <vector>

namespace phantora::library {

/// A column-major operand of a matrix product; several with a stride, or by a list of pointers.
struct Matrix {
  const void* data = nullptr;
  cudaDataType type = CUDA_R_32F;
  std::int64_t ld = 0;
  std::int64_t stride = 0;  ///< elements between the matrices of a batch
};

/// D = epilogue(alpha * op(A) * op(B) + beta * C), all column-major as cuBLAS has it: A is m x k, B
/// is k x n, C and D are m x n.
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  bool transpose_a = false, transpose_b = false;
  Matrix a{}, b{}, c{}, d{};
  /// Device array of `batch` pointers each, instead of strides (the *Batched functions).
  const void* const* a_array = nullptr;
  const void* const* b_array = nullptr;
  void* const* d_array = nullptr;
  const void* alpha = nullptr;
  const void* beta = nullptr;
  cudaDataType scale_type = CUDA_R_32F;  ///< of alpha and beta
  bool scalars_on_device = false;
  const char* compute = "fp32";  ///< "fp32", "tf32", "fp16", "fp64", "int32"
  const char* epilogue = "none";
  const void* bias = nullptr;  ///< m elements of `bias_type`, added to each column
  cudaDataType bias_type = CUDA_R_32F;
  /// Whether no operand is scaled and `epilogue` is "none" or "bias": only then is it executed.
  bool plain = true;
};

/// Appends the product to `stream`. With small, known operands it is executed; otherwise the output
/// becomes unknown. m, n or batch of zero is no work, as in cuBLAS.
void gemm(rank::Stream& stream, const Gemm& gemm);

}  // namespace phantora::library
