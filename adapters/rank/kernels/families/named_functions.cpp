#include "rank/kernels/families/named_functions.hpp"

#include "rank/kernels/families/arithmetic.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <unordered_map>

namespace phantora::rank {

namespace {

template <class T>
const T* entry(const std::unordered_map<std::string_view, T>& table, std::string_view name) {
  const auto found = table.find(name);
  return found == table.end() ? nullptr : &found->second;
}

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

Value logical_not(ElementType, const Value& a) { return !a.to_bool(); }

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double frac(double x) { return x - std::trunc(x); }
double rsqrt(double x) { return 1.0 / std::sqrt(x); }
double reciprocal(double x) { return 1.0 / x; }
double silu(double x) { return x / (1.0 + std::exp(-x)); }
double mish(double x) { return x * std::tanh(std::log1p(std::exp(x))); }
double log_sigmoid(double x) { return std::min(0.0, x) - std::log1p(std::exp(-std::fabs(x))); }
double hardswish(double x) { return x * std::min(std::max(x + 3.0, 0.0), 6.0) / 6.0; }
double hardsigmoid(double x) { return std::min(std::max(x + 3.0, 0.0), 6.0) / 6.0; }

}  // namespace

const BinaryFunction* binary_function(std::string_view name) {
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
  return entry(*table, name);
}

const RealBinaryFunction* real_binary_function(std::string_view name) {
#define PHANTORA_STD(function) [](double a, double b) -> double { return std::function(a, b); }
  static const auto* const table = new std::unordered_map<std::string_view, RealBinaryFunction>{
      {"atan2_kernel_cuda", {PHANTORA_STD(atan2)}},
      {"hypot_kernel_cuda", {PHANTORA_STD(hypot)}},
      {"copysign_kernel_cuda", {PHANTORA_STD(copysign)}},
      {"fmax_kernel_cuda", {PHANTORA_STD(fmax), Contrast::monotone}},
      {"fmin_kernel_cuda", {PHANTORA_STD(fmin), Contrast::monotone}},
  };
#undef PHANTORA_STD
  return entry(*table, name);
}

UnaryFunction unary_function(std::string_view name) {
  static const auto* const table = new std::unordered_map<std::string_view, UnaryFunction>{
      {"neg_kernel_cuda", arithmetic::negate},
      {"AbsFunctor", arithmetic::absolute},
      {"sign_kernel_cuda", arithmetic::sign},
      {"logical_not_kernel_cuda", logical_not},
  };
  const UnaryFunction* const found = entry(*table, name);
  return found == nullptr ? nullptr : *found;
}

RealFunction real_function(std::string_view name) {
#define PHANTORA_STD(function) [](double x) -> double { return std::function(x); }
  static const auto* const table = new std::unordered_map<std::string_view, RealFunction>{
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
  const RealFunction* const found = entry(*table, name);
  return found == nullptr ? nullptr : *found;
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

Value compare(std::int64_t relation, ElementType compute, const Value& a, const Value& b) {
  return arithmetic::lift(
      compute,
      [relation](auto x, auto y) {
        return relation == 0 ? x >= y : relation == 1 ? x > y : relation == 2 ? x <= y : x < y;
      },
      a, b);
}

}  // namespace phantora::rank
