#include "rank/kernels/families/tensor_accessor.hpp"
#include "rank/kernels/kernel_effect.hpp"

#include <string_view>

/// PyTorch's own batch normalisation (Normalization.cuh), which bf16 autocast takes instead of
/// cuDNN's. Not executed. Kernels of contiguous tensors take tensor accessors by value, which hold
/// the size: a pointer, then the dimensions, then the strides. Kernels of tensors whose channels
/// are innermost take pointers, and how many rows of how many channels there are.
namespace phantora::rank {

namespace {

/// `read`: the parameters, from the first, that are tensors it reads. `tensor_out`: the one that is
/// a result as large as the input, if any; `statistics_out`: those with one number per channel.
std::unique_ptr<Meaning> normalisation(ElementType type, std::size_t read,
                                       std::optional<std::size_t> tensor_out,
                                       std::vector<std::size_t> statistics_out) {
  return meaning([=](const Arguments& a) -> std::optional<Effect> {
    const std::size_t count = accessor_elements(a, 0, 3);
    if (count == 0) return std::nullopt;
    Effect effect;
    const std::size_t size = count * size_of(type);
    for (std::size_t parameter = 0; parameter < read; ++parameter)
      effect.operands.push_back({a.pointer(parameter), size, true, false});
    if (tensor_out) effect.operands.push_back({a.pointer(*tensor_out), size, false, true});
    effect.bytes = static_cast<double>(effect.operands.size() * size);
    effect.features.emplace_back("numel", static_cast<double>(count));
    for (const std::size_t parameter : statistics_out) {
      // Statistics are float at most; a null accessor has no channels.
      effect.operands.push_back(
          {a.pointer(parameter), accessor_elements(a, parameter, 1) * sizeof(float), false, true});
    }
    return effect;
  });
}

/// A kernel of [rows, channels]: pointers to `read` tensors come at the parameters of that name,
/// and `rows` is the parameter with the number of rows, which that of the channels follows.
struct ChannelsLast {
  std::vector<std::size_t> read;
  std::optional<std::size_t> tensor_out;
  std::vector<std::size_t> statistics_out;
  std::size_t rows;
};

std::unique_ptr<Meaning> normalisation(ElementType type, const ChannelsLast& kernel) {
  return meaning([=](const Arguments& a) -> std::optional<Effect> {
    const std::size_t channels = a.get<std::uint32_t>(kernel.rows + 1);
    const std::size_t count = a.get<std::uint32_t>(kernel.rows) * channels;
    if (count == 0) return std::nullopt;
    Effect effect;
    const std::size_t size = count * size_of(type);
    for (const std::size_t parameter : kernel.read) {
      if (a.pointer(parameter) == nullptr) continue;  // what is added before a ReLU, if anything is
      effect.operands.push_back({a.pointer(parameter), size, true, false});
    }
    if (kernel.tensor_out) {
      effect.operands.push_back({a.pointer(*kernel.tensor_out), size, false, true});
    }
    effect.bytes = static_cast<double>(effect.operands.size() * size);
    effect.features.emplace_back("numel", static_cast<double>(count));
    for (const std::size_t parameter : kernel.statistics_out) {
      if (a.pointer(parameter) == nullptr) continue;
      effect.operands.push_back({a.pointer(parameter), channels * sizeof(float), false, true});
    }
    return effect;
  });
}

/// Where each kernel's parameters are, and which of its template arguments is the tensors' type.
std::unique_ptr<Meaning> read_channels_last(const Signature& signature, std::string_view name) {
  const TemplateName& kernel = signature.kernel;
  const auto read = [&](std::size_t type_at, const ChannelsLast& parameters) {
    const auto type = element_type_named(kernel.arguments[type_at]);
    return type ? normalisation(*type, parameters) : nullptr;
  };
  if (name == "batch_norm_collect_statistics_channels_last_kernel")
    return read(1, {{0}, std::nullopt, {1, 2}, 5});
  if (name == "batch_norm_transform_input_channels_last_kernel") return read(0, {{0, 1}, 6, {}, 7});
  if (name == "batch_norm_backward_reduce_channels_last_kernel")
    return read(1, {{0, 1}, std::nullopt, {4, 5, 6, 7}, 10});
  // SyncBatchNorm's has the ranks' counts before the result, and how many there are after it.
  if (name == "batch_norm_backward_elemt_channels_last_kernel") {
    return signature.parameters.size() == 12 ? read(1, {{0, 1}, 8, {}, 10})
                                             : read(1, {{0, 1}, 7, {}, 9});
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<Meaning> read_batch_norm(const Signature& signature, const KernelResources&) {
  const TemplateName& kernel = signature.kernel;
  const std::string_view name = unqualified(kernel.name);
  if (!name.starts_with("batch_norm_") || kernel.arguments.size() < 2) return nullptr;
  if (name.ends_with("_channels_last_kernel")) return read_channels_last(signature, name);
  const bool collects = name == "batch_norm_collect_statistics_kernel";
  const auto type = element_type_named(kernel.arguments[collects ? 1 : 0]);
  if (!type) return nullptr;
  if (collects) return normalisation(*type, 1, std::nullopt, {3, 4});
  if (name == "batch_norm_transform_input_kernel") return normalisation(*type, 1, 1, {});
  if (name == "batch_norm_backward_kernel") return normalisation(*type, 2, 2, {3, 4});
  return nullptr;
}

}  // namespace phantora::rank
