#include "kernels/work/products.hpp"

#include "kernels/work/families.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace phantora::detail {

void place_product(KernelWork& work, const ProductLayout& layout) {
  work.limit = KernelLimit::arithmetic;
  // Below 16 bytes the tensor memory accelerator and wide loads cannot be used, and cuBLAS turns to
  // older kernels: another group, in which the degree matters again.
  work.group = "gemm";
  work.group += label(work.arithmetic);
  if (layout.alignment < 16.0) work.group += "/unaligned";
  work.alignment = layout.alignment;
  work.a_along_k = layout.transposed_a;
  work.b_along_k = !layout.transposed_b;
  constexpr double size_scale = 2.0;
  work.coordinates = {log_coordinate(work.m, size_scale), log_coordinate(work.n, size_scale),
                      log_coordinate(work.k, size_scale), log_coordinate(work.batch, size_scale),
                      layout.transposed_a ? 0.5F : 0.0F,  layout.transposed_b ? 0.5F : 0.0F,
                      layout.epilogue ? 0.5F : 0.0F,      log_coordinate(layout.alignment, 0.7)};
}

namespace {

/// How much of what streaming kernels reach of the memory's bandwidth cuBLAS's products of many
/// matrices with a vector each reach: the median of those of 30 MB and more of
/// data/measure_vectors.py, 3.75 of 4.2 TB/s, in 16 bits and in fp32.
constexpr double vector_share = 0.89;

/// Of the least aligned operand, in bytes, as far as kernels make use of that.
double alignment(const KernelQuery& query) {
  return std::min({feature(query, "a_align", 16.0), feature(query, "b_align", 16.0),
                   feature(query, "c_align", 16.0), 16.0});
}

/// Products of a matrix and a vector, which read the matrix once.
KernelWork vector_product(KernelWork work, const KernelQuery& query) {
  const bool matrix_first = work.n == 1.0;
  const double rows = std::max(work.m, work.n);
  const bool transposed = attribute(query, matrix_first ? "transa" : "transb", "N") != "N";
  const bool along_k = matrix_first == transposed;
  work.group = work.batch == 1.0 ? "vector product" + label(work.arithmetic)
               : rows > 1.0      ? "batched vector product" + label(work.arithmetic)
                                 : std::string{"batched vector product/dot"};
  constexpr double size_scale = 1.5;
  work.coordinates = {log_coordinate(work.bytes, size_scale),
                      log_coordinate(rows, size_scale),
                      log_coordinate(work.k, size_scale),
                      log_coordinate(work.batch, size_scale),
                      along_k ? 0.5F : 0.0F,
                      log_coordinate(alignment(query), 0.7)};
  if (work.batch > 1.0) work.bytes /= vector_share;
  work.m = work.n = work.k = work.batch = 0.0;
  return work;
}

}  // namespace

KernelWork gemm(const KernelQuery& query) {
  const auto a_type = attribute(query, "a_type", "bf16");
  const auto b_type = attribute(query, "b_type", a_type);
  const auto c_type = attribute(query, "c_type", a_type);
  KernelWork work;
  work.arithmetic = arithmetic_of(a_type, attribute(query, "compute", "fp32"));
  work.m = feature(query, "m", 1.0);
  work.n = feature(query, "n", 1.0);
  work.k = feature(query, "k", 1.0);
  work.batch = feature(query, "batch", 1.0);
  work.bytes =
      work.batch * (work.m * work.k * type_bytes(a_type) + work.k * work.n * type_bytes(b_type) +
                    work.m * work.n * type_bytes(c_type));
  // Nothing of the matrices is read twice. One product of two vectors is no such call: cuBLAS has
  // others for it, and sizes that are not told are 1.
  const bool of_vectors = work.batch == 1.0 && work.m == 1.0 && work.n == 1.0;
  if (std::min(work.m, work.n) == 1.0 && !of_vectors && !is_complex(a_type))
    return vector_product(std::move(work), query);
  // A product of complex numbers is four of real ones.
  if (is_complex(a_type)) work.k *= 4.0;
  place_product(work, {alignment(query), attribute(query, "transa", "N") != "N",
                       attribute(query, "transb", "N") != "N",
                       attribute(query, "epilogue", "none") != "none"});
  return work;
}

KernelWork grouped_product(const KernelQuery& query) {
  const double m = feature(query, "m", 1.0), n = feature(query, "n", 1.0),
               k = feature(query, "k", 1.0), batch = feature(query, "batch", 1.0);
  // Of the bytes, results have 2 for each element.
  const bool eight_bits = query.bytes < batch * (1.5 * (m * k + k * n) + 2.0 * m * n);
  KernelWork work;
  work.limit = KernelLimit::arithmetic;
  work.arithmetic = eight_bits ? Arithmetic::fp8 : Arithmetic::half;
  work.bytes = query.bytes;
  work.flops = 2.0 * m * n * k * batch;
  // Tiles of 128 rows, which are n here, by 256 columns, whatever a group has, in steps of 128
  // bytes along k: PyTorch has one kernel for all but the narrowest (ATen/native/cuda/GroupMM.cu).
  constexpr double rows = 128.0, columns = 256.0, step_bytes = 128.0;
  const double step = step_bytes / (eight_bits ? 1.0 : 2.0);
  work.tiles = batch * std::ceil(n / rows) * std::ceil(m / columns);
  work.longest = std::ceil(k / step);
  work.steps = work.tiles * work.longest;
  work.step_flops = 2.0 * rows * columns * step;
  work.group = eight_bits ? "grouped product/fp8" : "grouped product/half";
  // Gradients of weights divide k among the groups.
  work.coordinates = {log_coordinate(m, 2.0),
                      log_coordinate(n, 2.0),
                      log_coordinate(k, 2.0),
                      log_coordinate(batch, 2.0),
                      log_coordinate(work.tiles, 2.0),
                      k == std::floor(k) && std::fmod(k, step) == 0.0 ? 0.0F : 0.5F};
  return work;
}

}  // namespace phantora::detail
