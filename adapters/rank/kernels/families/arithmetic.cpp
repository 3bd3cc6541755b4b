#include "rank/kernels/families/arithmetic.hpp"

#include <cmath>
#include <complex>
#include <type_traits>

namespace phantora::rank::arithmetic {

namespace {

template <class C>
constexpr bool floating = std::is_floating_point_v<C>;
template <class C>
constexpr bool complex = false;
template <class R>
constexpr bool complex<std::complex<R>> = true;

/// Of complex types too.
template <class F>
Value lift_number(ElementType type, F f, const Value& a, const Value& b) {
  return in_number_type(type, [&](auto zero) {
    using C = decltype(zero);
    return Value{f(a.as<C>(), b.as<C>())};
  });
}

// Integer arithmetic wraps, as on the device.
template <class C>
C add_of(C a, C b) {
  if constexpr (floating<C> || complex<C>) {
    return a + b;
  } else {
    return static_cast<C>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }
}
template <class C>
C subtract_of(C a, C b) {
  if constexpr (floating<C> || complex<C>) {
    return a - b;
  } else {
    return static_cast<C>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
  }
}
template <class C>
C multiply_of(C a, C b) {
  if constexpr (floating<C>) {
    return a * b;
  } else if constexpr (complex<C>) {
    // Without the standard's care for infinite parts, as c10::complex.
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  } else {
    return static_cast<C>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  }
}
template <class C>
C divide_of(C a, C b) {
  if constexpr (floating<C>) {
    return a / b;
  } else if constexpr (complex<C>) {
    // Scaled by the divisor's larger part, as c10::complex does (R. Smith's way).
    const auto c = b.real(), d = b.imag();
    if (c == 0 && d == 0) return {a.real() / std::fabs(c), a.imag() / std::fabs(d)};
    if (std::fabs(c) >= std::fabs(d)) {
      const auto ratio = d / c, scale = 1 / (c + d * ratio);
      return {(a.real() + a.imag() * ratio) * scale, (a.imag() - a.real() * ratio) * scale};
    }
    const auto ratio = c / d, scale = 1 / (c * ratio + d);
    return {(a.real() * ratio + a.imag()) * scale, (a.imag() * ratio - a.real()) * scale};
  } else {
    // The device gives all ones for x / 0 and wraps for the least integer / -1.
    if (b == 0) return -1;
    if (b == -1) return subtract_of(C{0}, a);
    return a / b;
  }
}
template <class C>
C modulo_of(C a, C b) {
  if constexpr (floating<C>) {
    return std::fmod(a, b);
  } else {
    if (b == 0) return a;
    return b == -1 ? 0 : a % b;
  }
}
template <class C>
C remainder_of(C a, C b) {
  C r = modulo_of(a, b);
  if (r != 0 && ((r < 0) != (b < 0))) r = add_of(r, b);
  return r;
}
template <class C>
C floor_divide_of(C a, C b) {
  if constexpr (floating<C>) {
    if (b == 0) return a / b;
    const C r = std::fmod(a, b);
    C q = (a - r) / b;
    if (r != 0 && ((b < 0) != (r < 0))) q -= 1;
    if (q == 0) return std::copysign(C{0}, a / b);
    const C floor = std::floor(q);
    return q - floor > C(0.5) ? floor + 1 : floor;
  } else {
    if (b == 0) return -1;
    const C q = divide_of(a, b);
    return modulo_of(a, b) != 0 && ((a < 0) != (b < 0)) ? q - 1 : q;
  }
}
template <class C>
C power_of(C a, C b) {
  if constexpr (floating<C> || complex<C>) {
    return std::pow(a, b);
  } else {
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
    C result = 1;
    for (C base = a; b != 0; b >>= 1, base = multiply_of(base, base)) {
      if ((b & 1) != 0) result = multiply_of(result, base);
    }
    return result;
  }
}
template <class C>
C maximum_of(C a, C b) {  // propagates NaN
  return a != a || a > b ? a : b;
}
template <class C>
C minimum_of(C a, C b) {
  return a != a || a < b ? a : b;
}
template <class C>
C sign_of(C a) {
  return static_cast<C>((a > 0) - (a < 0));
}

}  // namespace

#define PHANTORA_BINARY(name, lifted)                                   \
  Value name(ElementType compute, const Value& a, const Value& b) {     \
    return lifted(                                                      \
        compute, [](auto x, auto y) { return name##_of(x, y); }, a, b); \
  }
PHANTORA_BINARY(add, lift_number)
PHANTORA_BINARY(subtract, lift_number)
PHANTORA_BINARY(multiply, lift_number)
PHANTORA_BINARY(divide, lift_number)
PHANTORA_BINARY(power, lift_number)
PHANTORA_BINARY(floor_divide, lift)
PHANTORA_BINARY(modulo, lift)
PHANTORA_BINARY(remainder, lift)
PHANTORA_BINARY(maximum, lift)
PHANTORA_BINARY(minimum, lift)
#undef PHANTORA_BINARY

Value reverse_power(ElementType compute, const Value& a, const Value& b) {
  return power(compute, b, a);
}

Value lerp(ElementType compute, const Value& a, const Value& b, const Value& w) {
  return in_compute_type(compute, [&](auto zero) {
    using C = decltype(zero);
    const C from = a.as<C>(), to = b.as<C>(), weight = w.as<C>();
    const bool near = std::fabs(static_cast<double>(weight)) < 0.5;
    return Value{near ? from + weight * (to - from) : to - (to - from) * (C{1} - weight)};
  });
}

Value same(ElementType, const Value& a) { return a; }
Value negate(ElementType compute, const Value& a) { return subtract(compute, Value{0}, a); }
Value absolute(ElementType compute, const Value& a) {
  if (a.floating) return std::fabs(a.real);
  return a.integer < 0 ? negate(compute, a) : a;
}
Value sign(ElementType compute, const Value& a) {
  return lift(
      compute, [](auto x) { return sign_of(x); }, a);
}

Value sqrt(ElementType, const Value& a) { return std::sqrt(a.to_real()); }
Value rsqrt(ElementType, const Value& a) { return 1.0 / std::sqrt(a.to_real()); }
Value reciprocal(ElementType, const Value& a) { return 1.0 / a.to_real(); }
Value exp(ElementType, const Value& a) { return std::exp(a.to_real()); }
Value log(ElementType, const Value& a) { return std::log(a.to_real()); }
Value tanh(ElementType, const Value& a) { return std::tanh(a.to_real()); }
Value sigmoid(ElementType, const Value& a) { return 1.0 / (1.0 + std::exp(-a.to_real())); }
Value floor(ElementType, const Value& a) { return std::floor(a.to_real()); }
Value ceil(ElementType, const Value& a) { return std::ceil(a.to_real()); }
Value round(ElementType, const Value& a) { return std::nearbyint(a.to_real()); }
Value trunc(ElementType, const Value& a) { return std::trunc(a.to_real()); }

}  // namespace phantora::rank::arithmetic
