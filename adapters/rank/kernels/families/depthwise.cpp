#include "rank/kernels/families/tensor_accessor.hpp"
#include "rank/kernels/kernel_effect.hpp"

#include <string_view>

/// PyTorch's own depthwise convolutions (DepthwiseConv2d.cu), which it takes where cuDNN is not
/// known to be faster, as for filters of 5x5. Not executed.
namespace phantora::rank {

std::unique_ptr<Meaning> read_depthwise(const Signature& signature, const KernelResources&) {
  const TemplateName& kernel = signature.kernel;
  const std::string_view name = unqualified(kernel.name);
  if (!name.starts_with("conv_depthwise2d_") || kernel.arguments.empty()) return nullptr;
  const bool forward = name.starts_with("conv_depthwise2d_forward_kernel");
  const bool of_input = name == "conv_depthwise2d_backward_kernel";
  const bool of_weight = name == "conv_depthwise2d_grad_weight_kernel";
  if (!forward && !of_input && !of_weight) return nullptr;
  // (input, output, weight, ...), (output's gradient, input's, weight, ...) or (output's gradient,
  // input, weight's gradient, ...). The type follows the numbers that a template has, if it does.
  std::optional<ElementType> type;
  for (const auto& argument : kernel.arguments) {
    if (!type) type = element_type_named(argument);
  }
  if (!type) return nullptr;
  const std::size_t written = of_weight ? 2 : 1;
  const std::size_t output = forward ? 1 : 0;
  return meaning([=, element = size_of(*type)](const Arguments& a) -> std::optional<Effect> {
    if (a.bytes(2).size() != 40 || accessor_elements(a, 2, 4) == 0) return std::nullopt;
    Effect effect;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t size = accessor_elements(a, i, 4) * element;
      effect.operands.push_back({a.pointer(i), size, i != written, i == written});
      effect.bytes += static_cast<double>(size);
    }
    // Outputs lie in planes: they are [images, channels, height, width]. Each is a sum over a
    // filter: the weight is [channels, 1, height, width].
    effect.features = {
        {"numel", static_cast<double>(accessor_elements(a, output, 4))},
        {"rows",
         static_cast<double>(a.get<std::uint32_t>(output, 8) * a.get<std::uint32_t>(output, 12))},
        {"cols", static_cast<double>(a.get<std::uint32_t>(2, 16) * a.get<std::uint32_t>(2, 20))}};
    return effect;
  });
}

}  // namespace phantora::rank
