#include "rank/kernels/families/chunk_norms.hpp"

#include "rank/kernels/families/arithmetic.hpp"
#include "rank/memory/device_memory.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace phantora::rank {

namespace {

/// The results of all chunks, which one kernel writes and the next folds: an array [tensor][chunk],
/// or all chunks one after the other, and where each tensor's begin in an array of its own.
struct ChunkResults {
  std::byte* values = nullptr;
  std::size_t per_tensor = 0;    ///< of the first kind
  std::byte* offsets = nullptr;  ///< of the second: of the first of the tensors, and one more
  std::size_t first_tensor = 0;
  std::size_t tensors = 0;

  /// Adds the operands that say where each tensor's chunks begin.
  void add_offsets(Effect& effect) const {
    if (offsets == nullptr) return;
    effect.operands.push_back({offsets + 8 * first_tensor, 8 * (tensors + 1), true, false});
  }
  /// The memory that the tensors' chunks can lie in, if `chunks` is how many they have.
  [[nodiscard]] Operand operand(std::size_t chunks, std::size_t element) const {
    if (offsets == nullptr) {
      return {values + first_tensor * per_tensor * element, tensors * per_tensor * element};
    }
    if (first_tensor == 0 && chunks > 0) return {values, chunks * element};
    const auto allocation = allocation_of(values);
    if (!allocation) return {values, 0};
    const auto before = static_cast<std::size_t>(values - allocation->base);
    return {values, std::min(allocation->size - before, small_bytes)};
  }
  /// The first chunk of a tensor, counted from `first_tensor`, in that memory; of the one behind
  /// the last tensor, the end.
  /// @param known  image of add_offsets' operand
  [[nodiscard]] std::optional<std::size_t> begin(std::size_t tensor, const Image& known) const {
    if (offsets == nullptr) return tensor * per_tensor;
    const auto value = known.load(8 * tensor, ElementType::int64);
    if (!value || value->integer < 0) return std::nullopt;
    return static_cast<std::size_t>(value->integer);
  }
};

/// What a NormType is, whose numbers begin with the norm of order 1, or of order 0 where lists are
/// of the larger capacity: both came with 2.14.
enum class Norm : std::uint8_t { zero, one, two, infinite };
Norm norm_numbered(std::string_view text, bool larger) {
  const std::size_t number_in_enum = number_in(text.substr(text.find(')') + 1));
  return static_cast<Norm>(std::min<std::size_t>(number_in_enum + (larger ? 0 : 1), 3));
}

}  // namespace

std::optional<Effect> chunk_norms(const TensorLists& lists, bool maximum, const NameParts& functor,
                                  const Arguments& arguments) {
  const bool larger = arguments.bytes(0).size() > 4096;
  const Norm norm = maximum ? Norm::infinite : norm_numbered(functor[1], larger);
  const auto named = element_type_named(functor[0]);
  if (!named) return std::nullopt;
  const ElementType type = *named;
  const ElementType partial =
      maximum ? type : compute_type(element_type_named(functor[2]).value_or(type));
  ChunkResults results{.values = arguments.pointer(2),
                       .first_tensor = lists.start_tensor,
                       .tensors = lists.addresses[0].size()};
  if (arguments.bytes(3).size() == sizeof(void*)) {
    results.offsets = arguments.pointer(3);
  } else if (arguments.bytes(3).size() == sizeof(int)) {
    results.per_tensor = arguments.get<std::uint32_t>(3);
  } else {
    return std::nullopt;
  }
  Effect effect;
  add_operands(effect, lists, {size_of(type)}, 1, {false});
  std::size_t chunks = 0;
  for (const std::size_t numel : lists.numel)
    chunks += (numel + chunk_elements - 1) / chunk_elements;
  results.add_offsets(effect);
  const std::size_t offsets = effect.operands.size() - (results.offsets != nullptr ? 1 : 0);
  effect.operands.push_back(results.operand(chunks, size_of(partial)));
  effect.operands.back().written = true;
  effect.compute = [lists, type, partial, results, offsets, norm,
                    maximum](std::span<Image> images) {
    const auto first = first_elements(lists);
    for (std::size_t b = 0; b < lists.chunks.size(); ++b) {
      const Chunk& chunk = lists.chunks[b];
      const auto begin = results.begin(chunk.tensor, images[offsets]);
      if (!begin) return images.back().forget();
      const Image& tensor = images[chunk.tensor];
      bool known = tensor.extent() != 0;
      double sum = 0;
      std::optional<Value> best;
      for (std::size_t i = chunk.first - first[chunk.tensor], end = i + chunk.count;
           known && i < end; ++i) {
        const auto value = tensor.load(i * size_of(type), type);
        known = value.has_value();
        if (!known) break;
        const double x = std::fabs(value->to_real());
        if (maximum) {
          best = best ? arithmetic::maximum(type, *best, *value) : *value;
        } else if (norm == Norm::zero) {
          sum += x != 0 ? 1 : 0;
        } else {
          sum = norm == Norm::one   ? sum + x
                : norm == Norm::two ? sum + x * x
                                    : (std::isnan(x) || x > sum ? x : sum);
        }
      }
      std::optional<Value> result;
      if (known) result = maximum ? *best : Value{sum};
      images.back().store((*begin + lists.chunk_index[b]) * size_of(partial), partial, result);
    }
  };
  return effect;
}

std::unique_ptr<Meaning> read_norm_cleanup(const TemplateName& kernel) {
  const bool maximum = unqualified(kernel.name) == "lpmax_cleanup";
  if (kernel.arguments.size() < (maximum ? 1u : 4u)) return nullptr;
  const auto type = element_type_named(kernel.arguments[maximum ? 0 : 2]);
  const auto partial = element_type_named(maximum ? kernel.arguments[0] : kernel.arguments.back());
  if (!type || !partial) return nullptr;
  const std::string_view norm_text = kernel.arguments[1];
  const bool root = !maximum && kernel.arguments[3] != "false";
  return meaning([=, type = *type,
                  partial = *partial](const Arguments& arguments) -> std::optional<Effect> {
    const std::size_t tensors = arguments.shape.grid.x;
    if (arguments.bytes(1).size() < tensors * 8) return std::nullopt;
    ChunkResults results{.values = arguments.pointer(0), .tensors = tensors};
    if (arguments.sizes.size() == 4 && arguments.bytes(2).size() == sizeof(void*)) {
      results.offsets = arguments.pointer(2);
      results.first_tensor = arguments.get<std::uint32_t>(3);
    } else if (arguments.sizes.size() == 3 && arguments.bytes(2).size() == sizeof(int)) {
      results.per_tensor = arguments.get<std::uint32_t>(2);
    } else {
      return std::nullopt;
    }
    const bool larger = arguments.bytes(1).size() > 4096;
    const Norm norm = maximum ? Norm::infinite : norm_numbered(norm_text, larger);
    Effect effect;
    effect.operands.push_back(results.operand(0, size_of(partial)));
    effect.operands.back().read = true;
    results.add_offsets(effect);
    const std::size_t outputs = effect.operands.size();
    for (std::size_t t = 0; t < tensors; ++t) {
      effect.operands.push_back({arguments.pointer(1, 8 * t), size_of(type), false, true, type});
    }
    // How many chunks there are is in device memory: one each, of tensors that are not large.
    const std::size_t chunks = tensors * std::max<std::size_t>(results.per_tensor, 1);
    effect.bytes = static_cast<double>(chunks * size_of(partial) + tensors * size_of(type));
    effect.features.emplace_back("numel", static_cast<double>(chunks));
    effect.compute = [=](std::span<Image> images) {
      for (std::size_t t = 0; t < tensors; ++t) {
        const auto begin = results.begin(t, images[1]), end = results.begin(t + 1, images[1]);
        bool known = begin.has_value() && end.has_value();
        double sum = maximum ? -HUGE_VAL : 0;
        for (std::size_t c = begin.value_or(0); known && c < *end; ++c) {
          const auto value = images[0].load(c * size_of(partial), partial);
          known = value.has_value();
          if (!known) break;
          const double x = value->to_real();
          sum = norm == Norm::infinite ? (std::isnan(x) || x > sum ? x : sum) : sum + x;
        }
        std::optional<Value> result;
        if (known) result = Value{norm == Norm::two && root ? std::sqrt(sum) : sum};
        images[outputs + t].store(0, type, result);
      }
    };
    return effect;
  });
}

}  // namespace phantora::rank
