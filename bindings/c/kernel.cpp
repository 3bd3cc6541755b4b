#include "c/handles.hpp"

#include <phantora/kernels/kernels.hpp>

using namespace phantora;
using namespace phantora::bindings;

namespace {

ElementType element(phantora_element type) { return enumerator<ElementType>(type, 6, "type"); }

/// By number and not by order of ours, so that either may change.
Arithmetic arithmetic(phantora_arithmetic units) {
  constexpr Arithmetic ours[] = {Arithmetic::none, Arithmetic::fp8,  Arithmetic::half,
                                 Arithmetic::tf32, Arithmetic::fp32, Arithmetic::fp64,
                                 Arithmetic::int8};
  return ours[enumerator<int>(units, 7, "arithmetic")];
}

using OverRows = KernelQuery (*)(std::int64_t rows, std::int64_t cols, ElementType type);

/// @param kernels  of the passes; nullptr: the layer has none.
phantora_status over_rows(const OverRows (&kernels)[3], std::int64_t rows, std::int64_t cols,
                          phantora_element type, phantora_pass pass, phantora_kernel** out) {
  return call([&] {
    const OverRows kernel = kernels[enumerator<int>(pass, 3, "pass")];
    PHANTORA_EXPECTS(kernel != nullptr, "it has no such pass");
    create(out, kernel(rows, cols, element(type)));
  });
}

}  // namespace

phantora_status phantora_kernel_gemm(const phantora_gemm* shape, phantora_kernel** out) {
  return call([&] {
    const phantora_gemm gemm_shape = read(shape, "shape");
    create(out, gemm(gemm_shape.m, gemm_shape.n, gemm_shape.k,
                     {.type = element(gemm_shape.type),
                      .batch = gemm_shape.batch == 0 ? 1 : gemm_shape.batch,
                      .a_transposed = gemm_shape.a_transposed,
                      .b_transposed = gemm_shape.b_transposed,
                      .tf32 = gemm_shape.tf32}));
  });
}

phantora_status phantora_kernel_attention(const phantora_attention* shape, phantora_pass pass,
                                          phantora_kernel** out) {
  return call([&] {
    const phantora_attention given = read(shape, "shape");
    const auto number = enumerator<int>(pass, 2, "pass");
    AttentionShape ours{.key_heads = given.key_heads,
                        .keys = given.keys,
                        .causal = !given.not_causal,
                        .type = element(given.type)};
    if (given.batch != 0) ours.batch = given.batch;
    if (given.heads != 0) ours.heads = given.heads;
    if (given.queries != 0) ours.queries = given.queries;
    if (given.depth != 0) ours.depth = given.depth;
    create(out, number == PHANTORA_FORWARD ? attention_forward(ours) : attention_backward(ours));
  });
}

phantora_status phantora_kernel_linear(int64_t rows, int64_t in_features, int64_t out_features,
                                       phantora_element type, phantora_pass pass,
                                       phantora_kernel** out) {
  return call([&] {
    constexpr KernelQuery (*kernels[])(std::int64_t, std::int64_t, std::int64_t, ElementType) = {
        linear_forward, linear_backward_input, linear_backward_weight};
    create(out, kernels[enumerator<int>(pass, 3, "pass")](rows, in_features, out_features,
                                                          element(type)));
  });
}

phantora_status phantora_kernel_layer_norm(int64_t rows, int64_t cols, phantora_element type,
                                           phantora_pass pass, phantora_kernel** out) {
  return over_rows({layer_norm_forward, layer_norm_backward_input, layer_norm_backward_weight},
                   rows, cols, type, pass, out);
}
phantora_status phantora_kernel_rms_norm(int64_t rows, int64_t cols, phantora_element type,
                                         phantora_pass pass, phantora_kernel** out) {
  return over_rows({rms_norm_forward, rms_norm_backward_input, rms_norm_backward_weight}, rows,
                   cols, type, pass, out);
}
phantora_status phantora_kernel_softmax(int64_t rows, int64_t cols, phantora_element type,
                                        phantora_pass pass, phantora_kernel** out) {
  return over_rows({softmax_forward, softmax_backward, nullptr}, rows, cols, type, pass, out);
}

phantora_status phantora_kernel_elementwise(int64_t elements, int inputs, phantora_element type,
                                            phantora_kernel** out) {
  return call([&] { create(out, elementwise(elements, inputs, element(type))); });
}
phantora_status phantora_kernel_embedding(int64_t rows, int64_t cols, phantora_element type,
                                          phantora_kernel** out) {
  return call([&] { create(out, embedding(rows, cols, element(type))); });
}
phantora_status phantora_kernel_adam(int64_t parameters, phantora_element type,
                                     phantora_kernel** out) {
  return call([&] { create(out, adam(parameters, element(type))); });
}
phantora_status phantora_kernel_copy(int64_t bytes, phantora_kernel** out) {
  return call([&] { create(out, copy(Bytes{bytes})); });
}
phantora_status phantora_kernel_custom(const char* name, double bytes, double flops,
                                       phantora_arithmetic units, phantora_kernel** out) {
  return call([&] {
    create(out, custom({.name = &expect(name, "name"),
                        .bytes = bytes,
                        .flops = flops,
                        .arithmetic = arithmetic(units)}));
  });
}
phantora_status phantora_kernel_known_time(const char* name, int64_t time, phantora_limit limit,
                                           phantora_kernel** out) {
  return call([&] {
    create(out, known_time(Duration{time}, &expect(name, "name"),
                           enumerator<KernelLimit>(limit, 3, "limit")));
  });
}
void phantora_kernel_destroy(phantora_kernel** kernel) { destroy(kernel); }

phantora_status phantora_kernel_cost(const phantora_kernel* kernel, const char* gpu,
                                     phantora_cost* out) {
  return call([&] {
    const Kernel& asked = expect(kernel, "kernel").kernel;
    const GpuModel model = gpu_model(&expect(gpu, "gpu"));
    const auto estimate =
        asked.known ? asked.known : builtin_cost_model(model).estimate(asked.query);
    if (!estimate) throw CostError{"no price for " + asked.query.name};
    write(out, {.struct_size = 0,
                .duration = estimate->duration.count(),
                .deviation = estimate->stddev.count(),
                .source = static_cast<phantora_source>(estimate->source)});
  });
}
