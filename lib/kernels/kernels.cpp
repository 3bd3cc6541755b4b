#include "kernels/library_operations.hpp"

#include <phantora/error.hpp>
#include <phantora/kernels/kernels.hpp>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>

namespace phantora {
namespace {

void expect_sizes(std::initializer_list<std::pair<std::string_view, std::int64_t>> sizes) {
  for (const auto& [name, size] : sizes) {
    PHANTORA_EXPECTS(
        size > 0, "a kernel's " + std::string{name} + " is positive, not " + std::to_string(size));
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
  const ElementType c_type =
      options.output_type.value_or(size_of(options.type) > 1 ? options.type : ElementType::bf16);
  // cuBLAS's matrices are column-major: it computes C^T = B^T A^T, and its first operand is our B.
  const std::int64_t lda = options.b_transposed ? k : n;
  const std::int64_t ldb = options.a_transposed ? m : k;
  const std::string_view compute = options.type == ElementType::fp64                   ? "fp64"
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

namespace {

/// How PyTorch 2.11's kernels call a type. Those of other sizes run as these do.
std::string cpp_type(ElementType type) { return size_of(type) == 2 ? "c10::BFloat16" : "float"; }

std::uint32_t blocks(std::int64_t work, std::int64_t each) {
  const std::int64_t count = (work + each - 1) / each;
  return static_cast<std::uint32_t>(std::min<std::int64_t>(count, 0x7fff'ffff));
}

/// A launch of one of PyTorch's kernels.
KernelQuery launch(std::string name, KernelQuery::Dim3 grid, KernelQuery::Dim3 block,
                   std::uint32_t shared_bytes,
                   std::map<std::string, double, std::less<>> features) {
  return {.name = std::move(name),
          .grid = grid,
          .block = block,
          .shared_bytes = shared_bytes,
          .features = std::move(features)};
}

KernelQuery norm_forward(std::int64_t rows, std::int64_t cols, ElementType type, bool rms) {
  expect_sizes({{"rows", rows}, {"cols", cols}});
  const std::string t = cpp_type(type), in = t + " const*";
  return launch("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<" + t +
                    ", float, " + (rms ? "true" : "false") + ">(int, float, " + in + ", " + in +
                    ", " + in + ", float*, float*, " + t + "*)",
                {blocks(rows, 1), 1, 1}, {32, 4, 1}, 24,
                {{"rows", real(rows)}, {"cols", real(cols)}});
}

KernelQuery norm_backward_input(std::int64_t rows, std::int64_t cols, ElementType type, bool rms) {
  expect_sizes({{"rows", rows}, {"cols", cols}});
  const std::string t = cpp_type(type), in = t + " const*";
  return launch("void at::native::(anonymous namespace)::layer_norm_grad_input_kernel_vectorized<" +
                    t + ", float, " + (rms ? "true" : "false") + ">(" + in + ", " + in +
                    ", float const*, float const*, " + in + ", " + t + "*, int)",
                {blocks(rows, 1), 1, 1}, {128, 1, 1}, 16,
                {{"rows", real(rows)}, {"cols", real(cols)}});
}

KernelQuery norm_backward_weight(std::int64_t rows, std::int64_t cols, ElementType type, bool rms) {
  expect_sizes({{"rows", rows}, {"cols", cols}});
  const std::string t = cpp_type(type), in = t + " const*";
  constexpr std::int64_t tile = 256;  // rows of a tile: whole ones alone need no checks
  return launch("void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate<" + t +
                    ", float, 32u, 32u, 256u, false, " + (rows % tile == 0 ? "true" : "false") +
                    ", " + (rms ? "true" : "false") + ">(long, long, " + in + ", " + in +
                    ", float const*, float const*, " + t + "*, " + t + "*)",
                {blocks(cols, 32), 1, 1}, {32, 32, 1}, 8448,
                {{"rows", real(rows)}, {"cols", real(cols)}});
}

}  // namespace

KernelQuery layer_norm_forward(std::int64_t rows, std::int64_t cols, ElementType type) {
  return norm_forward(rows, cols, type, false);
}
KernelQuery layer_norm_backward_input(std::int64_t rows, std::int64_t cols, ElementType type) {
  return norm_backward_input(rows, cols, type, false);
}
KernelQuery layer_norm_backward_weight(std::int64_t rows, std::int64_t cols, ElementType type) {
  return norm_backward_weight(rows, cols, type, false);
}
KernelQuery rms_norm_forward(std::int64_t rows, std::int64_t cols, ElementType type) {
  return norm_forward(rows, cols, type, true);
}
KernelQuery rms_norm_backward_input(std::int64_t rows, std::int64_t cols, ElementType type) {
  return norm_backward_input(rows, cols, type, true);
}
KernelQuery rms_norm_backward_weight(std::int64_t rows, std::int64_t cols, ElementType type) {
  return norm_backward_weight(rows, cols, type, true);
}

namespace {

/// A warp takes one row, or two of up to 128, where they have at most 2048 elements; else a block.
KernelQuery softmax(std::int64_t rows, std::int64_t cols, ElementType type, bool forward) {
  expect_sizes({{"rows", rows}, {"cols", cols}});
  const std::string t = cpp_type(type), in = t + " const*";
  const std::map<std::string, double, std::less<>> features{{"rows", real(rows)},
                                                            {"cols", real(cols)}};
  constexpr std::int64_t most_of_warp = 2048, two_rows = 128, warps = 4;
  if (cols <= most_of_warp) {
    int power = 0;
    while ((std::int64_t{1} << power) < cols) ++power;
    const std::string name = "void (anonymous namespace)::softmax_warp_";
    const std::string types = "<" + t + ", " + t + ", float, " + std::to_string(power) +
                              ", false, false>(" + t + "*, " + in;
    const std::string tail = forward ? ", int, int, int, bool const*, int, bool)"
                                     : ", " + in + ", int, int, int, bool const*)";
    return launch(name + (forward ? "forward" : "backward") + types + tail,
                  {blocks(rows, cols <= two_rows ? 2 * warps : warps), 1, 1}, {32, warps, 1}, 0,
                  features);
  }
  const std::string width = size_of(type) == 2 ? "8" : "4";
  const std::string pass = forward ? "Forward" : "Backward";
  return launch("void at::native::(anonymous namespace)::cunn_SoftMax" + pass + "<" + width + ", " +
                    t + ", float, " + t + ", at::native::(anonymous namespace)::SoftMax" + pass +
                    "Epilogue>(" + t + "*, " + in + (forward ? ", int)" : ", " + in + ", long)"),
                {blocks(rows, 1), 1, 1}, {1024, 1, 1}, 128, features);
}

}  // namespace

KernelQuery softmax_forward(std::int64_t rows, std::int64_t cols, ElementType type) {
  return softmax(rows, cols, type, true);
}
KernelQuery softmax_backward(std::int64_t rows, std::int64_t cols, ElementType type) {
  return softmax(rows, cols, type, false);
}

KernelQuery elementwise(std::int64_t elements, int inputs, ElementType type) {
  expect_sizes({{"elements", elements}, {"inputs", inputs}});
  const std::string t = cpp_type(type);
  const std::string functor = std::string{inputs == 1 ? "at::native::CUDAFunctorOnSelf_add<"
                                                      : "at::native::CUDAFunctor_add<"} +
                              t + ">";
  const std::string arrays = "std::array<char*, " + std::to_string(inputs + 1) + "ul>";
  constexpr std::int64_t per_block = 1024;  // 8 of each of 128 threads
  return launch("void at::native::vectorized_elementwise_kernel<" +
                    std::string{size_of(type) == 2 ? "8" : "4"} + ", " + functor + ", " + arrays +
                    " >(int, " + functor + ", " + arrays + ")",
                {blocks(elements, per_block), 1, 1}, {128, 1, 1}, 0, {{"numel", real(elements)}});
}

KernelQuery embedding(std::int64_t rows, std::int64_t cols, ElementType type) {
  expect_sizes({{"rows", rows}, {"cols", cols}});
  // A thread copies 16 bytes; a block, of up to 256, a row or a part of it.
  const double row_bytes = real(cols) * size_of(type);
  const auto threads = static_cast<std::int64_t>(std::ceil(row_bytes / 16));
  const auto block =
      static_cast<std::uint32_t>(std::min<std::int64_t>(256, (threads + 31) / 32 * 32));
  KernelQuery query = launch(
      "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long, "
      "long, long, bool)",
      {blocks(rows, 1), blocks(threads, 256), 1}, {block, 1, 1}, 0, {});
  query.bytes = real(rows) * (2 * row_bytes + 8);  // and the index of each
  query.features = {{"rows", real(rows)}, {"cols", row_bytes}};
  return query;
}

KernelQuery adam(std::int64_t parameters, ElementType type) {
  expect_sizes({{"parameters", parameters}});
  // A launch has up to 320 chunks. More take many launches, which the memory alone holds up: four
  // lists are read and three written.
  constexpr std::int64_t chunk = 65536, most_chunks = 320;
  if (parameters > chunk * most_chunks)
    return custom({.name = "adam", .bytes = 7 * size_of(type) * real(parameters)});
  const std::string metadata =
      "at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>";
  const std::string functor = "at::native::(anonymous namespace)::FusedAdamMathFunctor<" +
                              cpp_type(type) + ", 4, (at::native::ADAM_MODE)1, false>";
  const std::string rest =
      "float const*, double, double, double, double, double, bool, float const*, float const*";
  return launch("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<" + metadata +
                    ", " + functor + ", " + rest + ">(" + metadata + ", " + functor + ", " + rest +
                    ")",
                {blocks(parameters, chunk), 1, 1}, {512, 1, 1}, 0,
                {{"numel", real(parameters)}, {"cols", real(std::min(parameters, chunk))}});
}

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
