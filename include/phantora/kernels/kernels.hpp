#pragma once

#include <phantora/kernels/kernel_cost_model.hpp>
#include <phantora/units.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Kernels by their shapes: queries for a KernelCostModel or a Workload, so that nobody has to know
/// the keys and names by which the models tell them apart.
///
///     builtin_cost_model(gpu_model("h200")).estimate(gemm(8192, 8192, 8192))->duration
///
/// Shapes are those of row-major tensors. Each query is one that was measured, or that lies among
/// those that were, if the sizes do. Functions throw ArgumentError for a size that is not positive.
namespace phantora {

/// Types of elements.
enum class ElementType : std::uint8_t { bf16, fp16, fp32, fp64, fp8_e4m3, fp8_e5m2 };
/// The name as the enumeration has it: "bf16".
std::string_view to_string(ElementType type) noexcept;
/// Bytes of one.
double size_of(ElementType type) noexcept;

/// What a matrix product is besides its sizes.
struct GemmOptions {
  ElementType type = ElementType::bf16;      ///< of A and B
  std::optional<ElementType> output_type{};  ///< of C; nothing: that of A, bf16 for 8 bits
  std::int64_t batch = 1;                    ///< products of that shape in one call
  bool a_transposed = false;                 ///< A is stored k x m
  bool b_transposed = false;                 ///< B is stored n x k
  bool tf32 = false;                         ///< fp32 on tensor cores where the GPU has them
};
/// C = A B for A of m x k, B of k x n and C of m x n elements.
KernelQuery gemm(std::int64_t m, std::int64_t n, std::int64_t k, const GemmOptions& options = {});
/// The same with nothing but a type.
inline KernelQuery gemm(std::int64_t m, std::int64_t n, std::int64_t k, ElementType type) {
  return gemm(m, n, k, GemmOptions{.type = type});
}
/// y = x W^T, as a linear layer stores its weights of `out` x `in`.
KernelQuery linear_forward(std::int64_t rows, std::int64_t in, std::int64_t out,
                           ElementType type = ElementType::bf16);
/// What its backward pass computes for x.
KernelQuery linear_backward_input(std::int64_t rows, std::int64_t in, std::int64_t out,
                                  ElementType type = ElementType::bf16);
/// What its backward pass computes for W.
KernelQuery linear_backward_weight(std::int64_t rows, std::int64_t in, std::int64_t out,
                                   ElementType type = ElementType::bf16);

/// Scaled dot product attention.
struct AttentionShape {
  std::int64_t batch = 1;      ///< sequences
  std::int64_t heads = 1;      ///< of queries
  std::int64_t key_heads = 0;  ///< of keys and values; 0: as many as `heads`
  std::int64_t queries = 1;    ///< positions that ask
  std::int64_t keys = 0;       ///< positions that are asked about; 0: as many as `queries`
  std::int64_t depth = 64;     ///< elements of a head
  bool causal = true;          ///< a position sees those before it and itself
  ElementType type = ElementType::bf16;  ///< bf16 or fp16
};
/// As cuDNN computes it.
KernelQuery attention_forward(const AttentionShape& shape);
/// The gradients of queries, keys and values.
KernelQuery attention_backward(const AttentionShape& shape);
/// As PyTorch's FlashAttention 2 does, with the tiles that it takes on an A100 or an H100 (up to
/// 192 elements of a head on an A100); without splits of the keys, which it makes where there are
/// fewer than 1.6 tiles of 64 queries for each SM. @throws ArgumentError for heads of more than 256
/// elements and for types of other than 16 bits, which it does not take.
KernelQuery flash_attention_forward(const AttentionShape& shape);
/// Its gradients, kernel after kernel: of outputs times their gradients, all three, and the
/// queries' from fp32; where heads share keys also two sums, over what each head makes of the keys'
/// and of the values'.
std::vector<KernelQuery> flash_attention_backward(const AttentionShape& shape);
/// As PyTorch 2.11 does (scaled_dot_product_attention): cuDNN's on GPUs of compute capability 9 and
/// 10, else FlashAttention 2. builtin_cost_model() knows which its GPU is.
KernelQuery pytorch_attention_forward(const AttentionShape& shape);
/// Its gradients, as one call.
KernelQuery pytorch_attention_backward(const AttentionShape& shape);

/// Over rows of `cols` elements each, as PyTorch's kernels compute them, of bf16 or fp32. A norm's
/// backward pass is two kernels, for its input and for its weights.
KernelQuery layer_norm_forward(std::int64_t rows, std::int64_t cols,
                               ElementType type = ElementType::bf16);
/// Its gradient for the input.
KernelQuery layer_norm_backward_input(std::int64_t rows, std::int64_t cols,
                                      ElementType type = ElementType::bf16);
/// Its gradient for the weights.
KernelQuery layer_norm_backward_weight(std::int64_t rows, std::int64_t cols,
                                       ElementType type = ElementType::bf16);
/// Over rows as layer_norm_forward().
KernelQuery rms_norm_forward(std::int64_t rows, std::int64_t cols,
                             ElementType type = ElementType::bf16);
/// Its gradient for the input.
KernelQuery rms_norm_backward_input(std::int64_t rows, std::int64_t cols,
                                    ElementType type = ElementType::bf16);
/// Its gradient for the weights.
KernelQuery rms_norm_backward_weight(std::int64_t rows, std::int64_t cols,
                                     ElementType type = ElementType::bf16);
/// Over rows as layer_norm_forward().
KernelQuery softmax_forward(std::int64_t rows, std::int64_t cols,
                            ElementType type = ElementType::bf16);
/// Its gradient for the input.
KernelQuery softmax_backward(std::int64_t rows, std::int64_t cols,
                             ElementType type = ElementType::bf16);

/// One pass over `elements`: reads them from `inputs` tensors and writes one.
KernelQuery elementwise(std::int64_t elements, int inputs = 1,
                        ElementType type = ElementType::bf16);
/// Rows of `cols` elements that are looked up in a table.
KernelQuery embedding(std::int64_t rows, std::int64_t cols, ElementType type = ElementType::bf16);
/// A step of Adam as PyTorch's fused optimizer makes it: parameters, gradients and both moments of
/// `type`. More than 21 million of them, which take many launches, cost what the memory takes.
KernelQuery adam(std::int64_t parameters, ElementType type = ElementType::fp32);
/// A copy within the GPU's memory.
KernelQuery copy(Bytes size);

/// A kernel that is told by its work. It is taken to fill the GPU.
struct CustomKernel {
  std::string name = "custom";               ///< as reports call it
  double bytes = 0;                          ///< read from and written to device memory
  double flops = 0;                          ///< arithmetic
  Arithmetic arithmetic = Arithmetic::none;  ///< that does the flops; none: fp32
};
/// @throws ArgumentError if it tells no work, or the name is that of a library's operation.
KernelQuery custom(const CustomKernel& kernel);

/// A kernel as a Workload launches it: one that a cost model has to price, or one whose time is
/// known.
struct Kernel {
  KernelQuery query{};  ///< what it is
  /// In place of what a cost model would say, on every GPU.
  std::optional<CostEstimate> known{};

  Kernel() = default;
  /// One that a cost model has to price.
  Kernel(KernelQuery asked)  // NOLINT(google-explicit-constructor): most kernels are but a query
      : query{std::move(asked)} {}
  /// One whose time is known.
  Kernel(KernelQuery asked, CostEstimate answer) : query{std::move(asked)}, known{answer} {}
};
/// A kernel that takes `time` when it has its GPU to itself. @throws ArgumentError if that is
/// negative.
/// @param limit  what holds it up, and so how it and what runs beside it slow each other.
Kernel known_time(Duration time, std::string name = "known time",
                  KernelLimit limit = KernelLimit::memory);

}  // namespace phantora
