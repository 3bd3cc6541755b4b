#include "rank/kernels/families/lambda_function.hpp"

#include "rank/kernels/families/arithmetic.hpp"
#include "rank/kernels/families/complex_function.hpp"
#include "rank/kernels/families/named_functions.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <unordered_map>
#include <utility>

namespace phantora::rank {

namespace {

using Evaluate = std::function<Value(const Value*, const std::byte*)>;

/// A lambda whose arguments are numbers.
struct Lambda {
  const Functor& functor;
  ElementwiseFunction types;  ///< arguments, and a result of the first one's type
  ElementType type = types.result;
  ElementType compute = compute_type(type);
  std::size_t scalar = size_of(compute);

  /// Which of the lambdas in its function, from 1.
  [[nodiscard]] int number() const { return functor.path.back(); }
  [[nodiscard]] ElementwiseFunction made(std::size_t state_bytes, Evaluate evaluate,
                                         Contrast contrast = Contrast::none) const {
    ElementwiseFunction f = types;
    f.state_bytes = state_bytes;
    f.contrast = contrast;
    f.evaluate = std::move(evaluate);
    return f;
  }
};

using Made = std::optional<ElementwiseFunction>;
using Maker = Made (*)(const Lambda&);

ElementwiseFunction giving(ElementType result, ElementwiseFunction f) {
  f.result = result;
  return f;
}

/// The complex type whose parts are of `part`.
ElementType complex_of(ElementType part) {
  return part == ElementType::float16   ? ElementType::complex32
         : part == ElementType::float32 ? ElementType::complex64
                                        : ElementType::complex128;
}

Value max(ElementType compute, const Value& a, const Value& b) {
  return arithmetic::lift(
      compute, [](auto x, auto y) { return x > y ? x : y; }, a, b);
}
Value min(ElementType compute, const Value& a, const Value& b) {
  return arithmetic::lift(
      compute, [](auto x, auto y) { return x < y ? x : y; }, a, b);
}

// --- Copies

Made copy(const Lambda& l) {
  return l.made(1, [](const Value* v, const std::byte*) { return v[0]; });
}
Made converting_copy(const Lambda& l) {  // <from, to>
  const auto to = number_type_named(l.functor.arguments[1]);
  if (!to) return std::nullopt;
  return giving(*to, *copy(l));
}
Made float8_copy(const Lambda& l) {
  // Of one kind of float8 to itself, or to a kind that the name does not tell: which lambda is
  // whose differs between versions (2.12 has fewer of them), so that it is not executed.
  if (size_of(l.type) == 1) return copy(l);
  return giving(ElementType::float8_e4m3, l.types);
}
Made float32_copy(const Lambda& l) { return giving(ElementType::float32, *copy(l)); }
Made float16_copy(const Lambda& l) { return giving(ElementType::float16, *copy(l)); }
Made bfloat16_copy(const Lambda& l) { return giving(ElementType::bfloat16, *copy(l)); }

// --- Of one argument

Made bitwise_not(const Lambda& l) {
  return l.made(1, [type = l.type](const Value* v, const std::byte*) {
    return type == ElementType::boolean ? Value{!v[0].to_bool()} : Value{~v[0].integer};
  });
}
Made sign_bit(const Lambda& l) {
  return giving(ElementType::boolean, l.made(1, [](const Value* v, const std::byte*) {
    return Value{v[0].floating ? std::signbit(v[0].real) : v[0].integer < 0};
  }));
}
Made compare_scalar(const Lambda& l) {
  const auto evaluate = [type = l.type, compute = l.compute](const Value* v,
                                                             const std::byte* state) {
    FunctorScalars scalars{state};
    const auto relation = scalars.next(ElementType::int32).integer;
    return compare(relation, compute, v[0], scalars.next(type));
  };
  return giving(ElementType::boolean,
                l.made(closure_bytes({4, size_of(l.type)}), evaluate, Contrast::order));
}
Made clamp_scalar(const Lambda& l) {
  // Captures: which limits there are (min, max, both), the first, the second.
  const auto evaluate = [compute = l.compute](const Value* v, const std::byte* state) {
    FunctorScalars scalars{state};
    const auto limits = scalars.next(ElementType::int32).integer;
    const Value first = scalars.next(compute), second = scalars.next(compute);
    if (v[0].floating && std::isnan(v[0].real)) return v[0];
    if (limits == 0) return max(compute, v[0], first);
    if (limits == 1) return min(compute, v[0], first);
    return min(compute, max(compute, v[0], first), second);
  };
  return l.made(closure_bytes({4, l.scalar, l.scalar}), evaluate, Contrast::monotone);
}

Made squared(const Lambda& l) {
  return l.made(host_pointer_bytes, [compute = l.compute](const Value* v, const std::byte*) {
    return arithmetic::multiply(compute, v[0], v[0]);
  });
}
Made to_captured_power(const Lambda& l, ElementType exponent) {
  return l.made(closure_bytes({size_of(exponent)}),
                [compute = l.compute, exponent](const Value* v, const std::byte* state) {
                  return arithmetic::power(compute, v[0], load(exponent, state));
                });
}
Made power_of_tensor(const Lambda& l) {
  if (l.functor.arguments.size() != 2) return std::nullopt;
  const auto exponent = number_type_named(l.functor.arguments[1]);
  if (!exponent) return std::nullopt;
  // One lambda for each of the exponents 2, 3 and -2, and one for all others.
  if (l.number() == 1) return squared(l);
  if (l.number() > 3) return to_captured_power(l, *exponent);
  return l.made(host_pointer_bytes,
                [compute = l.compute, cube = l.number() == 2](const Value* v, const std::byte*) {
                  const Value square = arithmetic::multiply(compute, v[0], v[0]);
                  return cube ? arithmetic::multiply(compute, square, v[0])
                              : arithmetic::divide(compute, Value{1}, square);
                });
}
Made power_of_complex_tensor(const Lambda& l) {  // by 2 and by others
  return l.number() == 1 ? squared(l) : to_captured_power(l, l.type);
}
Made power_of_scalar(const Lambda& l) {
  return l.made(closure_bytes({size_of(l.type)}),
                [type = l.type, compute = l.compute](const Value* v, const std::byte* state) {
                  return arithmetic::power(compute, load(type, state), v[0]);
                });
}

Made divide_truncating(const Lambda& l) {
  if (!is_floating(l.type)) return std::nullopt;
  // A divisor from the host is captured as its reciprocal.
  return l.made(closure_bytes({l.scalar}),
                [compute = l.compute](const Value* v, const std::byte* state) {
                  const Value quotient = arithmetic::multiply(compute, v[0], load(compute, state));
                  return Value{std::trunc(quotient.real)};
                });
}
Made divide_flooring(const Lambda& l) {
  if (!is_floating(l.type)) return std::nullopt;
  // Captures: the divisor and its reciprocal.
  return l.made(closure_bytes({l.scalar, l.scalar}),
                [compute = l.compute](const Value* v, const std::byte* state) {
                  return arithmetic::floor_divide(compute, v[0], load(compute, state));
                });
}

Made leaky_relu(const Lambda& l) {
  return l.made(closure_bytes({l.scalar}), [compute = l.compute](const Value* v,
                                                                 const std::byte* state) {
    return v[0].to_real() > 0 ? v[0] : arithmetic::multiply(compute, v[0], load(compute, state));
  });
}
Made elu(const Lambda& l) {
  // Captures: factors of negative and positive values, and of the exponent.
  return l.made(closure_bytes({l.scalar, l.scalar, l.scalar}),
                [compute = l.compute](const Value* v, const std::byte* state) {
                  FunctorScalars scalars{state};
                  const double negative = scalars.next(compute).to_real(),
                               positive = scalars.next(compute).to_real(),
                               inner = scalars.next(compute).to_real();
                  const double x = v[0].to_real();
                  return Value{x > 0 ? x * positive : std::expm1(x * inner) * negative};
                });
}
Made softplus(const Lambda& l) {
  return l.made(closure_bytes({l.scalar, l.scalar}),
                [compute = l.compute](const Value* v, const std::byte* state) {
                  FunctorScalars scalars{state};
                  const double beta = scalars.next(compute).to_real(),
                               threshold = scalars.next(compute).to_real();
                  const double x = v[0].to_real();
                  return Value{x * beta > threshold ? x : std::log1p(std::exp(x * beta)) / beta};
                });
}
double gelu(double x) { return x * 0.5 * (1.0 + std::erf(x * M_SQRT1_2)); }
double gelu_tanh(double x) {
  return 0.5 * x * (1.0 + std::tanh(M_SQRT2 * M_2_SQRTPI * 0.5 * (x + 0.044715 * x * x * x)));
}
Made gelu_of_either_kind(const Lambda& l) {
  // The first dispatch is for the tanh approximation.
  return l.made(1, [f = l.functor.path.front() == 1 ? gelu_tanh : gelu](
                       const Value* v, const std::byte*) { return Value{f(v[0].to_real())}; });
}
Made nan_to_num(const Lambda& l) {
  // Captures in order of use: for NaN, for inf, for -inf.
  return l.made(closure_bytes({size_of(l.type), size_of(l.type), size_of(l.type)}),
                [type = l.type](const Value* v, const std::byte* state) {
                  FunctorScalars scalars{state};
                  const Value nan = scalars.next(type), inf = scalars.next(type),
                              minus = scalars.next(type);
                  if (std::isnan(v[0].to_real())) return nan;
                  if (!std::isinf(v[0].to_real())) return v[0];
                  return v[0].real > 0 ? inf : minus;
                });
}

/// A function that has a name, and no scalars.
Made named_unary(const Lambda& l) {
  const std::string_view key = l.functor.key;
  if (const auto f = complex_function(key); f != nullptr && is_complex(l.type)) {
    return l.made(1, [f](const Value* v, const std::byte*) { return Value{f(v[0].to_complex())}; });
  }
  if (const auto f = unary_function(key)) {
    auto made = l.made(
        1, [compute = l.compute, f](const Value* v, const std::byte*) { return f(compute, v[0]); });
    if (key == "logical_not_kernel_cuda") made.result = ElementType::boolean;
    return made;
  }
  if (const auto f = real_function(key); f != nullptr && is_floating(l.type)) {
    return l.made(1, [f](const Value* v, const std::byte*) { return Value{f(v[0].to_real())}; });
  }
  return std::nullopt;
}

// --- Of two arguments

Made complex_of_parts(const Lambda& l) {
  if (!is_floating(l.type)) return std::nullopt;
  return giving(complex_of(l.type), l.made(1, [](const Value* v, const std::byte*) {
    return Value{std::complex{v[0].to_real(), v[1].to_real()}};
  }));
}
Made complex_of_polar(const Lambda& l) {
  if (!is_floating(l.type)) return std::nullopt;
  return giving(complex_of(l.type), l.made(1, [](const Value* v, const std::byte*) {
    const double length = v[0].to_real(), angle = v[1].to_real();
    return Value{std::complex{length * std::cos(angle), length * std::sin(angle)}};
  }));
}
Made masked_fill(const Lambda& l) {
  return l.made(
      closure_bytes({size_of(l.type)}),
      [type = l.type](const Value* v, const std::byte* state) {
        return v[1].to_bool() ? load(type, state) : v[0];
      },
      Contrast::choice);
}
Made lerp_by_scalar(const Lambda& l) {
  return l.made(closure_bytes({l.scalar}),
                [compute = l.compute](const Value* v, const std::byte* state) {
                  return arithmetic::lerp(compute, v[0], v[1], load(compute, state));
                });
}
Made smooth_l1(const Lambda& l) {
  return l.made(closure_bytes({size_of(l.type)}),
                [type = l.type](const Value* v, const std::byte* state) {
                  const double beta = load(type, state).to_real();
                  const double z = std::fabs(v[0].to_real() - v[1].to_real());
                  return Value{z < beta ? 0.5 * z * z / beta : z - 0.5 * beta};
                });
}

Made named_binary(const Lambda& l) {
  if (const BinaryFunction* const f = binary_function(l.functor.key)) {
    return l.made(
        1,
        [compute = l.compute, g = f->evaluate](const Value* v, const std::byte*) {
          return g(compute, v[0], v[1]);
        },
        f->contrast);
  }
  const RealBinaryFunction* const f = real_binary_function(l.functor.key);
  if (f == nullptr || !is_floating(l.type)) return std::nullopt;
  return l.made(
      1,
      [g = f->evaluate](const Value* v, const std::byte*) {
        return Value{g(v[0].to_real(), v[1].to_real())};
      },
      f->contrast);
}

// --- Of three arguments

Made where(const Lambda& l) {
  return giving(
      l.types.arguments[1],
      l.made(
          1, [](const Value* v, const std::byte*) { return v[0].to_bool() ? v[1] : v[2]; },
          Contrast::choice));
}
Made clamp(const Lambda& l) {
  return l.made(
      1,
      [compute = l.compute](const Value* v, const std::byte*) {
        for (int i = 0; i < 3; ++i) {
          if (v[i].floating && std::isnan(v[i].real)) return v[i];
        }
        return min(compute, max(compute, v[0], v[1]), v[2]);
      },
      Contrast::monotone);
}
Made lerp_by_tensor(const Lambda& l) {
  return l.made(1, [compute = l.compute](const Value* v, const std::byte*) {
    return arithmetic::lerp(compute, v[0], v[1], v[2]);
  });
}
Made mse_backward(const Lambda& l) {
  return l.made(closure_bytes({size_of(l.type)}),
                [type = l.type, compute = l.compute](const Value* v, const std::byte* state) {
                  const Value difference = arithmetic::subtract(compute, v[0], v[1]);
                  return arithmetic::multiply(
                      compute, arithmetic::multiply(compute, load(type, state), difference), v[2]);
                });
}
template <Value (*combine)(ElementType, const Value&, const Value&)>
Made add_combined(const Lambda& l) {
  return l.made(
      closure_bytes({l.scalar}), [compute = l.compute](const Value* v, const std::byte* state) {
        const Value alpha = load(compute, state);
        const Value combined = combine(compute, v[1], v[2]);
        return arithmetic::add(compute, v[0], arithmetic::multiply(compute, alpha, combined));
      });
}

/// (value, whether it is replaced, place in the source), which is behind a captured pointer: not
/// computed.
Made masked_scatter(const Lambda& l) { return l.made(host_pointer_bytes, {}); }

struct Makers {
  std::unordered_map<std::string_view, Maker> by_name;
  Maker other = [](const Lambda&) -> Made { return std::nullopt; };
};

/// By the number of arguments, from 1.
const std::vector<Makers>& makers() {
  static const auto* const table =
      new std::vector<Makers>{{{{"direct_copy_kernel_cuda", copy},
                                {"converting_copy_kernel_cuda", converting_copy},
                                {"float8_copy_kernel_cuda", float8_copy},
                                {"float16_copy_kernel_cuda", float16_copy},
                                {"bfloat16_copy_kernel_cuda", bfloat16_copy},
                                {"float16tofloat32_copy_kernel_cuda", float32_copy},
                                {"bfloat16tofloat32_copy_kernel_cuda", float32_copy},
                                {"bitwise_not_kernel_cuda", bitwise_not},
                                {"signbit_kernel_cuda", sign_bit},
                                {"compare_scalar_kernel", compare_scalar},
                                {"launch_clamp_scalar", clamp_scalar},
                                {"pow_tensor_scalar_kernel_impl", power_of_tensor},
                                {"pow_tensor_scalar_kernel", power_of_complex_tensor},
                                {"pow_scalar_tensor_impl", power_of_scalar},
                                {"div_trunc_kernel_cuda", divide_truncating},
                                {"div_floor_kernel_cuda", divide_flooring},
                                {"leaky_relu_kernel", leaky_relu},
                                {"elu_kernel", elu},
                                {"softplus_kernel", softplus},
                                {"GeluCUDAKernelImpl", gelu_of_either_kind},
                                {"nan_to_num_kernel_cuda", nan_to_num}},
                               named_unary},
                              {{{"complex_kernel_cuda", complex_of_parts},
                                {"polar_kernel_cuda", complex_of_polar},
                                {"masked_fill_kernel", masked_fill},
                                {"lerp_scalar_kernel", lerp_by_scalar},
                                {"smooth_l1_kernel_cuda", smooth_l1}},
                               named_binary},
                              {{{"where_kernel_impl", where},
                                {"launch_masked_scatter_kernel", masked_scatter},
                                {"clamp_kernel_impl", clamp},
                                {"lerp_tensor_kernel", lerp_by_tensor},
                                {"mse_backward_cuda_kernel", mse_backward},
                                {"addcmul_cuda_kernel", add_combined<arithmetic::multiply>},
                                {"addcdiv_cuda_kernel", add_combined<arithmetic::divide>}}}};
  return *table;
}

}  // namespace

std::optional<ElementwiseFunction> lambda_function(const Functor& lambda) {
  ElementwiseFunction f;
  for (const auto name : lambda.parameters) {
    const auto type = number_type_named(name);
    if (!type) return std::nullopt;
    f.arguments.push_back(*type);
  }
  const std::size_t count = f.arguments.size();
  if (count < 1 || count > makers().size()) return std::nullopt;
  f.result = f.arguments.front();
  const Makers& of_count = makers()[count - 1];
  const auto found = of_count.by_name.find(lambda.key);
  const Maker maker = found == of_count.by_name.end() ? of_count.other : found->second;
  return maker({lambda, std::move(f)});
}

}  // namespace phantora::rank
