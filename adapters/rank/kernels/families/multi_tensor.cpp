#include "rank/kernels/families/arithmetic.hpp"
#include "rank/kernels/families/chunk_norms.hpp"
#include "rank/kernels/families/grad_scaler.hpp"
#include "rank/kernels/families/tensor_lists.hpp"
#include "rank/kernels/kernel_effect.hpp"

#include <algorithm>
#include <array>
#include <utility>

/// PyTorch's multi_tensor_apply_kernel (ATen/native/cuda/MultiTensorApply.cuh,
/// ForeachFunctors.cuh): one functor over chunks of many tensors, for foreach operations and fused
/// optimizers.
namespace phantora::rank {

namespace {

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

Effect pointwise(const TensorLists& lists, PointFunction function) {
  Effect effect;
  std::vector<std::size_t> sizes(lists.depth, size_of(function.argument_type));
  std::vector<bool> written(lists.depth, false);
  sizes[function.result] = size_of(function.result_type);
  written[function.result] = true;
  add_operands(effect, lists, sizes, function.reads, written);
  if (!function.evaluate) return effect;
  if (function.reads > 0) effect.tensors = lists.addresses[0].size();
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

/// (meta, functor, [lr tensor], scalars..., [grad_scale], [found_inf]): the lists are parameters,
/// gradients and state. Not executed: gradients come from work that is not executed either.
Effect fused_optimizer(const TensorLists& lists, ElementType type) {
  Effect effect;
  const std::vector<std::size_t> sizes(lists.depth, size_of(type));
  add_operands(effect, lists, sizes, lists.depth, std::vector<bool>(lists.depth, true));
  return effect;
}

class MultiTensor final : public Meaning {
 public:
  MultiTensor(ListKind kind, std::size_t depth, std::optional<ElementType> scalar_type,
              Functor functor)
      : kind_{kind}, depth_{depth}, scalar_type_{scalar_type}, functor_{std::move(functor)} {}

  [[nodiscard]] std::optional<Effect> effect(const Arguments& arguments) const override {
    const auto lists = read_lists(arguments, kind_, depth_, scalar_type_);
    if (!lists) return std::nullopt;
    const ElementType type = functor_.type;
    if (functor_.name.starts_with("Fused")) return fused_optimizer(*lists, type);
    if (functor_.name == "LpNormFunctor" || functor_.name == "LpMaxFunctor") {
      return chunk_norms(*lists, functor_.name == "LpMaxFunctor", functor_.arguments, arguments);
    }
    if (functor_.operation_text.find("_amp_foreach_non_finite_check_and_unscale") !=
        std::string_view::npos) {
      return unscale(*lists, type, arguments);
    }
    return with_operation(*lists, arguments);
  }

 private:
  [[nodiscard]] std::optional<Effect> with_operation(const TensorLists& lists,
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
      f.reads = number_in(functor_.arguments[3]);
      f.result = number_in(functor_.arguments[4]);
      f.evaluate = [](const Value* v, const Value&) { return v[0]; };
      return pointwise(lists, std::move(f));
    }
    if (functor_.arguments.size() != 4) return std::nullopt;
    f.reads = number_in(functor_.arguments[2]);
    f.result = number_in(functor_.arguments[3]);
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
  [[nodiscard]] static Effect scalar_tensor(const TensorLists& lists, PointFunction f,
                                            Combine combine, const Arguments& arguments) {
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

  ListKind kind_;
  std::size_t depth_;
  std::optional<ElementType> scalar_type_;
  Functor functor_;
};

}  // namespace

std::unique_ptr<Meaning> read_multi_tensor(const Signature& signature, const KernelResources&) {
  const TemplateName& kernel = signature.kernel;
  const std::string_view name = unqualified(kernel.name);
  if (name == "lpnorm_cleanup" || name == "lpmax_cleanup") return read_norm_cleanup(kernel);
  if (name == "amp_update_scale_cuda_kernel") return read_update_scale();
  if (name != "multi_tensor_apply_kernel" || kernel.arguments.size() < 2) return nullptr;
  const TemplateName metadata = template_name(kernel.arguments[0]);
  const std::string_view kind = unqualified(metadata.name);
  const TemplateName functor = template_name(kernel.arguments[1]);
  if (metadata.arguments.empty() || functor.arguments.empty()) return nullptr;
  const std::size_t depth = number_in(metadata.arguments.back());
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
  ListKind form = ListKind::plain;
  if (kind == "TensorListScalarListMetadata") {
    form = ListKind::scalars;
    scalar_type = element_type_named(metadata.arguments[0]);
    if (!scalar_type) return nullptr;
  } else if (kind == "FusedOptimizerTensorListMetadata") {
    form = ListKind::optimizer;
  } else if (kind != "TensorListMetadata") {
    return nullptr;
  }
  return std::make_unique<MultiTensor>(form, depth, scalar_type, std::move(f));
}

}  // namespace phantora::rank
