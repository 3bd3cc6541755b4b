#include "rank/kernels/kernel_effect.hpp"
#include "rank/kernels/tensor_info.hpp"

#include <algorithm>
#include <cstdlib>

/// Pooling without cuDNN (ATen/native/cuda/{DilatedMaxPool2d,AveragePool2d}.cu), and elementwise
/// kernels with several outputs (Loops.cuh): described, not executed.
namespace phantora::rank {

namespace {

/// unrolled_elementwise_kernel_for_multi_outputs<outputs, functor, std::array<char*, n>,
/// ...>(numel, functor, pointers, calculators): one element per channel. Sizes are those of
/// float64, the widest.
std::unique_ptr<Meaning> multiple_outputs(const TemplateName& kernel) {
  if (kernel.arguments.size() < 4) return nullptr;
  const std::size_t outputs = number_in(kernel.arguments[0]);
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
  const std::size_t element = moved_bytes(kernel.arguments[0]);
  if (element == 0) return nullptr;
  const bool maximum = name.starts_with("max_pool");
  const bool backward = name.find("backward") != std::string_view::npos;
  const bool channels_last = name.ends_with("_nhwc");
  if (maximum && !channels_last && !name.ends_with("_nchw")) return nullptr;
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
    } else if (maximum && channels_last) {
      // (input, batch, channels, height, width, pooled height, pooled width, ..., output, indices)
      const std::size_t planes = number(1) * number(2);
      count = planes * number(5) * number(6);
      effect.operands = {{a.pointer(0), planes * number(3) * number(4) * element, true, false},
                         {a.pointer(a.sizes.size() - 2), count * element, false, true},
                         {a.pointer(a.sizes.size() - 1), count * 8, false, true}};
      for (const Operand& operand : effect.operands) {
        effect.bytes += static_cast<double>(operand.extent);
      }
      effect.features.emplace_back("numel", static_cast<double>(count));
      return effect;
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

std::unique_ptr<Meaning> read_pooling(const Signature& signature, const KernelResources&) {
  const TemplateName& kernel = signature.kernel;
  const std::string_view name = unqualified(kernel.name);
  if (name == "unrolled_elementwise_kernel_for_multi_outputs") return multiple_outputs(kernel);
  if (kernel.arguments.empty()) return nullptr;
  if (name.starts_with("max_pool_") || name.starts_with("avg_pool2d_")) {
    return pooling(kernel, name);
  }
  return nullptr;
}

}  // namespace phantora::rank
