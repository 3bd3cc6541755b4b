#include "values.hpp"

#include <phantora/error.hpp>
#include <phantora/kernels/builtin_cost_model.hpp>
#include <phantora/kernels/gpu_model.hpp>
#include <phantora/kernels/kernels.hpp>

#include <algorithm>
#include <array>

namespace phantora::python {
namespace {

/// The value of an enum that is called so. @throws ArgumentError naming those that are.
template <class E, std::size_t N>
E named(std::string_view name, const std::array<E, N>& values, std::string_view what) {
  std::string names;
  for (const E value : values) {
    if (to_string(value) == name) return value;
    names += (names.empty() ? "" : ", ") + std::string{to_string(value)};
  }
  throw ArgumentError{std::string{what} + " is " + std::string{name} + ", not one of " + names};
}
ElementType element(std::string_view name) {
  using enum ElementType;
  return named(name, std::array{bf16, fp16, fp32, fp64, fp8_e4m3, fp8_e5m2}, "dtype");
}
Arithmetic arithmetic(std::string_view name) {
  using enum Arithmetic;
  return named(name, std::array{none, fp8, half, tf32, fp32, fp64, int8}, "arithmetic");
}

CostEstimate cost(const Kernel& kernel, std::string_view gpu) {
  if (kernel.known) return *kernel.known;
  const auto estimate = builtin_cost_model(gpu_model(gpu)).estimate(kernel.query);
  if (!estimate) throw CostError{"no price for " + kernel.query.name + " on " + std::string{gpu}};
  return *estimate;
}

template <KernelQuery (*Make)(std::int64_t, std::int64_t, ElementType)>
Kernel over_rows(std::int64_t rows, std::int64_t cols, std::string_view dtype) {
  return Make(rows, cols, element(dtype));
}
template <KernelQuery (*Make)(std::int64_t, std::int64_t, std::int64_t, ElementType)>
Kernel linear(std::int64_t rows, std::int64_t in_features, std::int64_t out_features,
              std::string_view dtype) {
  return Make(rows, in_features, out_features, element(dtype));
}
template <KernelQuery (*Make)(const AttentionShape&)>
Kernel attention(std::int64_t queries, std::int64_t heads, std::int64_t depth, std::int64_t batch,
                 std::int64_t key_heads, std::int64_t keys, bool causal, std::string_view dtype) {
  return Make({.batch = batch,
               .heads = heads,
               .key_heads = key_heads,
               .queries = queries,
               .keys = keys,
               .depth = depth,
               .causal = causal,
               .type = element(dtype)});
}

}  // namespace

void define_kernels(nb::module_& m) {
  nb::class_<CostEstimate>(m, "Cost", "What a kernel costs when it has its GPU to itself.")
      .def_prop_ro(
          "time", [](const CostEstimate& it) { return to_python(it.duration); }, "Seconds.")
      .def_prop_ro(
          "deviation", [](const CostEstimate& it) { return to_python(it.stddev); },
          "One standard deviation in seconds; 0 where it is not known.")
      .def_prop_ro(
          "source", [](const CostEstimate& it) { return to_string(it.source); },
          "\"measured\", \"fitted\", \"roofline\" or \"unknown\".")
      .def("__repr__", [](const CostEstimate& it) {
        return "<Cost " + std::to_string(to_python(it.duration) * 1e6) + " us, " +
               std::string{to_string(it.source)} + ">";
      });
  nb::class_<Kernel>(m, "Kernel",
                     "A kernel by its shape; the functions of phantora.kernels make it.")
      .def_prop_ro("name", [](const Kernel& it) { return it.query.name; })
      .def_prop_ro(
          "features",
          [](const Kernel& it) {
            nb::dict features;
            for (const auto& [key, value] : it.query.features) features[key.c_str()] = value;
            return features;
          },
          nb::sig("def features(self) -> dict[str, float]"),
          "What its shape is, as cost models tell it: \"m\", \"n\", \"k\", \"numel\" ...")
      .def_prop_ro(
          "bytes", [](const Kernel& it) { return it.query.bytes; },
          "Device memory that it reads and writes, where that is told; else 0.")
      .def_prop_ro(
          "flops", [](const Kernel& it) { return it.query.flops; },
          "Floating-point operations, where they are told; else 0.")
      .def("cost", &cost, "gpu"_a = "h200",
           "What it costs on a GPU (gpu_model_keys() has them). Raises CostError.")
      .def("__repr__", [](const Kernel& it) { return "<Kernel " + it.query.name + ">"; });

  m.def(
      "costs",
      [](const std::vector<Kernel>& kernels, std::string_view gpu) {
        std::vector<double> times;
        {
          const nb::gil_scoped_release release;
          for (const Kernel& kernel : kernels)
            times.push_back(to_python(cost(kernel, gpu).duration));
        }
        return array(std::move(times));
      },
      "kernels"_a, "gpu"_a = "h200", "Seconds that each kernel takes: float64[kernels].");

  m.def(
      "gemm",
      [](std::int64_t m_size, std::int64_t n, std::int64_t k, std::string_view dtype,
         const std::optional<std::string>& output_dtype, std::int64_t batch, bool a_transposed,
         bool b_transposed, bool tf32) -> Kernel {
        GemmOptions options{.type = element(dtype),
                            .batch = batch,
                            .a_transposed = a_transposed,
                            .b_transposed = b_transposed,
                            .tf32 = tf32};
        if (output_dtype) options.output_type = element(*output_dtype);
        return gemm(m_size, n, k, options);
      },
      "m"_a, "n"_a, "k"_a, nb::kw_only(), "dtype"_a = "bf16", "output_dtype"_a = nb::none(),
      "batch"_a = 1, "a_transposed"_a = false, "b_transposed"_a = false, "tf32"_a = false,
      R"(C[m, n] = A[m, k] B[k, n], row-major.

dtype: of A and B: "bf16", "fp16", "fp32", "fp64", "fp8_e4m3" or "fp8_e5m2"; output_dtype: of C.
batch: products of that shape in one call. a_transposed: A is stored [k, m]; b_transposed: B is
stored [n, k]. tf32: fp32 on tensor cores.)");

  const auto define_linear = [&](const char* name, const char* doc, auto make) {
    m.def(name, make, "rows"_a, "in_features"_a, "out_features"_a, "dtype"_a = "bf16", doc);
  };
  define_linear("linear_forward", "y[rows, out] = x[rows, in] W[out, in]^T.",
                &linear<linear_forward>);
  define_linear("linear_backward_input", "Gradient of x of linear_forward.",
                &linear<linear_backward_input>);
  define_linear("linear_backward_weight", "Gradient of W of linear_forward.",
                &linear<linear_backward_weight>);

  const auto define_attention = [&](const char* name, const char* doc, auto make) {
    m.def(name, make, "queries"_a, "heads"_a, "depth"_a, nb::kw_only(), "batch"_a = 1,
          "key_heads"_a = 0, "keys"_a = 0, "causal"_a = true, "dtype"_a = "bf16", doc);
  };
  define_attention(
      "attention_forward",
      R"(Scaled dot product attention of q[batch, heads, queries, depth] and k, v[batch, key_heads,
keys, depth]. key_heads, keys: 0 for as many as heads, queries. dtype: "bf16" or "fp16".)",
      &attention<attention_forward>);
  define_attention("attention_backward", "Backward pass of attention_forward.",
                   &attention<attention_backward>);

  const auto define_over_rows = [&](const char* name, const char* doc, auto make) {
    m.def(name, make, "rows"_a, "cols"_a, "dtype"_a = "bf16", doc);
  };
  define_over_rows("layer_norm_forward", "Layer norm of x[rows, cols] over its columns.",
                   &over_rows<layer_norm_forward>);
  define_over_rows("layer_norm_backward_input", "Gradient of its input.",
                   &over_rows<layer_norm_backward_input>);
  define_over_rows("layer_norm_backward_weight", "Gradient of its weights.",
                   &over_rows<layer_norm_backward_weight>);
  define_over_rows("rms_norm_forward", "RMS norm of x[rows, cols] over its columns.",
                   &over_rows<rms_norm_forward>);
  define_over_rows("rms_norm_backward_input", "Gradient of its input.",
                   &over_rows<rms_norm_backward_input>);
  define_over_rows("rms_norm_backward_weight", "Gradient of its weights.",
                   &over_rows<rms_norm_backward_weight>);
  define_over_rows("softmax_forward", "Softmax of x[rows, cols] over its columns.",
                   &over_rows<softmax_forward>);
  define_over_rows("softmax_backward", "Its backward pass.", &over_rows<softmax_backward>);
  define_over_rows("embedding", "Rows of `cols` elements that are looked up in a table.",
                   &over_rows<embedding>);
  m.def(
      "elementwise",
      [](std::int64_t elements, int inputs, std::string_view dtype) -> Kernel {
        return elementwise(elements, inputs, element(dtype));
      },
      "elements"_a, "inputs"_a = 1, "dtype"_a = "bf16",
      "One pass over elements: reads `inputs` tensors and writes one.");
  m.def(
      "adam",
      [](std::int64_t parameters, std::string_view dtype) -> Kernel {
        return adam(parameters, element(dtype));
      },
      "parameters"_a, "dtype"_a = "fp32",
      "A fused step of Adam: parameters, gradients and both moments of dtype.");
  m.def(
      "copy", [](const Size& size) -> Kernel { return copy(to_bytes(size)); }, "size"_a,
      "A copy of `size` bytes within the GPU's memory.");
  m.def(
      "custom",
      [](std::string name, double bytes, double flops, std::string_view units) -> Kernel {
        return custom({.name = std::move(name),
                       .bytes = bytes,
                       .flops = flops,
                       .arithmetic = arithmetic(units)});
      },
      "name"_a = "custom", nb::kw_only(), "bytes"_a = 0.0, "flops"_a = 0.0, "arithmetic"_a = "none",
      R"(A kernel told by its work, which fills the GPU: bytes of device memory and FLOP.

arithmetic: what does them: "none" (fp32), "fp8", "half", "tf32", "fp32", "fp64" or "int8".)");
  m.def(
      "known_time",
      [](double time, std::string name) { return known_time(to_duration(time), std::move(name)); },
      "time"_a, "name"_a = "known time", "A kernel that takes `time` seconds alone, on every GPU.");
}

}  // namespace phantora::python
