#include "rank/kernels/families/tensor_info.hpp"
#include "rank/kernels/kernel_effect.hpp"
#include "rank/memory/device_memory.hpp"

#include <cmath>

/// Kernels that work along rows: softmax (executed), layer normalisation and losses
/// (ATen/native/cuda/{SoftMax,layer_norm_kernel,Loss,NLLLoss}*.cu).
namespace phantora::rank {

namespace {

/// Operands in the order of a kernel's parameters: pointers to const are read, others written.
class Roles {
 public:
  Roles(Effect& effect, const Arguments& arguments) : effect_{&effect}, arguments_{&arguments} {}
  void read(std::size_t parameter, std::size_t bytes) { add(parameter, bytes, true, false); }
  void write(std::size_t parameter, std::size_t bytes) { add(parameter, bytes, false, true); }

 private:
  void add(std::size_t parameter, std::size_t bytes, bool read, bool written) {
    std::byte* const address = arguments_->pointer(parameter);
    if (address == nullptr) return;
    effect_->operands.push_back({address, bytes, read, written});
    effect_->bytes += static_cast<double>(bytes);
  }
  Effect* effect_;
  const Arguments* arguments_;
};

void rows_and_columns(Effect& effect, std::size_t rows, std::size_t columns) {
  effect.features = {{"numel", static_cast<double>(rows * columns)},
                     {"rows", static_cast<double>(rows)},
                     {"cols", static_cast<double>(columns)}};
}

/// Softmax of `rows` rows; element (r, c) is at base(r) + c * stride elements.
struct Softmax {
  ElementType in{}, out{};
  bool logarithm = false;
  std::size_t rows = 0, columns = 0, stride = 1;  ///< stride = elements between columns
};

Effect softmax(const Softmax& s, std::byte* output, std::byte* input) {
  const std::size_t count = s.rows * s.columns;
  Effect effect;
  effect.operands = {{input, count * size_of(s.in), true, false},
                     {output, count * size_of(s.out), false, true, s.out}};
  effect.bytes = static_cast<double>(count * (size_of(s.in) + size_of(s.out)));
  rows_and_columns(effect, s.rows, s.columns);
  effect.compute = [s](std::span<Image> images) {
    for (std::size_t r = 0; r < s.rows; ++r) {
      // Rows are interleaved where another dimension is inside the reduced one.
      const std::size_t base = r / s.stride * s.stride * s.columns + r % s.stride;
      double greatest = -HUGE_VAL, sum = 0;
      std::vector<double> values(s.columns);
      bool known = true;
      for (std::size_t c = 0; c < s.columns && known; ++c) {
        const auto value = images[0].load((base + c * s.stride) * size_of(s.in), s.in);
        known = value.has_value();
        if (!known) break;
        values[c] = value->to_real();
        greatest = std::isnan(values[c]) ? values[c] : std::fmax(greatest, values[c]);
      }
      for (std::size_t c = 0; c < s.columns && known; ++c) sum += std::exp(values[c] - greatest);
      for (std::size_t c = 0; c < s.columns; ++c) {
        std::optional<Value> result;
        if (known) {
          result = Value{s.logarithm ? values[c] - greatest - std::log(sum)
                                     : std::exp(values[c] - greatest) / sum};
        }
        images[1].store((base + c * s.stride) * size_of(s.out), s.out, result);
      }
    }
  };
  return effect;
}

/// cunn_SoftMaxForward*<..., in, accumulator, out, epilogue, ...>(out, in, columns): a row per
/// block. softmax_warp_forward<in, out, accumulator, log2, is log, masked>(out, in, rows, stride,
/// columns, mask, ...). cunn_SpatialSoftMaxForward<in, accumulator, out, index, epilogue>(out, in,
/// outer, columns, inner).
std::unique_ptr<Meaning> read_softmax(const TemplateName& kernel, std::string_view name) {
  const auto& arguments = kernel.arguments;
  const bool warp = name == "softmax_warp_forward";
  const bool spatial = name == "cunn_SpatialSoftMaxForward";
  if (arguments.size() < 5) return nullptr;
  // The vector width, where there is one, comes first.
  const std::size_t first = element_type_named(arguments[0]) ? 0 : 1;
  const auto in = element_type_named(arguments[first]);
  const auto out = element_type_named(arguments[warp ? 1 : first + 2]);
  if (!in || !out) return nullptr;
  bool logarithm = warp && arguments[4] == "true";
  if (warp && arguments.back() == "true") return nullptr;  // masked
  for (const auto argument : arguments) {
    logarithm = logarithm || argument.find("LogSoftMaxForwardEpilogue") != std::string_view::npos;
  }
  return meaning([=, in = *in, out = *out](const Arguments& a) -> std::optional<Effect> {
    Softmax s{in, out, logarithm, 0, 0, 1};
    const auto number = [&](std::size_t p) {
      return a.bytes(p).size() == 8 ? a.get<std::size_t>(p) : std::size_t{a.get<std::uint32_t>(p)};
    };
    if (warp) {
      s.rows = number(2);
      s.columns = number(4);
    } else if (spatial) {
      s.stride = number(4);
      s.rows = number(2) * s.stride;
      s.columns = number(3);
    } else {
      s.rows = a.shape.grid.x;
      s.columns = number(2);
    }
    if (s.stride == 0) return std::nullopt;
    return softmax(s, a.pointer(0), a.pointer(1));
  });
}

/// (gradient of the input, output or gradient, gradient or output, columns) with a row per block,
/// or softmax_warp_backward(..., rows, stride, columns, mask).
std::unique_ptr<Meaning> softmax_backward(const TemplateName& kernel, bool warp) {
  const std::size_t first = element_type_named(kernel.arguments[0]) ? 0 : 1;
  const auto type = element_type_named(kernel.arguments[first]);
  if (!type) return nullptr;
  return meaning([=, size = size_of(*type)](const Arguments& a) -> std::optional<Effect> {
    const auto number = [&](std::size_t p) {
      return a.bytes(p).size() == 8 ? a.get<std::size_t>(p) : std::size_t{a.get<std::uint32_t>(p)};
    };
    const std::size_t rows = warp ? number(3) : a.shape.grid.x;
    const std::size_t columns = warp ? number(5) : number(3);
    Effect effect;
    rows_and_columns(effect, rows, columns);
    Roles roles{effect, a};
    roles.write(0, rows * columns * size);
    roles.read(1, rows * columns * size);
    roles.read(2, rows * columns * size);
    return effect;
  });
}

/// Layer and group normalisation and their gradients. `layout` names the parameters: n = columns,
/// m = rows, x = a matrix, r = a value per row in the accumulator's type, s = one in the matrix's,
/// c = a value per column, . = other; capitals are written. A row per block where m is not given.
std::unique_ptr<Meaning> layer_norm(const TemplateName& kernel, std::string_view layout) {
  // The vector width, where there is one, comes first.
  const std::size_t first = element_type_named(kernel.arguments[0]) ? 0 : 1;
  if (first == kernel.arguments.size()) return nullptr;
  const auto type = element_type_named(kernel.arguments[first]);
  // Where it is not named it is that of all types but float64.
  const auto accumulator = kernel.arguments.size() > first + 1
                               ? element_type_named(kernel.arguments[first + 1])
                               : std::optional{type == ElementType::float64 ? ElementType::float64
                                                                            : ElementType::float32};
  if (!type || !accumulator) return nullptr;
  return meaning([=, size = size_of(*type),
                  wide = size_of(*accumulator)](const Arguments& a) -> std::optional<Effect> {
    if (a.sizes.size() != layout.size()) return std::nullopt;
    const auto number = [&](char key, std::size_t otherwise) {
      const std::size_t p = layout.find(key);
      if (p == std::string_view::npos) return otherwise;
      return a.bytes(p).size() == 8 ? a.get<std::size_t>(p) : std::size_t{a.get<std::uint32_t>(p)};
    };
    const std::size_t rows = number('m', a.shape.grid.x), columns = number('n', 0);
    Effect effect;
    rows_and_columns(effect, rows, columns);
    Roles roles{effect, a};
    for (std::size_t p = 0; p < layout.size(); ++p) {
      switch (layout[p]) {
        case 'x':
          roles.read(p, rows * columns * size);
          break;
        case 'X':
          roles.write(p, rows * columns * size);
          break;
        case 'r':
          roles.read(p, rows * wide);
          break;
        case 'R':
          roles.write(p, rows * wide);
          break;
        case 'S':
          roles.write(p, rows * size);
          break;
        case 'c':
          roles.read(p, columns * size);
          break;
        case 'C':  // partial sums of each block row
          roles.write(p, columns * size * a.shape.grid.y);
          break;
        default:
          break;
      }
    }
    return effect;
  });
}

/// nll_loss_forward_reduce_cuda_kernel_{1d,2d}<type, accumulator, index>(output, total weight,
/// input, target, weights, mean[, rows, columns], classes, ignored)
std::unique_ptr<Meaning> nll_loss(const TemplateName& kernel, bool matrix) {
  if (kernel.arguments.size() < (matrix ? 3u : 2u)) return nullptr;
  const auto type = element_type_named(kernel.arguments[0]);
  const auto index = element_type_named(kernel.arguments.back());
  if (!type || !index) return nullptr;
  return meaning([=, type = *type, index = *index](const Arguments& a) -> std::optional<Effect> {
    const std::size_t rows = matrix ? a.get<std::size_t>(6) : 1;
    const auto classes = a.get<std::size_t>(matrix ? 8 : 6);
    const std::size_t columns = matrix ? a.get<std::size_t>(7) : classes;
    const auto ignored = a.get<std::int64_t>(matrix ? 9 : 7);
    const bool mean = a.get<std::uint8_t>(5) != 0;
    const bool weighted = a.pointer(4) != nullptr;
    Effect effect;
    effect.operands = {{a.pointer(0), size_of(type), false, true, type},
                       {a.pointer(1), size_of(type), false, true, type},
                       {a.pointer(2), rows * columns * size_of(type), true, false},
                       {a.pointer(3), rows * size_of(index), true, false}};
    if (weighted) effect.operands.push_back({a.pointer(4), classes * size_of(type), true, false});
    effect.bytes = static_cast<double>(rows * (size_of(type) + size_of(index)));
    rows_and_columns(effect, rows, columns);
    effect.compute = [=](std::span<Image> images) {
      double sum = 0, total = 0;
      bool known = true;
      for (std::size_t r = 0; r < rows && known; ++r) {
        const auto target = images[3].load(r * size_of(index), index);
        known = target.has_value();
        if (!known || target->integer == ignored) continue;
        const auto at = static_cast<std::size_t>(target->integer);
        const auto value = images[2].load((r * columns + at) * size_of(type), type);
        const auto weight =
            weighted ? images[4].load(at * size_of(type), type) : std::optional{Value{1.0}};
        known = value && weight;
        if (!known) break;
        sum -= value->to_real() * weight->to_real();
        total += weight->to_real();
      }
      const auto result = [&](double x) { return known ? std::optional{Value{x}} : std::nullopt; };
      images[0].store(0, type, result(mean ? sum / total : sum));
      images[1].store(0, type, result(total));
    };
    return effect;
  });
}

/// nll_loss_backward_reduce_cuda_kernel_2d(gradient, output gradient, target, weights, total
/// weight, mean, rows, columns, classes, ignored): the rest of the gradient was set to zero before.
std::unique_ptr<Meaning> nll_loss_backward(const TemplateName& kernel) {
  const auto type = element_type_named(kernel.arguments[0]);
  const auto index = element_type_named(kernel.arguments.back());
  if (!type || !index) return nullptr;
  return meaning([=, size = size_of(*type),
                  target = size_of(*index)](const Arguments& a) -> std::optional<Effect> {
    const std::size_t rows = a.get<std::uint32_t>(6), columns = a.get<std::uint32_t>(7);
    Effect effect;
    rows_and_columns(effect, rows, columns);
    effect.operands = {{a.pointer(0), rows * columns * size, false, true},
                       {a.pointer(2), rows * target, true, false}};
    effect.bytes = static_cast<double>(rows * (size + target));
    return effect;
  });
}

/// fused_dropout_kernel[_vec]<type, ...>(in, out, mask, elements, ...): not executed, since its
/// inputs are activations.
std::unique_ptr<Meaning> dropout(const TemplateName& kernel) {
  const auto type = element_type_named(kernel.arguments[0]);
  if (!type) return nullptr;
  return meaning([size = size_of(*type)](const Arguments& a) -> std::optional<Effect> {
    const auto count =
        a.bytes(3).size() == 8 ? a.get<std::size_t>(3) : std::size_t{a.get<std::uint32_t>(3)};
    const TensorInfo in = TensorInfo::read(a, 0), out = TensorInfo::read(a, 1),
                     mask = TensorInfo::read(a, 2);
    if (!in.valid || !out.valid || !mask.valid) return std::nullopt;
    Effect effect;
    effect.operands = {{in.data, in.span() * size, true, false},
                       {out.data, out.span() * size, false, true},
                       {mask.data, mask.span(), false, true}};
    effect.bytes = static_cast<double>(count * (2 * size + 1));
    effect.features.emplace_back("numel", static_cast<double>(count));
    return effect;
  });
}

}  // namespace

std::unique_ptr<Meaning> read_rowwise(const Signature& signature, const KernelResources&) {
  const TemplateName& kernel = signature.kernel;
  const std::string_view name = unqualified(kernel.name);
  if (kernel.arguments.empty()) return nullptr;
  if (name.starts_with("cunn_SoftMaxForward") || name == "softmax_warp_forward" ||
      name == "cunn_SpatialSoftMaxForward") {
    return read_softmax(kernel, name);
  }
  if (name == "softmax_warp_backward") return softmax_backward(kernel, true);
  if (name.starts_with("cunn_SoftMaxBackward")) return softmax_backward(kernel, false);
  // The types' order differs from the layouts' below in RMS norm only, whose mean is null.
  struct Known {
    std::string_view name, layout;
    std::size_t arguments = 0;  ///< of the template, where that tells kernels of one name apart
  };
  constexpr Known layouts[] = {
      {"vectorized_layer_norm_kernel", "n.xccRRX"},
      {"LayerNormForwardCUDAKernel", "nxrrccX"},
      {"RowwiseMomentsCUDAKernel", "n.xRR", 3},
      {"RowwiseMomentsCUDAKernel", "n.xSS", 1},    // of group norm
      {"RowwiseMomentsCUDAKernel", "n.xSSRR", 2},  // of group norm, in newer versions
      {"RowwiseMomentsContiguousCUDAKernel", "n.xSSRR"},
      {"ComputeInternalGradientsCUDAKernel", "nxxRR"},
      {"ComputeInternalGradientsContiguousCUDAKernel", "nxxRR"},
      {"layer_norm_grad_input_kernel", "xxrrcXn"},
      {"layer_norm_grad_input_kernel_vectorized", "xxrrcXn"},
      {"GammaBetaBackwardCUDAKernelTemplate", "mnxxrrCC"},
      {"GammaBetaBackwardSimpleCUDAKernel", "mnxxrrCC"},
  };
  for (const Known& known : layouts) {
    if (name != known.name) continue;
    if (known.arguments != 0 && kernel.arguments.size() != known.arguments) continue;
    return layer_norm(kernel, known.layout);
  }
  if (name == "nll_loss_forward_reduce_cuda_kernel_2d") return nll_loss(kernel, true);
  if (name == "nll_loss_forward_reduce_cuda_kernel_1d") return nll_loss(kernel, false);
  if (name == "nll_loss_backward_reduce_cuda_kernel_2d") return nll_loss_backward(kernel);
  if (name == "fused_dropout_kernel_vec" || name == "fused_dropout_kernel") return dropout(kernel);
  return nullptr;
}

}  // namespace phantora::rank
