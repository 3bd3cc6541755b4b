#pragma once

#include "rank/kernels/families/element_type.hpp"

/// Scalar functions as kernels compute them: in the compute type of their arguments; integers wrap.
/// Of complex numbers: add, subtract, multiply, divide, power and negate.
namespace phantora::rank::arithmetic {

/// Lifts a generic lambda over float, double and std::int64_t to Values.
template <class F>
Value lift(ElementType type, F f, const Value& a) {
  return in_compute_type(type, [&](auto zero) { return Value{f(a.as<decltype(zero)>())}; });
}
template <class F>
Value lift(ElementType type, F f, const Value& a, const Value& b) {
  return in_compute_type(type, [&](auto zero) {
    using C = decltype(zero);
    return Value{f(a.as<C>(), b.as<C>())};
  });
}

Value add(ElementType compute, const Value& a, const Value& b);
Value subtract(ElementType compute, const Value& a, const Value& b);
Value multiply(ElementType compute, const Value& a, const Value& b);
Value divide(ElementType compute, const Value& a, const Value& b);
/// Of integers and floats: rounded towards minus infinity.
Value floor_divide(ElementType compute, const Value& a, const Value& b);
/// The remainder of a truncating division.
Value modulo(ElementType compute, const Value& a, const Value& b);
/// The remainder of a floor division.
Value remainder(ElementType compute, const Value& a, const Value& b);
Value power(ElementType compute, const Value& a, const Value& b);
Value reverse_power(ElementType compute, const Value& a, const Value& b);
/// NaN if either is.
Value maximum(ElementType compute, const Value& a, const Value& b);
Value minimum(ElementType compute, const Value& a, const Value& b);
/// a + w (b - a), from the nearer end, as at::native::lerp.
Value lerp(ElementType compute, const Value& a, const Value& b, const Value& w);

Value same(ElementType compute, const Value& a);
Value negate(ElementType compute, const Value& a);
Value absolute(ElementType compute, const Value& a);
Value sign(ElementType compute, const Value& a);

// From floating to floating: evaluated in double and rounded once, which is at least as near to the
// true value as the device's own.
Value sqrt(ElementType compute, const Value& a);
Value rsqrt(ElementType compute, const Value& a);
Value reciprocal(ElementType compute, const Value& a);
Value exp(ElementType compute, const Value& a);
Value log(ElementType compute, const Value& a);
Value tanh(ElementType compute, const Value& a);
Value sigmoid(ElementType compute, const Value& a);
Value floor(ElementType compute, const Value& a);
Value ceil(ElementType compute, const Value& a);
Value round(ElementType compute, const Value& a);
Value trunc(ElementType compute, const Value& a);

}  // namespace phantora::rank::arithmetic
