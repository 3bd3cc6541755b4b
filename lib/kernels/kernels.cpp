#include "kernels/library_operations.hpp"

#include <phantora/error.hpp>
#include <phantora/kernels/kernels.hpp>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

namespace phantora {
namespace {

void expect_sizes(std::initializer_list<std::pair<std::string_view, std::int64_t>> sizes) {
  for (const auto& [name, size] : sizes) {
    PHANTORA_EXPECTS(size > 0, "a kernel's " + std::string{name} + " is positive, not " +
                                   std::to_string(size));
  }
}

/// The largest power of two, at most 16, that divides a row of so many elements in bytes.
double alignment(std::int64_t elements, ElementType type) {
  const auto bytes = static_cast<std::int64_t>(static_cast<double>(elements) * size_of(type));
  double power = 16;
  while (std::fmod(static_cast<double>(bytes), power) != 0.0) power /= 2;
  return power;
}

double real(std::int64_t size) { return static_cast<double>(size); }

}  // namespace

std::string_view to_string(ElementType type) noexcept {
  switch (type) {
    case ElementType::bf16:
      return "bf16";
    case ElementType::fp16:
      return "fp16";
    case ElementType::fp32:
      return "fp32";
    case ElementType::fp64:
      return "fp64";
    case ElementType::fp8_e4m3:
      return "fp8_e4m3";
    case ElementType::fp8_e5m2:
      break;
  }
  return "fp8_e5m2";
}

double size_of(ElementType type) noexcept {
  switch (type) {
    case ElementType::bf16:
    case ElementType::fp16:
      return 2;
    case ElementType::fp32:
      return 4;
    case ElementType::fp64:
      return 8;
    case ElementType::fp8_e4m3:
    case ElementType::fp8_e5m2:
      break;
  }
  return 1;
}

KernelQuery gemm(std::int64_t m, std::int64_t n, std::int64_t k, const GemmOptions& options) {
  expect_sizes({{"m", m}, {"n", n}, {"k", k}, {"batch", options.batch}});
  const ElementType c_type = options.output_type.value_or(
      size_of(options.type) > 1 ? options.type : ElementType::bf16);
  // cuBLAS's matrices are column-major: it computes C^T = B^T A^T, and its first operand is our B.
  const std::int64_t lda = options.b_transposed ? k : n;
  const std::int64_t ldb = options.a_transposed ? m : k;
  const std::string_view compute = options.type == ElementType::fp64 ? "fp64"
                                   : options.tf32 && options.type == ElementType::fp32 ? "tf32"
                                                                                       : "fp32";
  return {.name = "gemm",
          .features = {{"m", real(n)},
                       {"n", real(m)},
                       {"k", real(k)},
                       {"batch", real(options.batch)},
                       {"lda", real(lda)},
                       {"ldb", real(ldb)},
                       {"ldc", real(n)},
                       {"a_align", alignment(lda, options.type)},
                       {"b_align", alignment(ldb, options.type)},
                       {"c_align", alignment(n, c_type)}},
          .attributes = {{"a_type", std::string{to_string(options.type)}},
                         {"b_type", std::string{to_string(options.type)}},
                         {"c_type", std::string{to_string(c_type)}},
                         {"compute", std::string{compute}},
                         {"transa", options.b_transposed ? "T" : "N"},
                         {"transb", options.a_transposed ? "T" : "N"},
                         {"epilogue", "none"}}};
}

KernelQuery linear_forward(std::int64_t rows, std::int64_t in, std::int64_t out, ElementType type) {
  return gemm(rows, out, in, {.type = type, .b_transposed = true});
}
KernelQuery linear_backward_input(std::int64_t rows, std::int64_t in, std::int64_t out,
                                  ElementType type) {
  return gemm(rows, in, out, {.type = type});
}
KernelQuery linear_backward_weight(std::int64_t rows, std::int64_t in, std::int64_t out,
                                   ElementType type) {
  return gemm(out, in, rows, {.type = type, .a_transposed = true});
}

namespace {

KernelQuery attention(std::string name, const AttentionShape& shape) {
  const std::int64_t key_heads = shape.key_heads == 0 ? shape.heads : shape.key_heads;
  const std::int64_t keys = shape.keys == 0 ? shape.queries : shape.keys;
  expect_sizes({{"batch", shape.batch},
                {"heads", shape.heads},
                {"key_heads", key_heads},
                {"queries", shape.queries},
                {"keys", keys},
                {"depth", shape.depth}});
  return {.name = std::move(name),
          .features = {{"b", real(shape.batch)},
                       {"h", real(shape.heads)},
                       {"h_kv", real(key_heads)},
                       {"s_q", real(shape.queries)},
                       {"s_kv", real(keys)},
                       {"d", real(shape.depth)},
                       {"d_v", real(shape.depth)}},
          .attributes = {{"type", std::string{to_string(shape.type)}},
                         {"causal", shape.causal ? "1" : "0"}}};
}

}  // namespace

KernelQuery attention_forward(const AttentionShape& shape) { return attention("sdpa_fwd", shape); }
KernelQuery attention_backward(const AttentionShape& shape) { return attention("sdpa_bwd", shape); }

KernelQuery copy(Bytes size) {
  expect_sizes({{"size", size.count()}});
  return {.name = "memcpy_d2d", .features = {{"bytes", real(size.count())}}};
}

KernelQuery custom(const CustomKernel& kernel) {
  PHANTORA_EXPECTS(std::isfinite(kernel.bytes) && std::isfinite(kernel.flops) &&
                       std::min(kernel.bytes, kernel.flops) >= 0.0 &&
                       std::max(kernel.bytes, kernel.flops) > 0.0,
                   "kernel '" + kernel.name + "' tells its bytes, flops or both");
  PHANTORA_EXPECTS(detail::library_operation(kernel.name) == nullptr,
                   "'" + kernel.name + "' is the name of a library's operation");
  return {.name = kernel.name,
          .bytes = kernel.bytes,
          .flops = kernel.flops,
          .arithmetic = kernel.arithmetic};
}

Kernel known_time(Duration time, std::string name, KernelLimit limit) {
  PHANTORA_EXPECTS(time >= Duration{}, "kernel '" + name + "' takes no negative time");
  return {KernelQuery{.name = std::move(name)},
          CostEstimate{.duration = time, .source = CostSource::measured, .limit = limit}};
}

}  // namespace phantora
