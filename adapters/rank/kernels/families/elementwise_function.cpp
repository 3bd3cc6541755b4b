#include "rank/kernels/families/elementwise_function.hpp"

#include "rank/kernels/families/aligned.hpp"
#include "rank/kernels/families/arithmetic.hpp"
#include "rank/kernels/families/complex_function.hpp"
#include "rank/kernels/families/functor.hpp"
#include "rank/kernels/families/lambda_function.hpp"
#include "rank/kernels/families/named_functions.hpp"

#include <algorithm>
#include <utility>

namespace phantora::rank {

namespace {

using Combine = std::function<Value(const Value& a, const Value& b, const std::byte* state)>;

/// The operation inside of BinaryFunctor, AUnaryFunctor and BUnaryFunctor. `type`: of its
/// arguments.
struct Inner {
  Combine combine;
  std::size_t bytes = 1;
  Contrast contrast = Contrast::none;
};
std::optional<Inner> inner_operation(std::string_view text, ElementType type) {
  const Functor functor = functor_of(text);
  if (functor.key == "CompareEqFunctor") {
    return Inner{[type](const Value& a, const Value& b, const std::byte* state) {
                   const bool not_equal = load(ElementType::int32, state).integer != 0;
                   const bool equal = in_number_type(type, [&](auto zero) {
                     using C = decltype(zero);
                     return a.as<C>() == b.as<C>();
                   });
                   return Value{equal != not_equal};
                 },
                 4, Contrast::equality};
  }
  if (functor.key == "threshold_kernel_impl") {
    return Inner{[type](const Value& x, const Value& other, const std::byte* state) {
                   FunctorScalars scalars{state};
                   const Value threshold = scalars.next(type), value = scalars.next(type);
                   const Value at_most = arithmetic::lift(
                       type, [](auto a, auto b) { return a <= b; }, x, threshold);
                   return at_most.to_bool() ? value : other;
                 },
                 closure_bytes({size_of(type), size_of(type)}), Contrast::monotone};
  }
  const bool is_shift = functor.key == "lshift_kernel_cuda" || functor.key == "rshift_kernel_cuda";
  if (is_shift) {
    const bool left = functor.key == "lshift_kernel_cuda";
    return Inner{[left, type](const Value& a, const Value& b, const std::byte*) {
      return shift(left, type, a, b);
    }};
  }
  if (functor.key.starts_with("Bitwise")) {
    return Inner{[key = functor.key](const Value& a, const Value& b, const std::byte*) {
                   return bitwise(key, a, b);
                 },
                 1, Contrast::bits};
  }
  if (functor.key == "MulFunctor" && type == ElementType::boolean) {
    return Inner{[](const Value& a, const Value& b, const std::byte*) {
                   return Value{a.to_bool() && b.to_bool()};
                 },
                 1, Contrast::choice};
  }
  if (const BinaryFunction* const f = binary_function(functor.key)) {
    // Any integer leaves nothing when it is divided by 1 or -1, and 0 and 1 leave something unlike
    // each other by every other divisor.
    const bool divides =
        functor.key == "fmod_kernel_cuda" || functor.key == "remainder_kernel_cuda";
    const Contrast contrast = divides && !is_floating(type) ? Contrast::choice : f->contrast;
    return Inner{[type, g = f->evaluate](const Value& a, const Value& b, const std::byte*) {
                   return g(type, a, b);
                 },
                 1, contrast};
  }
  const RealBinaryFunction* const f = real_binary_function(functor.key);
  if (f == nullptr || !is_floating(type)) return std::nullopt;
  return Inner{[g = f->evaluate](const Value& a, const Value& b, const std::byte*) {
                 return Value{g(a.to_real(), b.to_real())};
               },
               1, f->contrast};
}

/// The type of the inner operation's arguments: its own template argument or lambda parameter,
/// which is the compute type where that differs from the element type.
std::optional<ElementType> inner_type(std::string_view text) {
  const Functor functor = functor_of(text);
  const auto& names = functor.is_lambda ? functor.parameters : functor.arguments;
  return names.empty() ? std::nullopt : number_type_named(names.front());
}

std::optional<ElementwiseFunction> wrapped(const Functor& functor) {
  const bool a_unary = functor.key == "AUnaryFunctor", b_unary = functor.key == "BUnaryFunctor";
  if (!a_unary && !b_unary && functor.key != "BinaryFunctor") return std::nullopt;
  if (functor.arguments.size() != 4) return std::nullopt;
  const auto a = number_type_named(functor.arguments[0]);
  const auto b = number_type_named(functor.arguments[1]);
  const auto result = number_type_named(functor.arguments[2]);
  const auto type = inner_type(functor.arguments[3]);
  if (!a || !b || !result || !type) return std::nullopt;
  auto inner = inner_operation(functor.arguments[3], *type);
  if (!inner) return std::nullopt;
  ElementwiseFunction f;
  f.result = *result;
  if (!a_unary && !b_unary) {
    f.arguments = {*a, *b};
    f.state_bytes = inner->bytes;
    f.contrast = inner->contrast;
    f.evaluate = [combine = std::move(inner->combine)](const Value* v, const std::byte* state) {
      return combine(v[0], v[1], state);
    };
    return f;
  }
  // {operation, scalar}: the scalar is stored in the operation's own type.
  const std::size_t scalar = aligned(inner->bytes, size_of(*type));
  f.arguments = {a_unary ? *b : *a};
  // That a value equals the scalar is not found without knowing the scalar.
  if (inner->contrast != Contrast::equality) f.contrast = inner->contrast;
  f.state_bytes = aligned(scalar + size_of(*type), inner->bytes >= 8 ? 8 : size_of(*type));
  f.evaluate = [combine = std::move(inner->combine), scalar, type = *type, a_unary](
                   const Value* v, const std::byte* state) {
    const Value fixed = load(type, state + scalar);
    return a_unary ? combine(fixed, v[0], state) : combine(v[0], fixed, state);
  };
  return f;
}

ElementwiseFunction conversion(ElementType from, ElementType to) {
  ElementwiseFunction f;
  f.arguments = {from};
  f.result = to;
  f.evaluate = [](const Value* v, const std::byte*) { return v[0]; };
  return f;
}

std::optional<ElementwiseFunction> class_functor(const Functor& functor) {
  if (functor.key == "ConvertFloatToFloat8E5M2Op") {
    return conversion(ElementType::float32, ElementType::float8_e5m2);
  }
  if (functor.arguments.empty()) return std::nullopt;
  const auto type = number_type_named(functor.arguments[0]);
  if (!type) return std::nullopt;
  const ElementType compute = compute_type(*type);
  ElementwiseFunction f;
  f.result = *type;
  if (functor.key == "FillFunctor") {
    f.state_bytes = size_of(*type);
    f.evaluate = [type = *type](const Value*, const std::byte* state) { return load(type, state); };
    return f;
  }
  if (functor.key == "ConvertToFloat8E4M3fnOp") {
    return conversion(*type, ElementType::float8_e4m3);
  }
  const auto add_scaled = [compute](const Value& a, const Value& b, const Value& alpha) {
    return arithmetic::add(compute, a, arithmetic::multiply(compute, alpha, b));
  };
  if (functor.key == "CUDAFunctor_add") {
    f.arguments = {*type, *type};
    f.state_bytes = size_of(compute);
    f.evaluate = [add_scaled, compute](const Value* v, const std::byte* state) {
      return add_scaled(v[0], v[1], load(compute, state));
    };
    return f;
  }
  if (functor.key == "CUDAFunctorOnSelf_add" || functor.key == "CUDAFunctorOnOther_add") {
    const bool on_self = functor.key == "CUDAFunctorOnSelf_add";
    f.arguments = {*type};
    f.state_bytes = 2 * size_of(compute);
    f.evaluate = [add_scaled, compute, on_self](const Value* v, const std::byte* state) {
      FunctorScalars scalars{state};
      const Value fixed = scalars.next(compute), alpha = scalars.next(compute);
      return on_self ? add_scaled(v[0], fixed, alpha) : add_scaled(fixed, v[0], alpha);
    };
    return f;
  }
  if (functor.key == "CompareFunctor") {
    f.arguments = {*type, *type};
    f.result = ElementType::boolean;
    f.state_bytes = 4;
    f.contrast = Contrast::order;
    f.evaluate = [compute](const Value* v, const std::byte* state) {
      return compare(load(ElementType::int32, state).integer, compute, v[0], v[1]);
    };
    return f;
  }
  if (const UnaryFunction unary = unary_function(functor.key)) {
    f.arguments = {*type};
    f.evaluate = [compute, unary](const Value* v, const std::byte*) {
      return unary(compute, v[0]);
    };
    return f;
  }
  return std::nullopt;
}

/// Whether the function called `key`, which is known here, is known of complex numbers: those that
/// move them, or need no order of them.
bool knows_complex(std::string_view key) {
  for (const std::string_view known :
       {"FillFunctor", "CUDAFunctor_add", "CUDAFunctorOnSelf_add", "CUDAFunctorOnOther_add",
        "MulFunctor", "DivFunctor", "CompareEqFunctor", "logical_not_kernel_cuda",
        "pow_tensor_tensor_kernel", "pow_tensor_scalar_kernel", "pow_scalar_tensor_impl",
        "complex_kernel_cuda", "polar_kernel_cuda", "direct_copy_kernel_cuda", "where_kernel_impl",
        "masked_fill_kernel"}) {
    if (key == known) return true;
  }
  return complex_function(key) != nullptr;
}

}  // namespace

std::optional<ElementwiseFunction> elementwise_function(std::string_view text) {
  const Functor functor = functor_of(text);
  auto f = functor.is_lambda ? lambda_function(functor) : wrapped(functor);
  const bool wraps = f && !functor.is_lambda;
  if (!f && !functor.is_lambda) f = class_functor(functor);
  if (!f) return std::nullopt;
  const bool complex =
      is_complex(f->result) || std::any_of(f->arguments.begin(), f->arguments.end(), is_complex);
  const std::string_view key = wraps ? functor_of(functor.arguments[3]).key : functor.key;
  if (complex && !knows_complex(key)) return std::nullopt;
  using Compares = ElementwiseFunction::Compares;
  if (key == "CompareEqFunctor") f->compares = Compares::equality;
  if (key == "compare_scalar_kernel") f->compares = Compares::order;
  return f;
}

std::vector<ElementType> functor_types(std::string_view text) {
  const Functor functor = functor_of(text);
  std::vector<ElementType> result;
  for (const auto name : functor.is_lambda ? functor.parameters : functor.arguments) {
    const auto type = number_type_named(name);
    if (!type) break;
    result.push_back(*type);
  }
  return result;
}

std::optional<std::size_t> operands_of_functor(std::string_view text) {
  const Functor functor = functor_of(text);
  if (functor.is_lambda) return functor.parameters.size() + 1;
  if (functor.key == "BinaryFunctor") return 3;
  if (functor.key == "AUnaryFunctor" || functor.key == "BUnaryFunctor") return 2;
  return std::nullopt;
}

}  // namespace phantora::rank
