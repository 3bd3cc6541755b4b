#include "rank/kernels/families/tensor_info.hpp"
#include "rank/kernels/kernel_effect.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/small_data.hpp"

#include <algorithm>
#include <array>

/// The gradient of an embedding (ATen/native/cuda/{Embedding,EmbeddingBackwardKernel}.cu):
/// described, not executed, since gradients come from work that is not executed either.
namespace phantora::rank {

namespace {

// NROWS_PER_THREAD: indices of a segment that one thread sums.
constexpr std::size_t rows_per_thread = 10;

/// From `address` to the end of its allocation, at most `bytes`.
std::size_t within_allocation(std::byte* address, std::size_t bytes) {
  const auto allocation = allocation_of(address);
  if (!allocation) return 0;
  return std::min(bytes, allocation->size - static_cast<std::size_t>(address - allocation->base));
}

void writes(Effect& effect, std::byte* address, std::size_t bytes) {
  effect.operands.push_back({address, within_allocation(address, bytes), false, true});
}

using Describe = void (*)(Effect& effect, const Arguments& a, std::size_t element);

/// Segments are runs of equal indices, at most one per index; parts of segments of 10 indices.
std::size_t most_parts() {
  const std::size_t indices = small_data().gradient_indices.load(std::memory_order_relaxed);
  return indices / rows_per_thread + indices;
}

// (parts of each segment, segments' offsets, number of segments, indices)
void parts_per_segment(Effect& effect, const Arguments& a, std::size_t) {
  const auto indices = a.get<std::size_t>(3);
  small_data().gradient_indices.store(indices, std::memory_order_relaxed);
  writes(effect, a.pointer(0), indices * 8);
  effect.bytes = static_cast<double>(2 * indices * 8);
  effect.features.emplace_back("numel", static_cast<double>(indices));
}
// (offsets of parts, ...)
void part_offsets(Effect& effect, const Arguments& a, std::size_t) {
  writes(effect, a.pointer(0), most_parts() * 8);
  effect.bytes = static_cast<double>(2 * most_parts() * 8);
  effect.features.emplace_back("numel", static_cast<double>(most_parts()));
}
// (parts of each segment, their offsets, number of segments, number of parts)
void number_of_parts(Effect& effect, const Arguments& a, std::size_t) {
  writes(effect, a.pointer(3), 8);
  effect.bytes = 32;
}
// (indices, gradients, ..., indices, columns, ..., sums of parts, columns rounded to warps)
void sums_of_parts(Effect& effect, const Arguments& a, std::size_t element) {
  const auto indices = a.get<std::size_t>(3), columns = a.get<std::size_t>(4);
  // Sums are kept in float32, or in float64 for it.
  const std::size_t accumulator = std::max<std::size_t>(element, 4);
  writes(effect, a.pointer(7), (indices / rows_per_thread + indices) * columns * accumulator);
  effect.bytes = static_cast<double>(indices * columns * element);
  effect.features = {{"numel", static_cast<double>(indices * columns)},
                     {"rows", static_cast<double>(indices)},
                     {"cols", static_cast<double>(columns)}};
}
// (indices, gradient of the table, columns, ...): its rows are not told
void sums_of_segments(Effect& effect, const Arguments& a, std::size_t element) {
  const auto columns = a.get<std::size_t>(2);
  writes(effect, a.pointer(1), ~std::size_t{0});
  const std::size_t indices = small_data().gradient_indices.load(std::memory_order_relaxed);
  effect.bytes = static_cast<double>(indices * columns * (element + 4));
  effect.features = {{"numel", static_cast<double>(indices * columns)},
                     {"rows", static_cast<double>(indices)},
                     {"cols", static_cast<double>(columns)}};
}
// (indices, gradients, gradient of the table, number of indices, columns, ...)
void small_gradient(Effect& effect, const Arguments& a, std::size_t element) {
  const std::size_t indices = a.count(3), columns = a.count(4);
  writes(effect, a.pointer(2), ~std::size_t{0});
  effect.bytes = static_cast<double>(3 * indices * columns * element);
  effect.features = {{"numel", static_cast<double>(indices * columns)},
                     {"rows", static_cast<double>(indices)},
                     {"cols", static_cast<double>(columns)}};
}

// (indices, first of each bag, table, sums, bag of each index, indices, bags, columns, ..., indices
// of each bag at 11): every index takes a row of the table; how many each bag has is not told, and
// need not be.
void sums_of_bags(Effect& effect, const Arguments& a, std::size_t element) {
  const auto indices = a.get<std::size_t>(5), bags = a.get<std::size_t>(6),
             columns = a.get<std::size_t>(7);
  constexpr std::size_t index = 8;
  writes(effect, a.pointer(3), bags * columns * element);
  writes(effect, a.pointer(4), indices * index);
  writes(effect, a.pointer(11), bags * index);
  effect.bytes =
      static_cast<double>((indices + bags) * columns * element + 2 * (indices + bags) * index);
  effect.features = {{"numel", static_cast<double>(indices * columns)},
                     {"rows", static_cast<double>(bags)},
                     {"cols", static_cast<double>(columns)}};
}

/// cub's DeviceUniqueByKeySweepKernel(keys, values, keys out, values out, selected, states,
/// equality, count, ...): the first of equal indices, and where it is.
std::unique_ptr<Meaning> unique_by_key() {
  return meaning([](const Arguments& a) -> std::optional<Effect> {
    constexpr std::size_t widest = 8;
    const std::size_t count = a.count(7);
    Effect effect;
    writes(effect, a.pointer(2), count * widest);
    writes(effect, a.pointer(3), count * widest);
    writes(effect, a.pointer(4), widest);
    effect.bytes = static_cast<double>(3 * count * widest);
    effect.features.emplace_back("numel", static_cast<double>(count));
    // Nobody looks at the keys: all are taken to differ. Only sparse gradients ask how many do.
    effect.assumed.push_back(
        {2, element_of(ElementType::int64, Value{static_cast<std::int64_t>(count)})});
    return effect;
  });
}

}  // namespace

std::unique_ptr<Meaning> read_embedding(const Signature& signature, const KernelResources&) {
  const TemplateName& kernel = signature.kernel;
  const std::string_view name = unqualified(kernel.name);
  if (name == "DeviceUniqueByKeySweepKernel") return unique_by_key();
  constexpr std::pair<std::string_view, Describe> kernels[] = {
      {"krn_partials_per_segment", parts_per_segment},
      {"krn_partial_segment_offset", part_offsets},
      {"compute_num_of_partial_segments", number_of_parts},
      {"compute_grad_weight", sums_of_parts},
      {"sum_and_scatter", sums_of_segments},
      {"embedding_backward_feature_kernel", small_gradient},
      {"EmbeddingBag_updateOutputKernel_sum_mean", sums_of_bags},
  };
  for (const auto& [known, describe] : kernels) {
    if (name != known || kernel.arguments.empty()) continue;
    const std::size_t element = moved_bytes(kernel.arguments[0]);
    if (element == 0) return nullptr;
    return meaning([describe = describe, element](const Arguments& a) -> std::optional<Effect> {
      Effect effect;
      describe(effect, a, element);
      return effect;
    });
  }
  return nullptr;
}

}  // namespace phantora::rank
