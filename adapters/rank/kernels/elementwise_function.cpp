#include "rank/kernels/elementwise_function.hpp"

#include "rank/kernels/aligned.hpp"
#include "rank/kernels/arithmetic.hpp"
#include "rank/kernels/complex_function.hpp"
#include "rank/kernels/kernel_name.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>

namespace phantora::rank {

namespace {

using Binary = Value (*)(ElementType compute, const Value& a, const Value& b);
using Unary = Value (*)(ElementType compute, const Value& a);

/// Lifts a generic lambda over float, double and std::int64_t to Values.
template <class F>
Value lift(ElementType type, F f, const Value& a) {
  return in_compute_type(type, [&](auto zero) {
    using C = decltype(zero);
    return Value{f(a.as<C>())};
  });
}
template <class F>
Value lift(ElementType type, F f, const Value& a, const Value& b) {
  return in_compute_type(type, [&](auto zero) {
    using C = decltype(zero);
    return Value{f(a.as<C>(), b.as<C>())};
  });
}

// --- Functions of two arguments, by the name of the functor, or of the function whose lambda it is

Value divide_truncating(ElementType type, const Value& a, const Value& b) {
  const Value quotient = arithmetic::divide(type, a, b);
  return quotient.floating ? Value{std::trunc(quotient.real)} : quotient;
}
Value logical_and(ElementType, const Value& a, const Value& b) {
  return a.to_bool() && b.to_bool();
}
Value logical_or(ElementType, const Value& a, const Value& b) { return a.to_bool() || b.to_bool(); }
Value logical_xor(ElementType, const Value& a, const Value& b) {
  return a.to_bool() != b.to_bool();
}
Value squared_difference(ElementType type, const Value& a, const Value& b) {
  const Value difference = arithmetic::subtract(type, a, b);
  return arithmetic::multiply(type, difference, difference);
}
Value sigmoid_backward(ElementType, const Value& gradient, const Value& y) {
  return gradient.to_real() * (1.0 - y.to_real()) * y.to_real();
}
Value tanh_backward(ElementType, const Value& gradient, const Value& y) {
  return gradient.to_real() * (1.0 - y.to_real() * y.to_real());
}

struct BinaryFunction {
  Binary evaluate;
  Contrast contrast = Contrast::none;
};

const std::unordered_map<std::string_view, BinaryFunction>& binary_functions() {
  static const auto* const table = new std::unordered_map<std::string_view, BinaryFunction>{
      {"MulFunctor", {arithmetic::multiply, Contrast::product}},
      {"DivFunctor", {arithmetic::divide}},
      {"div_trunc_kernel_cuda", {divide_truncating}},
      {"div_floor_kernel_cuda", {arithmetic::floor_divide}},
      {"fmod_kernel_cuda", {arithmetic::modulo}},
      {"remainder_kernel_cuda", {arithmetic::remainder}},
      {"maximum_kernel_cuda", {arithmetic::maximum, Contrast::monotone}},
      {"minimum_kernel_cuda", {arithmetic::minimum, Contrast::monotone}},
      {"logical_and_kernel_cuda", {logical_and, Contrast::choice}},
      {"logical_or_kernel_cuda", {logical_or, Contrast::choice}},
      {"logical_xor_kernel_cuda", {logical_xor, Contrast::choice}},
      {"pow_tensor_tensor_kernel", {arithmetic::power}},
      {"mse_kernel_cuda", {squared_difference}},
      {"sigmoid_backward_kernel_cuda", {sigmoid_backward}},
      {"tanh_backward_kernel_cuda", {tanh_backward}},
  };
  return *table;
}

Value bitwise(std::string_view name, const Value& a, const Value& b) {
  const std::int64_t x = a.to_integer(), y = b.to_integer();
  if (name == "BitwiseAndFunctor") return x & y;
  if (name == "BitwiseOrFunctor") return x | y;
  return x ^ y;
}

Value shift(bool left, ElementType type, const Value& a, const Value& b) {
  const std::int64_t x = a.to_integer(), by = b.to_integer();
  const auto bits = static_cast<std::int64_t>(8 * size_of(type));
  const bool is_signed = type != ElementType::uint8 && type != ElementType::boolean;
  if (left)
    return by < 0 || by >= bits
               ? Value{0}
               : Value{static_cast<std::int64_t>(static_cast<std::uint64_t>(x) << by)};
  const std::int64_t most = is_signed ? bits - 1 : bits;
  return x >> (by < 0 || by >= bits ? std::min<std::int64_t>(most, 63) : by);
}

Value floating_binary(std::string_view name, double a, double b) {
  if (name == "atan2_kernel_cuda") return std::atan2(a, b);
  if (name == "hypot_kernel_cuda") return std::hypot(a, b);
  if (name == "copysign_kernel_cuda" || name == "CopysignFunctor") return std::copysign(a, b);
  if (name == "fmax_kernel_cuda") return std::fmax(a, b);
  return std::fmin(a, b);
}

Contrast floating_contrast(std::string_view name) {
  return name == "fmax_kernel_cuda" || name == "fmin_kernel_cuda" ? Contrast::monotone
                                                                  : Contrast::none;
}

// --- Functions of one argument

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double gelu(double x) { return x * 0.5 * (1.0 + std::erf(x * M_SQRT1_2)); }
double gelu_tanh(double x) {
  return 0.5 * x * (1.0 + std::tanh(M_SQRT2 * M_2_SQRTPI * 0.5 * (x + 0.044715 * x * x * x)));
}
double frac(double x) { return x - std::trunc(x); }
double rsqrt(double x) { return 1.0 / std::sqrt(x); }
double reciprocal(double x) { return 1.0 / x; }
double silu(double x) { return x / (1.0 + std::exp(-x)); }
double mish(double x) { return x * std::tanh(std::log1p(std::exp(x))); }
double log_sigmoid(double x) { return std::min(0.0, x) - std::log1p(std::exp(-std::fabs(x))); }
double hardswish(double x) { return x * std::min(std::max(x + 3.0, 0.0), 6.0) / 6.0; }
double hardsigmoid(double x) { return std::min(std::max(x + 3.0, 0.0), 6.0) / 6.0; }

/// Functions from floating to floating: evaluated in double and rounded once, which is at least as
/// near to the true value as the device's own.
const std::unordered_map<std::string_view, double (*)(double)>& real_functions() {
#define PHANTORA_STD(function) [](double x) -> double { return std::function(x); }
  static const auto* const table = new std::unordered_map<std::string_view, double (*)(double)>{
      {"sqrt_kernel_cuda", PHANTORA_STD(sqrt)},
      {"rsqrt_kernel_cuda", rsqrt},
      {"reciprocal_kernel_cuda", reciprocal},
      {"exp_kernel_cuda", PHANTORA_STD(exp)},
      {"exp2_kernel_cuda", PHANTORA_STD(exp2)},
      {"expm1_kernel_cuda", PHANTORA_STD(expm1)},
      {"log_kernel_cuda", PHANTORA_STD(log)},
      {"log2_kernel_cuda", PHANTORA_STD(log2)},
      {"log10_kernel_cuda", PHANTORA_STD(log10)},
      {"log1p_kernel_cuda", PHANTORA_STD(log1p)},
      {"sin_kernel_cuda", PHANTORA_STD(sin)},
      {"cos_kernel_cuda", PHANTORA_STD(cos)},
      {"tan_kernel_cuda", PHANTORA_STD(tan)},
      {"asin_kernel_cuda", PHANTORA_STD(asin)},
      {"acos_kernel_cuda", PHANTORA_STD(acos)},
      {"atan_kernel_cuda", PHANTORA_STD(atan)},
      {"sinh_kernel_cuda", PHANTORA_STD(sinh)},
      {"cosh_kernel_cuda", PHANTORA_STD(cosh)},
      {"tanh_kernel_cuda", PHANTORA_STD(tanh)},
      {"asinh_kernel_cuda", PHANTORA_STD(asinh)},
      {"acosh_kernel_cuda", PHANTORA_STD(acosh)},
      {"atanh_kernel_cuda", PHANTORA_STD(atanh)},
      {"erf_kernel_cuda", PHANTORA_STD(erf)},
      {"erfc_kernel_cuda", PHANTORA_STD(erfc)},
      {"lgamma_kernel_cuda", PHANTORA_STD(lgamma)},
      {"floor_kernel_cuda", PHANTORA_STD(floor)},
      {"ceil_kernel_cuda", PHANTORA_STD(ceil)},
      {"trunc_kernel_cuda", PHANTORA_STD(trunc)},
      {"round_kernel_cuda", PHANTORA_STD(nearbyint)},  // halves to even, as the device
      {"frac_kernel_cuda", frac},
      {"sigmoid_kernel_cuda", sigmoid},
      {"silu_kernel", silu},
      {"mish_kernel", mish},
      {"launch_log_sigmoid_forward_kernel", log_sigmoid},
      {"hardswish_kernel", hardswish},
      {"hardsigmoid_kernel", hardsigmoid},
  };
#undef PHANTORA_STD
  return *table;
}

Value logical_not(ElementType, const Value& a) { return !a.to_bool(); }

const std::unordered_map<std::string_view, Unary>& unary_functions() {
  static const auto* const table = new std::unordered_map<std::string_view, Unary>{
      {"neg_kernel_cuda", arithmetic::negate},
      {"AbsFunctor", arithmetic::absolute},
      {"sign_kernel_cuda", arithmetic::sign},
      {"logical_not_kernel_cuda", logical_not},
  };
  return *table;
}

// --- Reading

/// Scalars that a functor carries, one after the other, each aligned to its size.
class State {
 public:
  explicit State(const std::byte* bytes, std::size_t offset = 0) : bytes_{bytes}, offset_{offset} {}
  Value next(ElementType type) {
    offset_ = (offset_ + size_of(type) - 1) / size_of(type) * size_of(type);
    const Value value = load(type, bytes_ + offset_);
    offset_ += size_of(type);
    return value;
  }

 private:
  const std::byte* bytes_;
  std::size_t offset_;
};

constexpr std::size_t host_pointer_bytes = 8;

/// Size of a `__host__ __device__` lambda of nvcc: its captures in order of first use, then a
/// pointer to its host twin, unless it has no captures and no capture default (one byte). Found
/// with nvcc 13 by printing closures.
std::size_t closure_bytes(std::initializer_list<std::size_t> captures) {
  std::size_t size = 0;
  std::size_t alignment = 8;
  for (const std::size_t capture : captures) {
    size = aligned(size, capture) + capture;
    alignment = std::max(alignment, capture);
  }
  return aligned(aligned(size, host_pointer_bytes) + host_pointer_bytes, alignment);
}

std::vector<ElementType> types(const NameParts& names) {
  std::vector<ElementType> result;
  for (const auto name : names) {
    const auto type = number_type_named(name);
    if (!type) return {};
    result.push_back(*type);
  }
  return result;
}

/// The complex type whose parts are of `part`.
ElementType complex_of(ElementType part) {
  return part == ElementType::float16   ? ElementType::complex32
         : part == ElementType::float32 ? ElementType::complex64
                                        : ElementType::complex128;
}

/// The name that decides a functor's meaning: its class, or the function that the lambda is in.
struct Functor {
  std::string_view key;
  NameParts arguments;    ///< template arguments of the class or function
  NameParts parameters;   ///< of a lambda
  std::vector<int> path;  ///< of a lambda
  bool is_lambda = false;
};

Functor functor_of(std::string_view text) {
  const LambdaName lambda = lambda_name(text);
  if (!lambda.function.name.empty()) {
    return {unqualified(lambda.function.name), lambda.function.arguments, lambda.parameters,
            lambda.path, true};
  }
  const TemplateName name = template_name(text);
  return {unqualified(name.name), name.arguments, {}, {}, false};
}

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
                   State scalars{state};
                   const Value threshold = scalars.next(type), value = scalars.next(type);
                   return lift(
                              type, [](auto a, auto b) { return a <= b; }, x, threshold)
                                  .to_bool()
                              ? value
                              : other;
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
  const auto found = binary_functions().find(functor.key);
  if (found != binary_functions().end()) {
    return Inner{[type, f = found->second.evaluate](const Value& a, const Value& b,
                                                    const std::byte*) { return f(type, a, b); },
                 1, found->second.contrast};
  }
  for (const std::string_view key :
       {"atan2_kernel_cuda", "hypot_kernel_cuda", "copysign_kernel_cuda", "fmax_kernel_cuda",
        "fmin_kernel_cuda"}) {
    if (functor.key == key && is_floating(type)) {
      return Inner{[key](const Value& a, const Value& b, const std::byte*) {
                     return floating_binary(key, a.to_real(), b.to_real());
                   },
                   1, floating_contrast(key)};
    }
  }
  return std::nullopt;
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
      State scalars{state};
      const Value fixed = scalars.next(compute), alpha = scalars.next(compute);
      return on_self ? add_scaled(v[0], fixed, alpha) : add_scaled(fixed, v[0], alpha);
    };
    return f;
  }
  if (functor.key == "CompareFunctor") {
    f.arguments = {*type, *type};
    f.result = ElementType::boolean;
    f.state_bytes = 4;
    f.contrast = Contrast::monotone;
    f.evaluate = [compute](const Value* v, const std::byte* state) {
      const auto op = load(ElementType::int32, state).integer;  // OpType: GE, GT, LE, LT
      return lift(
          compute,
          [op](auto a, auto b) {
            return op == 0 ? a >= b : op == 1 ? a > b : op == 2 ? a <= b : a < b;
          },
          v[0], v[1]);
    };
    return f;
  }
  if (const auto found = unary_functions().find(functor.key); found != unary_functions().end()) {
    f.arguments = {*type};
    f.evaluate = [compute, g = found->second](const Value* v, const std::byte*) {
      return g(compute, v[0]);
    };
    return f;
  }
  return std::nullopt;
}

using Evaluate = std::function<Value(const Value*, const std::byte*)>;

std::optional<ElementwiseFunction> lambda_functor(const Functor& functor) {
  const std::string_view key = functor.key;
  ElementwiseFunction f;
  f.arguments = types(functor.parameters);
  if (f.arguments.size() != functor.parameters.size()) return std::nullopt;
  f.result = f.arguments.empty() ? ElementType::float32 : f.arguments.front();
  const ElementType type = f.result;
  const ElementType compute = compute_type(type);
  const std::size_t scalar = size_of(compute);
  const int number = functor.path.back();
  const auto made = [&](std::size_t state_bytes, Evaluate evaluate,
                        Contrast contrast = Contrast::none) {
    f.state_bytes = state_bytes;
    f.contrast = contrast;
    f.evaluate = std::move(evaluate);
    return f;
  };

  if (f.arguments.size() == 1) {
    const auto copy = [](const Value* v, const std::byte*) { return v[0]; };
    if (key == "direct_copy_kernel_cuda") return made(1, copy);
    if (key == "converting_copy_kernel_cuda") {  // <from, to>
      const auto to = number_type_named(functor.arguments[1]);
      if (!to) return std::nullopt;
      f.result = *to;
      return made(1, copy);
    }
    if (key == "float8_copy_kernel_cuda") {
      // Of one kind of float8 to itself, or to a kind that the name does not tell: which lambda is
      // whose differs between versions (2.12 has fewer of them), so that it is not executed.
      if (size_of(type) == 1) return made(1, copy);
      f.result = ElementType::float8_e4m3;
      return f;
    }
    if (key == "bfloat16_copy_kernel_cuda" || key == "float16_copy_kernel_cuda" ||
        key == "bfloat16tofloat32_copy_kernel_cuda" || key == "float16tofloat32_copy_kernel_cuda") {
      f.result = key.find("tofloat32") != std::string_view::npos ? ElementType::float32
                 : key.starts_with("b")                          ? ElementType::bfloat16
                                                                 : ElementType::float16;
      return made(1, copy);
    }
    if (key == "bitwise_not_kernel_cuda") {
      return made(1, [type](const Value* v, const std::byte*) {
        return type == ElementType::boolean ? Value{!v[0].to_bool()} : Value{~v[0].integer};
      });
    }
    if (key == "signbit_kernel_cuda") {
      f.result = ElementType::boolean;
      return made(1, [](const Value* v, const std::byte*) {
        return Value{v[0].floating ? std::signbit(v[0].real) : v[0].integer < 0};
      });
    }
    if (key == "compare_scalar_kernel") {
      f.result = ElementType::boolean;
      return made(
          closure_bytes({4, size_of(type)}),
          [type, compute](const Value* v, const std::byte* state) {
            State scalars{state};
            const auto op = scalars.next(ElementType::int32).integer;
            const Value other = scalars.next(type);
            return lift(
                compute,
                [op](auto a, auto b) {
                  return op == 0 ? a >= b : op == 1 ? a > b : op == 2 ? a <= b : a < b;
                },
                v[0], other);
          },
          Contrast::monotone);
    }
    if (key == "launch_clamp_scalar") {
      // Captures: which limits there are (min, max, both), the first, the second.
      return made(
          closure_bytes({4, scalar, scalar}),
          [compute](const Value* v, const std::byte* state) {
            State scalars{state};
            const auto limits = scalars.next(ElementType::int32).integer;
            const Value first = scalars.next(compute), second = scalars.next(compute);
            if (v[0].floating && std::isnan(v[0].real)) return v[0];
            const auto max = [](auto a, auto b) { return a > b ? a : b; };
            const auto min = [](auto a, auto b) { return a < b ? a : b; };
            if (limits == 0) return lift(compute, max, v[0], first);
            if (limits == 1) return lift(compute, min, v[0], first);
            return lift(compute, min, lift(compute, max, v[0], first), second);
          },
          Contrast::monotone);
    }
    if (key == "pow_tensor_scalar_kernel_impl") {
      const auto exponent_type =
          functor.arguments.size() == 2 ? number_type_named(functor.arguments[1]) : std::nullopt;
      if (!exponent_type) return std::nullopt;
      // One lambda for each of the exponents 2, 3 and -2, and one for all others.
      if (number <= 3) {
        const double exponent = number == 1 ? 2 : number == 2 ? 3 : -2;
        return made(host_pointer_bytes, [compute, exponent](const Value* v, const std::byte*) {
          const Value square = arithmetic::multiply(compute, v[0], v[0]);
          if (exponent == 2) return square;
          if (exponent == 3) return arithmetic::multiply(compute, square, v[0]);
          return arithmetic::divide(compute, Value{1}, square);
        });
      }
      return made(closure_bytes({size_of(*exponent_type)}),
                  [compute, e = *exponent_type](const Value* v, const std::byte* state) {
                    return arithmetic::power(compute, v[0], load(e, state));
                  });
    }
    if (key == "pow_scalar_tensor_impl") {
      return made(closure_bytes({size_of(type)}),
                  [type, compute](const Value* v, const std::byte* state) {
                    return arithmetic::power(compute, load(type, state), v[0]);
                  });
    }
    if (key == "div_trunc_kernel_cuda" && is_floating(type)) {
      // A divisor from the host is captured as its reciprocal.
      return made(closure_bytes({scalar}), [compute](const Value* v, const std::byte* state) {
        const Value quotient = arithmetic::multiply(compute, v[0], load(compute, state));
        return Value{std::trunc(quotient.real)};
      });
    }
    if (key == "div_floor_kernel_cuda" && is_floating(type)) {
      // Captures: the divisor and its reciprocal.
      return made(closure_bytes({scalar, scalar}),
                  [compute](const Value* v, const std::byte* state) {
                    return arithmetic::floor_divide(compute, v[0], load(compute, state));
                  });
    }
    if (key == "leaky_relu_kernel") {
      return made(closure_bytes({scalar}), [compute](const Value* v, const std::byte* state) {
        return v[0].to_real() > 0 ? v[0]
                                  : arithmetic::multiply(compute, v[0], load(compute, state));
      });
    }
    if (key == "elu_kernel") {
      // Captures: factors of negative and positive values, and of the exponent.
      return made(closure_bytes({scalar, scalar, scalar}),
                  [compute](const Value* v, const std::byte* state) {
                    State scalars{state};
                    const double negative = scalars.next(compute).to_real(),
                                 positive = scalars.next(compute).to_real(),
                                 inner = scalars.next(compute).to_real();
                    const double x = v[0].to_real();
                    return Value{x > 0 ? x * positive : std::expm1(x * inner) * negative};
                  });
    }
    if (key == "softplus_kernel") {
      return made(closure_bytes({scalar, scalar}),
                  [compute](const Value* v, const std::byte* state) {
                    State scalars{state};
                    const double beta = scalars.next(compute).to_real(),
                                 threshold = scalars.next(compute).to_real();
                    const double x = v[0].to_real();
                    return Value{x * beta > threshold ? x : std::log1p(std::exp(x * beta)) / beta};
                  });
    }
    if (key == "GeluCUDAKernelImpl") {
      // The first dispatch is for the tanh approximation.
      const bool tanh = functor.path.front() == 1;
      return made(1, [tanh](const Value* v, const std::byte*) {
        return Value{tanh ? gelu_tanh(v[0].to_real()) : gelu(v[0].to_real())};
      });
    }
    if (key == "nan_to_num_kernel_cuda") {
      // Captures in order of use: for NaN, for inf, for -inf.
      return made(closure_bytes({size_of(type), size_of(type), size_of(type)}),
                  [type](const Value* v, const std::byte* state) {
                    State scalars{state};
                    const Value nan = scalars.next(type), inf = scalars.next(type),
                                minus = scalars.next(type);
                    if (std::isnan(v[0].to_real())) return nan;
                    if (!std::isinf(v[0].to_real())) return v[0];
                    return v[0].real > 0 ? inf : minus;
                  });
    }
    if (const auto function = complex_function(key); function != nullptr && is_complex(type)) {
      return made(1, [function](const Value* v, const std::byte*) {
        return Value{function(v[0].to_complex())};
      });
    }
    if (key == "pow_tensor_scalar_kernel") {  // of complex numbers, by 2 and by others
      if (number == 1) {
        return made(host_pointer_bytes, [compute](const Value* v, const std::byte*) {
          return arithmetic::multiply(compute, v[0], v[0]);
        });
      }
      return made(closure_bytes({size_of(type)}),
                  [type, compute](const Value* v, const std::byte* state) {
                    return arithmetic::power(compute, v[0], load(type, state));
                  });
    }
    if (const auto found = unary_functions().find(key); found != unary_functions().end()) {
      if (key == "logical_not_kernel_cuda") f.result = ElementType::boolean;
      return made(1, [compute, g = found->second](const Value* v, const std::byte*) {
        return g(compute, v[0]);
      });
    }
    if (const auto found = real_functions().find(key);
        found != real_functions().end() && is_floating(type)) {
      return made(1, [g = found->second](const Value* v, const std::byte*) {
        return Value{g(v[0].to_real())};
      });
    }
    return std::nullopt;
  }

  if (f.arguments.size() == 2) {
    if ((key == "complex_kernel_cuda" || key == "polar_kernel_cuda") && is_floating(type)) {
      f.result = complex_of(type);
      if (key == "polar_kernel_cuda") {
        return made(1, [](const Value* v, const std::byte*) {
          const double length = v[0].to_real(), angle = v[1].to_real();
          return Value{std::complex{length * std::cos(angle), length * std::sin(angle)}};
        });
      }
      return made(1, [](const Value* v, const std::byte*) {
        return Value{std::complex{v[0].to_real(), v[1].to_real()}};
      });
    }
    if (key == "masked_fill_kernel") {
      return made(
          closure_bytes({size_of(type)}),
          [type](const Value* v, const std::byte* state) {
            return v[1].to_bool() ? load(type, state) : v[0];
          },
          Contrast::choice);
    }
    if (key == "lerp_scalar_kernel") {
      return made(closure_bytes({scalar}), [compute](const Value* v, const std::byte* state) {
        return arithmetic::lerp(compute, v[0], v[1], load(compute, state));
      });
    }
    if (key == "smooth_l1_kernel_cuda") {
      return made(closure_bytes({size_of(type)}), [type](const Value* v, const std::byte* state) {
        const double beta = load(type, state).to_real();
        const double z = std::fabs(v[0].to_real() - v[1].to_real());
        return Value{z < beta ? 0.5 * z * z / beta : z - 0.5 * beta};
      });
    }
    if (const auto found = binary_functions().find(key); found != binary_functions().end()) {
      return made(
          1,
          [compute, g = found->second.evaluate](const Value* v, const std::byte*) {
            return g(compute, v[0], v[1]);
          },
          found->second.contrast);
    }
    for (const std::string_view name :
         {"atan2_kernel_cuda", "hypot_kernel_cuda", "fmax_kernel_cuda", "fmin_kernel_cuda"}) {
      if (key == name && is_floating(type)) {
        return made(
            1,
            [name](const Value* v, const std::byte*) {
              return floating_binary(name, v[0].to_real(), v[1].to_real());
            },
            floating_contrast(name));
      }
    }
    return std::nullopt;
  }

  if (f.arguments.size() == 3) {
    if (key == "where_kernel_impl") {
      f.result = f.arguments[1];
      return made(
          1, [](const Value* v, const std::byte*) { return v[0].to_bool() ? v[1] : v[2]; },
          Contrast::choice);
    }
    if (key == "clamp_kernel_impl") {
      return made(
          1,
          [compute](const Value* v, const std::byte*) {
            for (int i = 0; i < 3; ++i) {
              if (v[i].floating && std::isnan(v[i].real)) return v[i];
            }
            return lift(
                compute, [](auto a, auto b) { return a < b ? a : b; },
                lift(
                    compute, [](auto a, auto b) { return a > b ? a : b; }, v[0], v[1]),
                v[2]);
          },
          Contrast::monotone);
    }
    if (key == "lerp_tensor_kernel") {
      return made(1, [compute](const Value* v, const std::byte*) {
        return arithmetic::lerp(compute, v[0], v[1], v[2]);
      });
    }
    if (key == "mse_backward_cuda_kernel") {
      return made(
          closure_bytes({size_of(type)}), [type, compute](const Value* v, const std::byte* state) {
            const Value difference = arithmetic::subtract(compute, v[0], v[1]);
            return arithmetic::multiply(
                compute, arithmetic::multiply(compute, load(type, state), difference), v[2]);
          });
    }
    if (key == "addcmul_cuda_kernel" || key == "addcdiv_cuda_kernel") {
      const bool quotient = key == "addcdiv_cuda_kernel";
      return made(
          closure_bytes({scalar}), [compute, quotient](const Value* v, const std::byte* state) {
            const Value alpha = load(compute, state);
            const Value product = quotient ? arithmetic::divide(compute, v[1], v[2])
                                           : arithmetic::multiply(compute, v[1], v[2]);
            return arithmetic::add(compute, v[0], arithmetic::multiply(compute, alpha, product));
          });
    }
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
  auto f = functor.is_lambda ? lambda_functor(functor) : wrapped(functor);
  const bool wraps = f && !functor.is_lambda;
  if (!f && !functor.is_lambda) f = class_functor(functor);
  if (!f) return std::nullopt;
  const bool complex =
      is_complex(f->result) || std::any_of(f->arguments.begin(), f->arguments.end(), is_complex);
  const std::string_view key = wraps ? functor_of(functor.arguments[3]).key : functor.key;
  if (complex && !knows_complex(key)) return std::nullopt;
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
