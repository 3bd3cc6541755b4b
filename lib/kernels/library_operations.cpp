#include "kernels/library_operations.hpp"

#include <algorithm>
#include <array>

namespace phantora::detail {

namespace {

using Words = std::array<std::string_view, 12>;

// "other" is what the interception calls a type that none of these names.
constexpr Words types{"bf16",     "fp16", "fp32",  "fp64",      "fp8_e4m3",   "fp8_e5m2",
                      "fp4_e2m1", "int8", "int32", "complex64", "complex128", "other"};
constexpr std::array<std::string_view, 6> computes{"fp32", "tf32", "fp16", "bf16", "fp64", "int32"};
constexpr std::array<std::string_view, 2> layouts{"nchw", "nhwc"};
constexpr std::array<std::string_view, 2> transpositions{"N", "T"};
constexpr std::array<std::string_view, 2> answers{"0", "1"};

constexpr std::array<FeatureKey, 10> gemm_features{
    {{"m", true},
     {"n", true},
     {"k", true, true},  // cuBLAS then scales C alone
     {"batch"},
     {"lda"},
     {"ldb"},
     {"ldc"},
     {"a_align"},
     {"b_align"},
     {"c_align"}}};
constexpr std::array<AttributeKey, 7> gemm_attributes{{{"a_type", types},
                                                       {"b_type", types},
                                                       {"c_type", types},
                                                       {"compute", computes},
                                                       {"transa", transpositions},
                                                       {"transb", transpositions},
                                                       {"epilogue"}}};

// The depth of images and filters: only of convolutions over three dimensions.
constexpr std::array<FeatureKey, 19> conv_features{{{"n", true},
                                                    {"c", true},
                                                    {"d"},
                                                    {"h", true},
                                                    {"w", true},
                                                    {"k", true},
                                                    {"t"},
                                                    {"r", true},
                                                    {"s", true},
                                                    {"stride_d"},
                                                    {"stride_h"},
                                                    {"stride_w"},
                                                    {"pad_d", false, true},
                                                    {"pad_h", false, true},
                                                    {"pad_w", false, true},
                                                    {"dilation_d"},
                                                    {"dilation_h"},
                                                    {"dilation_w"},
                                                    {"groups"}}};
// "tried": the fastest of all that cuDNN offers, as its find modes choose (PyTorch's
// torch.backends.cudnn.benchmark), in place of what its heuristics put first.
constexpr std::array<std::string_view, 1> plans{"tried"};
constexpr std::array<AttributeKey, 4> conv_attributes{
    {{"type", types}, {"compute", computes}, {"layout", layouts}, {"plan", plans}}};

constexpr std::array<FeatureKey, 7> sdpa_features{
    {{"b", true}, {"h", true}, {"h_kv"}, {"s_q", true}, {"s_kv"}, {"d", true}, {"d_v"}}};
constexpr std::array<AttributeKey, 4> sdpa_attributes{
    {{"type", types}, {"causal", answers}, {"mask", answers}, {"dropout", answers}}};

constexpr std::array<FeatureKey, 4> batch_norm_features{{{"n", true}, {"c", true}, {"h"}, {"w"}}};
constexpr std::array<AttributeKey, 2> batch_norm_attributes{{{"type", types}, {"layout", layouts}}};

constexpr std::array<FeatureKey, 7> rnn_features{{{"steps", true},
                                                  {"batch", true},
                                                  {"input", true},
                                                  {"hidden", true},
                                                  {"layers"},
                                                  {"directions"},
                                                  {"gates"}}};
constexpr std::array<AttributeKey, 2> rnn_attributes{{{"type", types}, {"compute", computes}}};

// Dense linear algebra, as cuSOLVER and cuBLAS's batched calls name its routines: LAPACK's letters.
constexpr std::array<FeatureKey, 2> order_features{{{"n", true}, {"batch"}}};
constexpr std::array<FeatureKey, 3> matrix_features{{{"m", true}, {"n", true}, {"batch"}}};
constexpr std::array<FeatureKey, 3> solve_features{{{"n", true}, {"right", true}, {"batch"}}};
constexpr std::array<FeatureKey, 4> reflector_features{
    {{"m", true}, {"n", true}, {"k", true}, {"batch"}}};
constexpr std::array<std::string_view, 2> sides{"left", "right"};
constexpr std::array<AttributeKey, 1> typed{{{"type", types}}};
constexpr std::array<AttributeKey, 2> sided{{{"type", types}, {"side", sides}}};
constexpr std::array<AttributeKey, 2> with_vectors{{{"type", types}, {"vectors", answers}}};

// The last dimension is the one whose elements lie beside each other, `x`.
constexpr std::array<FeatureKey, 5> transform_features{
    {{"x", true}, {"y"}, {"z"}, {"batch"}, {"stride"}}};
constexpr std::array<AttributeKey, 2> transform_attributes{
    {{"type", types}, {"output_type", types}}};

constexpr std::array<std::string_view, 3> formats{"csr", "csc", "coo"};
constexpr std::array<FeatureKey, 4> sparse_features{
    {{"rows", true}, {"columns", true}, {"entries", true, true}, {"right"}}};
constexpr std::array<AttributeKey, 4> sparse_attributes{
    {{"type", types}, {"format", formats}, {"index"}, {"algorithm"}}};

// The size may be told as the query's bytes instead.
constexpr std::array<FeatureKey, 1> transfer_features{{{"bytes"}}};

constexpr LibraryOperation convolution(std::string_view name) {
  return {name, conv_features, conv_attributes, "type"};
}
constexpr LibraryOperation attention(std::string_view name) {
  return {name, sdpa_features, sdpa_attributes, "type"};
}
constexpr LibraryOperation batch_norm(std::string_view name) {
  return {name, batch_norm_features, batch_norm_attributes};
}
constexpr LibraryOperation recurrent(std::string_view name) {
  return {name, rnn_features, rnn_attributes, "type"};
}
constexpr LibraryOperation routine(std::string_view name, std::span<const FeatureKey> features,
                                   std::span<const AttributeKey> attributes) {
  return {name, features, attributes, "type"};
}
constexpr LibraryOperation sparse(std::string_view name) {
  return {name, sparse_features, sparse_attributes, "type"};
}
constexpr LibraryOperation transfer(std::string_view name) { return {name, transfer_features, {}}; }

constexpr std::array operations{
    LibraryOperation{"gemm", gemm_features, gemm_attributes, "a_type"},
    convolution("conv_fwd"),
    convolution("conv_bwd_data"),
    convolution("conv_bwd_filter"),
    attention("sdpa_fwd"),
    attention("sdpa_bwd"),
    attention("pytorch_sdpa_fwd"),
    attention("pytorch_sdpa_bwd"),
    batch_norm("batch_norm_fwd_train"),
    batch_norm("batch_norm_bwd"),
    batch_norm("batch_norm_fwd_infer"),
    recurrent("rnn_fwd"),
    recurrent("rnn_bwd_data"),
    recurrent("rnn_bwd_weights"),
    routine("potrf", order_features, typed),
    routine("potri", order_features, typed),
    routine("potrs", solve_features, typed),
    routine("getrf", matrix_features, typed),
    routine("getri", order_features, typed),
    routine("getrs", solve_features, typed),
    routine("sytrf", order_features, typed),
    routine("sytrs", solve_features, typed),
    routine("geqrf", matrix_features, typed),
    routine("orgqr", reflector_features, typed),
    routine("ormqr", reflector_features, sided),
    routine("trsm", solve_features, sided),
    routine("syevd", order_features, with_vectors),
    routine("syevj", order_features, with_vectors),
    routine("geev", order_features, with_vectors),
    routine("gesvd", matrix_features, with_vectors),
    routine("gesvdj", matrix_features, with_vectors),
    routine("gesvda", matrix_features, with_vectors),
    LibraryOperation{"fft", transform_features, transform_attributes, "type"},
    sparse("spmv"),
    sparse("spmm"),
    sparse("sddmm"),
    transfer("memcpy_h2d_pinned"),
    transfer("memcpy_h2d_pageable"),
    transfer("memcpy_d2h_pinned"),
    transfer("memcpy_d2h_pageable"),
    transfer("memcpy_d2d"),
    transfer("memcpy_p2p"),
    transfer("memset")};

}  // namespace

std::span<const LibraryOperation> library_operations() { return operations; }

const LibraryOperation* library_operation(std::string_view name) {
  const auto* const found = std::ranges::find(operations, name, &LibraryOperation::name);
  return found == operations.end() ? nullptr : found;
}

}  // namespace phantora::detail
