#include "rank/kernel_effect.hpp"
#include "rank/tensor_info.hpp"

#include <algorithm>
#include <cstdlib>

/// Batch normalisation and pooling without cuDNN (ATen/native/cuda/{Normalization,
/// DilatedMaxPool2d,AveragePool2d}.cu): described, not executed.
namespace phantora::rank {

namespace {

/// A parameter of type GenericPackedTensorAccessor<T, dims, ..., index>: data, sizes, strides.
struct Accessor {
  std::byte* data = nullptr;
  std::size_t elements = 1, span = 1;  ///< span: one past the last element
};
std::optional<Accessor> accessor(const Arguments& a, std::size_t parameter, std::size_t dims,
                                 std::size_t width) {
  if (a.bytes(parameter).size() < 8 + 2 * dims * width) return std::nullopt;
  Accessor result;
  result.data = a.pointer(parameter);
  const auto number = [&](std::size_t at) {
    return width == 8 ? a.get<std::size_t>(parameter, at)
                      : std::size_t{a.get<std::uint32_t>(parameter, at)};
  };
  for (std::size_t d = 0; d < dims; ++d) {
    const std::size_t size = number(8 + d * width);
    if (size == 0) return Accessor{result.data, 0, 0};
    result.elements *= size;
    result.span += (size - 1) * number(8 + (dims + d) * width);
  }
  return result;
}

/// What a parameter's type says: its element's size, whether it is written, and its dimensions.
struct Parameter {
  std::size_t element = 0, dims = 0, width = 4;
  bool constant = false;
};
std::optional<Parameter> parameter(std::string_view text) {
  const TemplateName name = template_name(text);
  if (!unqualified(name.name).ends_with("PackedTensorAccessor") || name.arguments.size() < 2) {
    return std::nullopt;
  }
  Parameter result;
  std::string_view type = name.arguments[0];
  if (type.ends_with(" const")) {
    result.constant = true;
    type.remove_suffix(std::string_view{" const"}.size());
  }
  result.element = moved_bytes(type);
  result.dims =
      static_cast<std::size_t>(std::strtoul(std::string{name.arguments[1]}.c_str(), nullptr, 10));
  result.width = name.arguments.back() == "long" ? 8 : 4;
  if (result.element == 0) return std::nullopt;
  return result;
}

/// Kernels whose tensors are accessors: `written` has a 'w' where a parameter is written.
std::unique_ptr<Meaning> with_accessors(const Signature& signature, std::string_view written) {
  std::vector<std::optional<Parameter>> parameters;
  for (const std::string_view text : signature.parameters) parameters.push_back(parameter(text));
  if (parameters.size() < written.size()) return nullptr;
  return meaning([parameters, written](const Arguments& a) -> std::optional<Effect> {
    Effect effect;
    double most = 0;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      if (!parameters[p]) continue;
      const auto tensor = accessor(a, p, parameters[p]->dims, parameters[p]->width);
      if (!tensor) return std::nullopt;
      const bool writes = p < written.size() && written[p] == 'w';
      if (tensor->data == nullptr) continue;
      effect.operands.push_back(
          {tensor->data, tensor->span * parameters[p]->element, !writes, writes});
      effect.bytes += static_cast<double>(tensor->elements * parameters[p]->element);
      most = std::max(most, static_cast<double>(tensor->elements));
    }
    effect.features.emplace_back("numel", most);
    return effect;
  });
}

/// unrolled_elementwise_kernel_for_multi_outputs<outputs, functor, std::array<char*, n>,
/// ...>(numel, functor, pointers, calculators): one element per channel. Sizes are those of
/// float64, the widest.
std::unique_ptr<Meaning> multiple_outputs(const TemplateName& kernel) {
  if (kernel.arguments.size() < 4) return nullptr;
  const auto outputs =
      static_cast<std::size_t>(std::strtoul(std::string{kernel.arguments[0]}.c_str(), nullptr, 10));
  const LambdaName lambda = lambda_name(kernel.arguments[1]);
  std::size_t element = 0;
  for (const auto type : lambda.parameters) element = std::max(element, moved_bytes(type));
  if (element == 0 || !kernel.arguments[3].starts_with("TrivialOffsetCalculator")) return nullptr;
  return meaning([=](const Arguments& a) -> std::optional<Effect> {
    const std::size_t count = a.get<std::uint32_t>(0);
    Effect effect;
    const std::size_t tensors = a.bytes(2).size() / 8;
    for (std::size_t t = 0; t < tensors; ++t) {
      effect.operands.push_back({a.pointer(2, 8 * t), count * element, t >= outputs, t < outputs});
    }
    effect.bytes = static_cast<double>(tensors * count * element);
    effect.features.emplace_back("numel", static_cast<double>(count));
    return effect;
  });
}

/// Pooling of planes: `count` outputs (forward) or inputs (backward) are written, with indices of 8
/// bytes where the window's maximum is kept.
std::unique_ptr<Meaning> pooling(const TemplateName& kernel, std::string_view name) {
  const std::size_t element = moved_bytes(kernel.arguments.at(0));
  if (element == 0) return nullptr;
  const bool maximum = name.starts_with("max_pool");
  const bool backward = name.find("backward") != std::string_view::npos;
  const bool nchw_maximum = name == "max_pool_forward_nchw" || name == "max_pool_backward_nchw";
  if (maximum && !nchw_maximum) return nullptr;
  return meaning([=](const Arguments& a) -> std::optional<Effect> {
    const auto number = [&](std::size_t p) {
      return a.bytes(p).size() == 8 ? a.get<std::size_t>(p) : std::size_t{a.get<std::uint32_t>(p)};
    };
    Effect effect;
    std::size_t count = 0;
    if (maximum && backward) {
      // (gradient, indices, batch, channels, height, width, ..., gradient of the input)
      count = number(2) * number(3) * number(4) * number(5);
      effect.operands = {{a.pointer(a.sizes.size() - 1), count * element, false, true}};
    } else if (maximum) {
      // (count, input, ..., output, indices)
      count = number(0);
      effect.operands = {{a.pointer(a.sizes.size() - 2), count * element, false, true},
                         {a.pointer(a.sizes.size() - 1), count * 8, false, true}};
      effect.bytes = static_cast<double>(count * 8);
    } else {
      // (count, input, ..., output, divisor, two flags)
      count = number(0);
      effect.operands = {{a.pointer(a.sizes.size() - 4), count * element, false, true}};
    }
    // Windows overlap in cache: each element is read about once, whatever the window.
    effect.bytes += 2 * static_cast<double>(count * element);
    effect.features.emplace_back("numel", static_cast<double>(count));
    return effect;
  });
}

}  // namespace

std::unique_ptr<Meaning> read_vision(const Signature& signature, const KernelResources&) {
  const TemplateName& kernel = signature.kernel;
  const std::string_view name = unqualified(kernel.name);
  constexpr std::pair<std::string_view, std::string_view> batch_norms[] = {
      {"batch_norm_collect_statistics_kernel", "...ww"},
      {"batch_norm_transform_input_kernel", ".w"},
      {"batch_norm_backward_kernel", "..www"},
      {"batch_norm_backward_reduce_kernel", "....wwww"},
      {"batch_norm_backward_elemt_kernel", ".......w"},
  };
  for (const auto& [known, written] : batch_norms) {
    if (name == known) return with_accessors(signature, written);
  }
  if (name == "unrolled_elementwise_kernel_for_multi_outputs") return multiple_outputs(kernel);
  if (kernel.arguments.empty()) return nullptr;
  if (name.starts_with("max_pool_") || name.starts_with("avg_pool2d_")) {
    return pooling(kernel, name);
  }
  return nullptr;
}

}  // namespace phantora::rank
