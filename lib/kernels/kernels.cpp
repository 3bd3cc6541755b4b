#include "kernels/library_operations.hpp"

#include <phantora/error.hpp>
#include <phantora/kernels/kernels.hpp>

#include <algorithm>
#include <array>
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
KernelQuery pytorch_attention_forward(const AttentionShape& shape) {
  return attention("pytorch_sdpa_fwd", shape);
}
KernelQuery pytorch_attention_backward(const AttentionShape& shape) {
  return attention("pytorch_sdpa_bwd", shape);
}

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

/// FlashAttention 2's kernels are made for some depths of a head; others take the next one.
/// Forward a block has `rows` queries and goes through the keys `columns` at a time, backward it
/// has `columns` keys.
struct FlashTile {
  std::int64_t depth, rows, columns, warps;
  std::string_view rest{};   ///< of the parameters that tell the tile, backward
  std::uint32_t shared = 0;  ///< bytes of shared memory, backward
};
// Those of the H200's table, which PyTorch's flash_fwd_launch_template.h and
// flash_bwd_launch_template.h choose for GPUs of compute capability 8.0 and 9.0, but for 256.
constexpr std::array<FlashTile, 6> flash_forward{{{32, 128, 128, 4},
                                                  {64, 128, 128, 4},
                                                  {96, 128, 64, 4},
                                                  {128, 128, 64, 4},
                                                  {192, 128, 64, 8},
                                                  {256, 64, 64, 4}}};
constexpr std::array<FlashTile, 6> flash_backward{{{32, 128, 128, 8, "4, 4, 4, true", 98304},
                                                   {64, 128, 128, 8, "4, 4, 4, false", 147456},
                                                   {96, 64, 128, 8, "2, 4, 4, true", 94208},
                                                   {128, 64, 128, 8, "2, 4, 2, false", 147456},
                                                   {192, 64, 64, 8, "4, 2, 2, false", 139264},
                                                   {256, 64, 64, 8, "4, 2, 2, false", 180224}}};

/// What FlashAttention 2's launches have in common.
class FlashAttention {
 public:
  FlashAttention(const AttentionShape& shape, const std::array<FlashTile, 6>& tiles)
      : like_{attention("", shape)}, shape_{shape} {
    const auto fits =
        std::ranges::find_if(tiles, [&](const FlashTile& it) { return shape.depth <= it.depth; });
    PHANTORA_EXPECTS(fits != tiles.end(), "FlashAttention 2 takes heads of at most 256 elements");
    PHANTORA_EXPECTS(shape.type == ElementType::bf16 || shape.type == ElementType::fp16,
                     "FlashAttention 2 takes bf16 or fp16");
    tile_ = *fits;
    keys_ = shape.keys == 0 ? shape.queries : shape.keys;
    const std::string type =
        shape.type == ElementType::bf16 ? "cutlass::bfloat16_t" : "cutlass::half_t";
    const std::string sizes = std::to_string(tile_.depth) + ", " + std::to_string(tile_.rows) +
                              ", " + std::to_string(tile_.columns) + ", " +
                              std::to_string(tile_.warps) + ", ";
    const bool backward = !tile_.rest.empty();
    traits_ = (backward ? "Flash_bwd_kernel_traits<" : "Flash_fwd_kernel_traits<") + sizes +
              (backward ? std::string{tile_.rest} + ", false, " : "false, false, ") + type +
              ", Flash_kernel_traits<" + sizes + type + "> >";
  }

  /// Of a kernel whose blocks each have a tile of queries, or of keys.
  [[nodiscard]] KernelQuery launch(std::string_view kernel, const std::string& arguments,
                                   std::string_view parameters, bool of_keys,
                                   std::uint32_t shared_bytes) const {
    KernelQuery query = like_;
    // A demangled name has a space between two brackets that close.
    query.name = "void pytorch_flash::" + std::string{kernel} + "<" + arguments +
                 (arguments.ends_with('>') ? " >" : ">") +
                 "(pytorch_flash::" + std::string{parameters} + ")";
    query.grid = {of_keys ? blocks(keys_, tile_.columns) : blocks(shape_.queries, tile_.rows),
                  blocks(shape_.batch, 1), blocks(shape_.heads, 1)};
    query.block = {static_cast<std::uint32_t>(32 * tile_.warps), 1, 1};
    query.shared_bytes = shared_bytes;
    return query;
  }
  [[nodiscard]] const std::string& traits() const noexcept { return traits_; }
  [[nodiscard]] const FlashTile& tile() const noexcept { return tile_; }
  /// No dropout, the mask, no window, no slopes; whether tiles are whole along both sequences,
  /// which is of no use to the largest heads, and along the head; no cap of the scores.
  [[nodiscard]] std::string switches() const {
    const auto flag = [](bool set) { return set ? ", true" : ", false"; };
    const bool whole_heads = shape_.depth == tile_.depth;
    const bool whole_tiles = shape_.queries % tile_.rows == 0 && keys_ % tile_.columns == 0;
    return traits_ + ", false" + flag(shape_.causal) + ", false, false" +
           flag(whole_tiles && whole_heads && tile_.depth <= 128) + flag(whole_heads) + ", false";
  }

 private:
  KernelQuery like_;
  AttentionShape shape_;
  FlashTile tile_{};
  std::int64_t keys_ = 0;
  std::string traits_;
};

/// PyTorch's sum over the heads that share a key, of `results` elements. The sweeps measured it by
/// its grid, which tells the results, and not among sums of known sizes: of those it is far from
/// all, and takes 21 us where they would have it take 4.
KernelQuery sum_over_heads(std::int64_t results, std::int64_t heads, ElementType type) {
  const std::string t = type == ElementType::bf16 ? "c10::BFloat16" : "c10::Half";
  const std::string reduction =
      "at::native::ReduceOp<" + t + ", at::native::func_wrapper_t<" + t +
      ", at::native::sum_functor<" + t + ", float, " + t +
      ">::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int, " + t +
      ", 4, 8>";
  constexpr std::int64_t results_of_block = 512;  // 4 of each of 128 threads
  return launch("void at::native::reduce_kernel<128, 4, " + reduction + " >(" + reduction + ")",
                {blocks(results, results_of_block), 1, 1},
                heads == 2 ? KernelQuery::Dim3{64, 2, 1} : KernelQuery::Dim3{32, 4, 1}, 16, {});
}

}  // namespace

KernelQuery flash_attention_forward(const AttentionShape& shape) {
  const FlashAttention flash{shape, flash_forward};
  const FlashTile& tile = flash.tile();
  // A tile of queries, one of keys and one of values, 2 bytes each.
  const auto shared = static_cast<std::uint32_t>(2 * tile.depth * (tile.rows + 2 * tile.columns));
  return flash.launch("flash_fwd_kernel", flash.switches() + ", false", "Flash_fwd_params", false,
                      shared);
}

std::vector<KernelQuery> flash_attention_backward(const AttentionShape& shape) {
  const FlashAttention flash{shape, flash_backward};
  const FlashTile& tile = flash.tile();
  std::vector<KernelQuery> kernels{
      flash.launch("flash_bwd_dot_do_o_kernel", "true, " + flash.traits(), "Flash_bwd_params",
                   false, 0),
      flash.launch("flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel", flash.switches(),
                   "Flash_bwd_params", true, tile.shared),
      flash.launch("flash_bwd_convert_dq_kernel", flash.traits(), "Flash_bwd_params, int", false,
                   static_cast<std::uint32_t>(2 * tile.rows * tile.depth))};
  const std::int64_t key_heads = shape.key_heads == 0 ? shape.heads : shape.key_heads;
  if (key_heads < shape.heads) {
    const std::int64_t keys = shape.keys == 0 ? shape.queries : shape.keys;
    const KernelQuery sum = sum_over_heads(shape.batch * keys * key_heads * shape.depth,
                                           shape.heads / key_heads, shape.type);
    kernels.insert(kernels.end(), {sum, sum});
  }
  return kernels;
}

namespace {

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
