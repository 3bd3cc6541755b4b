#include "rank/kernels/aligned.hpp"
#include "rank/kernels/arithmetic.hpp"
#include "rank/kernels/kernel_effect.hpp"
#include "rank/memory/device_memory.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>

/// PyTorch's multi_tensor_apply_kernel (ATen/native/cuda/MultiTensorApply.cuh,
/// ForeachFunctors.cuh): one functor over chunks of many tensors, for foreach operations and fused
/// optimizers.
namespace phantora::rank {

namespace {

constexpr std::size_t chunk_elements = 65536;

/// How much the lists in a kernel's parameter hold, by the number of lists. PyTorch has two kinds:
/// parameters of up to 4 KiB, and from 2.14 on of up to 32 KiB.
struct Capacity {
  std::size_t blocks;
  std::size_t tensor_number_bytes;  ///< of the number of a block's tensor
  std::array<std::size_t, 5> tensors, tensors_with_scalars;
};
constexpr std::array<Capacity, 2> capacities = {
    Capacity{320, 1, {110, 64, 48, 36, 30}, {96, 64, 48, 36, 30}},
    Capacity{2240, 2, {770, 448, 336, 252, 210}, {672, 448, 336, 252, 210}}};
constexpr std::size_t max_depth = 5;

/// A chunk of one tensor of each list: what a block works on.
struct Chunk {
  std::size_t tensor = 0;
  std::size_t first = 0;  ///< element of the tensor
  std::size_t count = 0;
};

/// The lists as the kernel's first parameter has them.
struct Lists {
  std::size_t depth = 0;
  std::vector<std::vector<std::byte*>> addresses;  ///< depth x tensors
  std::vector<std::byte*> steps;                   ///< fused optimizers: one counter per tensor
  std::vector<Value> scalars;                      ///< lists with a scalar per tensor
  std::vector<std::size_t> numel;                  ///< of each tensor
  std::vector<Chunk> chunks;                       ///< one per block
  std::vector<std::size_t> chunk_index;            ///< of each block
  std::size_t start_tensor = 0;
  double elements = 0;
};

enum class Metadata : std::uint8_t { plain, scalars, optimizer };

/// Offsets in the parameter, for lists of one capacity.
struct Layout {
  std::size_t tensors;  ///< per list
  std::size_t numel, extra, tensor_of_block, chunk_of_block, start;
  std::size_t blocks, tensor_number_bytes;
};

/// The layout whose size is the parameter's: the name does not tell.
std::optional<Layout> layout_of(std::size_t bytes, Metadata kind, std::size_t depth,
                                std::optional<ElementType> scalar_type) {
  for (const Capacity& capacity : capacities) {
    Layout l{};
    const std::size_t with_scalars = capacity.tensors_with_scalars[depth - 1];
    l.tensors = kind == Metadata::scalars ? with_scalars : capacity.tensors[depth - 1];
    l.blocks = capacity.blocks;
    l.tensor_number_bytes = capacity.tensor_number_bytes;
    l.numel = depth * l.tensors * 8;
    l.extra = l.tensor_of_block = l.numel + l.tensors * 8;
    if (kind == Metadata::scalars) l.tensor_of_block += l.tensors * size_of(*scalar_type);
    if (kind == Metadata::optimizer) l.tensor_of_block += with_scalars * 8;
    l.chunk_of_block = l.tensor_of_block + l.blocks * l.tensor_number_bytes;
    l.start = l.chunk_of_block + l.blocks * 4;
    const std::size_t end = kind == Metadata::scalars ? l.start : l.start + 4;
    if (aligned(end, 8) == bytes) return l;
  }
  return std::nullopt;
}

std::optional<Lists> read_lists(const Arguments& arguments, Metadata kind, std::size_t depth,
                                std::optional<ElementType> scalar_type) {
  const auto layout = layout_of(arguments.bytes(0).size(), kind, depth, scalar_type);
  if (!layout) return std::nullopt;

  Lists lists;
  lists.depth = depth;
  lists.addresses.resize(depth);
  if (kind == Metadata::plain) lists.start_tensor = arguments.get<std::uint32_t>(0, layout->start);
  std::size_t tensors = 0;
  const std::size_t blocks = std::min<std::size_t>(arguments.shape.grid.x, layout->blocks);
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t place = layout->tensor_of_block + b * layout->tensor_number_bytes;
    const std::size_t tensor = layout->tensor_number_bytes == 1
                                   ? arguments.get<std::uint8_t>(0, place)
                                   : arguments.get<std::uint16_t>(0, place);
    if (tensor >= layout->tensors) return std::nullopt;
    tensors = std::max(tensors, tensor + 1);
    const std::size_t index = arguments.get<std::uint32_t>(0, layout->chunk_of_block + 4 * b);
    const auto elements = arguments.get<std::uint64_t>(0, layout->numel + 8 * tensor);
    const std::size_t first = index * chunk_elements;
    if (first >= elements) return std::nullopt;
    const std::size_t count = std::min(chunk_elements, elements - first);
    lists.chunks.push_back({tensor, first, count});
    lists.chunk_index.push_back(index);
    lists.elements += static_cast<double>(count);
  }
  for (std::size_t t = 0; t < tensors; ++t) {
    lists.numel.push_back(arguments.get<std::uint64_t>(0, layout->numel + 8 * t));
  }
  for (std::size_t d = 0; d < depth; ++d) {
    for (std::size_t t = 0; t < tensors; ++t) {
      lists.addresses[d].push_back(arguments.pointer(0, (d * layout->tensors + t) * 8));
    }
  }
  for (std::size_t t = 0; t < tensors; ++t) {
    if (kind == Metadata::scalars) {
      std::array<std::byte, 8> bytes{};
      const auto all = arguments.bytes(0).subspan(layout->extra + t * size_of(*scalar_type));
      std::copy_n(all.begin(), size_of(*scalar_type), bytes.begin());
      lists.scalars.push_back(load(*scalar_type, bytes.data()));
    }
    if (kind == Metadata::optimizer) {
      lists.steps.push_back(arguments.pointer(0, layout->extra + 8 * t));
    }
  }
  return lists;
}

using Combine = Value (*)(ElementType, const Value&, const Value&);

/// The binary operations that foreach functors are instantiated with.
Combine combine_named(std::string_view name) {
  constexpr std::pair<std::string_view, Combine> table[] = {
      {"plus", arithmetic::add},
      {"minus", arithmetic::subtract},
      {"multiplies", arithmetic::multiply},
      {"divides", arithmetic::divide},
      {"maximum", arithmetic::maximum},
      {"minimum", arithmetic::minimum},
      {"power_functor", arithmetic::power},
      {"reverse_power_functor", arithmetic::reverse_power},
  };
  for (const auto& [key, combine] : table) {
    if (key == name) return combine;
  }
  return nullptr;
}

using Map = Value (*)(ElementType, const Value&);
Map map_named(std::string_view name) {
  constexpr std::pair<std::string_view, Map> table[] = {
      {"negate", arithmetic::negate},
      {"Abs", arithmetic::absolute},
      {"Sqrt", arithmetic::sqrt},
      {"Rsqrt", arithmetic::rsqrt},
      {"Reciprocal", arithmetic::reciprocal},
      {"Exp", arithmetic::exp},
      {"Log", arithmetic::log},
      {"Tanh", arithmetic::tanh},
      {"Sigmoid", arithmetic::sigmoid},
      {"Sign", arithmetic::sign},
      {"Floor", arithmetic::floor},
      {"Ceil", arithmetic::ceil},
      {"Round", arithmetic::round},
      {"Trunc", arithmetic::trunc},
      {"Copy", arithmetic::same},
  };
  for (const auto& [key, map] : table) {
    if (key == name) return map;
  }
  return nullptr;
}

/// What a block does with its chunk's elements: from the first `reads` lists to list `result`.
struct PointFunction {
  std::size_t reads = 0;
  std::size_t result = 0;
  ElementType result_type{}, argument_type{};
  /// @param scalar  of the tensor's scalar list, if it has one
  std::function<Value(const Value* arguments, const Value& scalar)> evaluate;
};

std::size_t number(std::string_view text) {
  return static_cast<std::size_t>(std::strtoul(std::string{text}.c_str(), nullptr, 10));
}

/// "at::native::maximum<float>" or "at::native::(...)power_functor<float>": its plain name.
std::string_view plain(std::string_view text) { return unqualified(template_name(text).name); }

Value value_at(const Arguments& arguments, std::size_t parameter, ElementType type) {
  std::array<std::byte, 8> bytes{};
  const auto all = arguments.bytes(parameter);
  if (all.size() < size_of(type)) return {};
  std::copy_n(all.begin(), size_of(type), bytes.begin());
  return load(type, bytes.data());
}

struct Functor {
  std::string_view name;       ///< "BinaryOpScalarFunctor"
  NameParts arguments;         ///< of the functor: <T, depth, reads, result>
  std::string_view operation;  ///< second argument of the kernel: "plus"
  std::string_view operation_text;
  ElementType type{};
};

/// Operands as the effect lists them: depth x tensors, in that order, then those of the functor.
class Operands {
 public:
  Operands(Effect& effect, const Lists& lists) : lists_{&lists}, first_{effect.operands.size()} {}
  [[nodiscard]] std::size_t of(std::size_t list, std::size_t tensor) const {
    return first_ + list * lists_->addresses[0].size() + tensor;
  }

 private:
  const Lists* lists_;
  std::size_t first_;
};

void add_operands(Effect& effect, const Lists& lists, const std::vector<std::size_t>& sizes,
                  std::size_t reads, const std::vector<bool>& written) {
  const std::size_t tensors = lists.addresses[0].size();
  std::vector<std::pair<std::size_t, std::size_t>> ranges(tensors, {~std::size_t{0}, 0});
  for (const Chunk& chunk : lists.chunks) {
    auto& [first, last] = ranges[chunk.tensor];
    first = std::min(first, chunk.first);
    last = std::max(last, chunk.first + chunk.count);
  }
  for (std::size_t d = 0; d < lists.depth; ++d) {
    for (std::size_t t = 0; t < tensors; ++t) {
      const auto [first, last] = ranges[t];
      const std::size_t count = last > first ? last - first : 0;
      effect.operands.push_back({lists.addresses[d][t] + (count == 0 ? 0 : first * sizes[d]),
                                 count * sizes[d], d < reads, written[d]});
      effect.bytes += static_cast<double>(count * sizes[d]) *
                      ((d < reads ? 1.0 : 0.0) + (written[d] ? 1.0 : 0.0));
    }
  }
  effect.features.emplace_back("numel", lists.elements);
  effect.independent = true;
}

/// The first element of each tensor that the launch works on: operands start there.
std::vector<std::size_t> first_elements(const Lists& lists) {
  std::vector<std::size_t> first(lists.addresses[0].size(), ~std::size_t{0});
  for (const Chunk& chunk : lists.chunks) {
    first[chunk.tensor] = std::min(first[chunk.tensor], chunk.first);
  }
  return first;
}

Effect pointwise(const Lists& lists, PointFunction function) {
  Effect effect;
  std::vector<std::size_t> sizes(lists.depth, size_of(function.argument_type));
  std::vector<bool> written(lists.depth, false);
  sizes[function.result] = size_of(function.result_type);
  written[function.result] = true;
  const Operands operands{effect, lists};
  add_operands(effect, lists, sizes, function.reads, written);
  if (!function.evaluate) return effect;
  effect.compute = [lists, function = std::move(function)](std::span<Image> images) {
    const std::size_t tensors = lists.addresses[0].size();
    const auto first = first_elements(lists);
    std::array<Value, 5> values;
    for (const Chunk& chunk : lists.chunks) {
      Image& to = images[function.result * tensors + chunk.tensor];
      if (to.extent() == 0) continue;  // large: not computed
      const Value scalar = lists.scalars.empty() ? Value{} : lists.scalars[chunk.tensor];
      for (std::size_t i = chunk.first - first[chunk.tensor], end = i + chunk.count; i < end; ++i) {
        bool known = true;
        for (std::size_t d = 0; d < function.reads && known; ++d) {
          const auto value = images[d * tensors + chunk.tensor].load(
              i * size_of(function.argument_type), function.argument_type);
          known = value.has_value();
          if (known) values[d] = *value;
        }
        std::optional<Value> result;
        if (known) result = function.evaluate(values.data(), scalar);
        to.store(i * size_of(function.result_type), function.result_type, result);
      }
    }
  };
  return effect;
}

/// GradScaler: multiplies by *inverse_scale where that is not 1, and sets *found_inf to 1 where a
/// value is not finite. The lambda's captures: found_inf and inverse_scale, and its host twin.
Effect unscale(const Lists& lists, ElementType type, const Arguments& arguments) {
  std::byte* const found = arguments.pointer(2, 0);
  std::byte* const inverse_scale = arguments.pointer(2, 8);
  Effect effect;
  add_operands(effect, lists, {size_of(type)}, 1, {true});
  effect.operands.push_back({found, 4, true, true});
  effect.operands.push_back({inverse_scale, 4, true, false});
  effect.compute = [lists, type](std::span<Image> images) {
    const auto first = first_elements(lists);
    Image& flag = images[images.size() - 2];
    const auto scale = images[images.size() - 1].load(0, ElementType::float32);
    for (const Chunk& chunk : lists.chunks) {
      Image& tensor = images[chunk.tensor];
      if (tensor.extent() == 0) continue;  // large: taken to be finite
      for (std::size_t i = chunk.first - first[chunk.tensor], end = i + chunk.count; i < end; ++i) {
        const std::size_t at = i * size_of(type);
        const auto value = tensor.load(at, type);
        if (value && !std::isfinite(value->to_real()))
          flag.store(0, ElementType::float32, Value{1.0f});
        if (!value || !scale) {
          tensor.store(at, type, std::nullopt);
        } else if (scale->real != 1.0) {
          tensor.store(at, type, arithmetic::multiply(compute_type(type), *value, *scale));
        }
      }
    }
  };
  return effect;
}

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
  const std::size_t number_in_enum = number(text.substr(text.find(')') + 1));
  return static_cast<Norm>(std::min<std::size_t>(number_in_enum + (larger ? 0 : 1), 3));
}

/// Norm or maximum of each chunk, for a second kernel to fold:
/// (lists, functor, results, chunks per tensor) or (lists, functor, results, offsets).
std::optional<Effect> chunk_norms(const Lists& lists, const Functor& functor,
                                  const Arguments& arguments) {
  const bool maximum = functor.name == "LpMaxFunctor";
  const bool larger = arguments.bytes(0).size() > 4096;
  const Norm norm = maximum ? Norm::infinite : norm_numbered(functor.arguments[1], larger);
  const ElementType type = functor.type;
  const ElementType partial =
      maximum ? type : compute_type(element_type_named(functor.arguments[2]).value_or(type));
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

/// (meta, functor, [lr tensor], scalars..., [grad_scale], [found_inf]): the lists are parameters,
/// gradients and state. Not executed: gradients come from work that is not executed either.
Effect fused_optimizer(const Lists& lists, ElementType type) {
  Effect effect;
  const std::vector<std::size_t> sizes(lists.depth, size_of(type));
  add_operands(effect, lists, sizes, lists.depth, std::vector<bool>(lists.depth, true));
  return effect;
}

class MultiTensor final : public Meaning {
 public:
  MultiTensor(Metadata kind, std::size_t depth, std::optional<ElementType> scalar_type,
              Functor functor)
      : kind_{kind}, depth_{depth}, scalar_type_{scalar_type}, functor_{std::move(functor)} {}

  [[nodiscard]] std::optional<Effect> effect(const Arguments& arguments) const override {
    const auto lists = read_lists(arguments, kind_, depth_, scalar_type_);
    if (!lists) return std::nullopt;
    const ElementType type = functor_.type;
    if (functor_.name.starts_with("Fused")) return fused_optimizer(*lists, type);
    if (functor_.name == "LpNormFunctor" || functor_.name == "LpMaxFunctor") {
      return chunk_norms(*lists, functor_, arguments);
    }
    if (functor_.operation_text.find("_amp_foreach_non_finite_check_and_unscale") !=
        std::string_view::npos) {
      return unscale(*lists, type, arguments);
    }
    return with_operation(*lists, arguments);
  }

 private:
  [[nodiscard]] std::optional<Effect> with_operation(const Lists& lists,
                                                     const Arguments& arguments) const {
    const ElementType type = functor_.type;
    const ElementType compute = compute_type(type);
    PointFunction f;
    f.argument_type = f.result_type = type;
    const std::string_view name = functor_.name;
    if (name == "CopyFunctor") {
      // <destination, source, depth, reads, result>
      const auto source = element_type_named(functor_.arguments[1]);
      if (!source || functor_.arguments.size() != 5) return std::nullopt;
      f.argument_type = *source;
      f.reads = number(functor_.arguments[3]);
      f.result = number(functor_.arguments[4]);
      f.evaluate = [](const Value* v, const Value&) { return v[0]; };
      return pointwise(lists, std::move(f));
    }
    if (functor_.arguments.size() != 4) return std::nullopt;
    f.reads = number(functor_.arguments[2]);
    f.result = number(functor_.arguments[3]);
    if (f.result >= lists.depth || f.reads > lists.depth) return std::nullopt;
    if (name == "ZeroFunctor") {
      f.reads = 0;
      f.evaluate = [](const Value*, const Value&) { return Value{0}; };
      return pointwise(lists, std::move(f));
    }
    const Combine combine = combine_named(functor_.operation);
    const Map map = map_named(functor_.operation);
    const bool lerp = functor_.operation == "LerpFunctor";
    // (meta, functor, operation, scalar): in the compute type.
    const Value scalar = value_at(arguments, 3, compute);
    if (name == "UnaryOpFunctor" && map != nullptr) {
      f.evaluate = [map, compute](const Value* v, const Value&) { return map(compute, v[0]); };
    } else if (name == "BinaryOpScalarFunctor" && combine != nullptr) {
      f.evaluate = [combine, compute, scalar](const Value* v, const Value&) {
        return combine(compute, v[0], scalar);
      };
    } else if (name == "BinaryOpScalarListFunctor" && combine != nullptr) {
      f.evaluate = [combine, compute](const Value* v, const Value& own) {
        return combine(compute, v[0], own);
      };
    } else if (name == "BinaryOpListAlphaFunctor" && combine != nullptr) {
      f.evaluate = [combine, compute, scalar](const Value* v, const Value&) {
        return combine(compute, v[0], arithmetic::multiply(compute, scalar, v[1]));
      };
    } else if (name == "BinaryOpScalarTensorFunctor" && combine != nullptr) {
      return scalar_tensor(lists, std::move(f), combine, arguments);
    } else if (name == "PointwiseOpScalarFunctor" && combine != nullptr) {
      f.evaluate = [combine, compute, scalar](const Value* v, const Value&) {
        return arithmetic::add(compute, v[0],
                               arithmetic::multiply(compute, scalar, combine(compute, v[1], v[2])));
      };
    } else if (name == "PointwiseOpScalarListFunctor" && combine != nullptr) {
      f.evaluate = [combine, compute](const Value* v, const Value& own) {
        return arithmetic::add(compute, v[0],
                               arithmetic::multiply(compute, own, combine(compute, v[1], v[2])));
      };
    } else if (name == "TernaryOpScalarFunctor" && lerp) {
      f.evaluate = [compute, scalar](const Value* v, const Value&) {
        return arithmetic::lerp(compute, v[0], v[1], scalar);
      };
    } else if (name == "TernaryOpScalarListFunctor" && lerp) {
      f.evaluate = [compute](const Value* v, const Value& own) {
        return arithmetic::lerp(compute, v[0], v[1], own);
      };
    } else if (name == "TernaryOpListFunctor" && lerp) {
      f.evaluate = [compute](const Value* v, const Value&) {
        return arithmetic::lerp(compute, v[0], v[1], v[2]);
      };
    }
    return pointwise(lists, std::move(f));
  }

  /// (meta, functor, operation, T* scalar, alpha): the scalar is in device memory.
  [[nodiscard]] static Effect scalar_tensor(const Lists& lists, PointFunction f, Combine combine,
                                            const Arguments& arguments) {
    const ElementType type = f.argument_type;
    const ElementType compute = compute_type(type);
    const Value alpha = value_at(arguments, 4, compute);
    auto scalar = std::make_shared<Value>();
    f.evaluate = [combine, compute, alpha, scalar](const Value* v, const Value&) {
      return combine(compute, v[0], arithmetic::multiply(compute, alpha, *scalar));
    };
    Effect effect = pointwise(lists, std::move(f));
    effect.operands.push_back({arguments.pointer(3), size_of(type), true, false});
    effect.compute = [inner = std::move(effect.compute), scalar, type,
                      written = effect.operands](std::span<Image> images) {
      const auto value = images.back().load(0, type);
      if (value) {
        *scalar = *value;
        inner(images);
        return;
      }
      for (std::size_t i = 0; i < images.size(); ++i) {
        if (written[i].written) images[i].forget();
      }
    };
    return effect;
  }

  Metadata kind_;
  std::size_t depth_;
  std::optional<ElementType> scalar_type_;
  Functor functor_;
};

/// lpnorm_cleanup<T, norm, out[, apply root], partial> and lpmax_cleanup<T>: fold each tensor's
/// chunks. (results, addresses, chunks per tensor), or (results, addresses, offsets, first tensor).
std::unique_ptr<Meaning> cleanup(const TemplateName& kernel) {
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

/// amp_update_scale_cuda_kernel(scale, growth tracker, found_inf, growth, backoff, interval)
std::unique_ptr<Meaning> update_scale() {
  return meaning([](const Arguments& arguments) -> std::optional<Effect> {
    Effect effect;
    effect.operands = {{arguments.pointer(0), 4, true, true},
                       {arguments.pointer(1), 4, true, true},
                       {arguments.pointer(2), 4, true, false}};
    effect.bytes = 20;
    const auto growth = arguments.get<double>(3), backoff = arguments.get<double>(4);
    const auto interval = arguments.get<std::int32_t>(5);
    effect.compute = [growth, backoff, interval](std::span<Image> images) {
      const auto scale = images[0].load(0, ElementType::float32);
      const auto tracker = images[1].load(0, ElementType::int32);
      const auto found = images[2].load(0, ElementType::float32);
      if (!scale || !tracker || !found) {
        images[0].forget();
        images[1].forget();
        return;
      }
      if (found->to_bool()) {
        images[0].store(0, ElementType::float32, Value{scale->real * backoff});
        images[1].store(0, ElementType::int32, Value{0});
        return;
      }
      const std::int64_t successes = tracker->integer + 1;
      if (successes != interval) {
        images[1].store(0, ElementType::int32, Value{successes});
        return;
      }
      // Never grows to infinity.
      const auto grown = static_cast<float>(scale->real * growth);
      if (std::isfinite(grown)) images[0].store(0, ElementType::float32, Value{grown});
      images[1].store(0, ElementType::int32, Value{0});
    };
    return effect;
  });
}

}  // namespace

std::unique_ptr<Meaning> read_multi_tensor(const Signature& signature, const KernelResources&) {
  const TemplateName& kernel = signature.kernel;
  const std::string_view name = unqualified(kernel.name);
  if (name == "lpnorm_cleanup" || name == "lpmax_cleanup") return cleanup(kernel);
  if (name == "amp_update_scale_cuda_kernel") return update_scale();
  if (name != "multi_tensor_apply_kernel" || kernel.arguments.size() < 2) return nullptr;
  const TemplateName metadata = template_name(kernel.arguments[0]);
  const std::string_view kind = unqualified(metadata.name);
  const TemplateName functor = template_name(kernel.arguments[1]);
  if (metadata.arguments.empty() || functor.arguments.empty()) return nullptr;
  const std::size_t depth = number(metadata.arguments.back());
  const auto type = element_type_named(functor.arguments[0]);
  if (depth < 1 || depth > max_depth || !type) return nullptr;
  Functor f;
  f.name = unqualified(functor.name);
  f.arguments = functor.arguments;
  f.type = *type;
  if (kernel.arguments.size() > 2) {
    f.operation_text = kernel.arguments[2];
    f.operation = plain(kernel.arguments[2]);
  }
  std::optional<ElementType> scalar_type;
  Metadata form = Metadata::plain;
  if (kind == "TensorListScalarListMetadata") {
    form = Metadata::scalars;
    scalar_type = element_type_named(metadata.arguments[0]);
    if (!scalar_type) return nullptr;
  } else if (kind == "FusedOptimizerTensorListMetadata") {
    form = Metadata::optimizer;
  } else if (kind != "TensorListMetadata") {
    return nullptr;
  }
  return std::make_unique<MultiTensor>(form, depth, scalar_type, std::move(f));
}

}  // namespace phantora::rank
