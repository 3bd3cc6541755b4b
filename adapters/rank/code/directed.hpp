#pragma once

#include <cfenv>
#include <cmath>

/// Floating-point arithmetic in the directions of machine code: to the nearest, down, up, to zero.
namespace phantora::rank::code {

/// Runs `compute` with this direction. Its operands and its result have to be volatile: compilers
/// take arithmetic to be to the nearest, and move it.
template <class Compute>
auto in_direction(unsigned rounding, Compute compute) {
  if (rounding == 0) return compute();
  constexpr int directions[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
  std::fesetround(directions[rounding]);
  const auto result = compute();
  std::fesetround(FE_TONEAREST);
  return result;
}

template <class T>
T directed_sum(T x, T y, unsigned rounding) {
  const volatile T p = x, q = y;
  return in_direction(rounding, [&] {
    const volatile T result = p + q;
    return static_cast<T>(result);
  });
}

template <class T>
T directed_product(T x, T y, unsigned rounding) {
  const volatile T p = x, q = y;
  return in_direction(rounding, [&] {
    const volatile T result = p * q;
    return static_cast<T>(result);
  });
}

template <class T>
T directed_fma(T x, T y, T z, unsigned rounding) {
  const volatile T p = x, q = y, r = z;
  return in_direction(rounding, [&] {
    const volatile T result = std::fma(p, q, r);
    return static_cast<T>(result);
  });
}

/// An integer or a double, as the nearest float or double in that direction.
template <class To, class From>
To directed(From x, unsigned rounding) {
  const volatile From exact = x;
  return in_direction(rounding, [&] {
    const volatile To result = static_cast<To>(exact);
    return static_cast<To>(result);
  });
}

}  // namespace phantora::rank::code
