#pragma once

#include "rank/element_type.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

/// A result can be known though some of what it is computed from is not: true OR unknown is true.
///
/// It is, if no value of the unknown ones changes it. That is found by trying: contrasting values
/// are put in their place, and where all give the same the result is decided. Which values are
/// enough depends on the function; for each class below they prove it for every function of that
/// class, so nothing is ever decided that some value could change. The one exception is chosen:
/// infinities and NaN are not tried in products, so that 0 times unknown is 0, because programs
/// multiply by 0 to mask.
namespace phantora::rank {

enum class Contrast : std::uint8_t {
  none,      ///< of no class below: every argument matters
  choice,    ///< hands arguments on and tests conditions for zero (where, logic): 0 and 1
  bits,      ///< every bit by itself: all zeros, all ones
  product,   ///< -1, 0 and 1
  monotone,  ///< in each argument, but for NaN (min, max, clamp, <): both extremes and NaN
  equality   ///< ==: extremes, NaN, and the values that are known
};

/// What to put in the place of an unknown value of `type` beside these known ones.
std::vector<Value> contrasting(Contrast contrast, ElementType type,
                               std::span<const std::optional<Value>> beside);

/// Equal as results: NaN is equal to NaN.
bool same_result(const Value& a, const Value& b) noexcept;

/// `function` of `arguments`, of which some are unknown; nullopt if that is not decided.
std::optional<Value> decided(Contrast contrast, std::span<const ElementType> types,
                             std::span<const std::optional<Value>> arguments,
                             const std::function<Value(const Value*)>& function);

}  // namespace phantora::rank
