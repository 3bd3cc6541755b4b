#pragma once

#include "rank/kernels/families/element_type.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

/// A result can be known though some of what it is computed from is not: true OR unknown is true.
///
/// It is, if no value of the unknown ones changes it. That is found by trying: contrasting values
/// are put in their place, and where all give the same the result is decided. Which values are
/// enough depends on the function; for each class below they prove it for every function of that
/// class, so nothing is ever decided that some value could change. Two exceptions are chosen.
/// Infinities and NaN are not tried in products, so that 0 times unknown is 0, because programs
/// multiply by 0 to mask. Of floats that are compared (<, >=) only what 16 bits hold is tried: the
/// -1e9 that programs put in the place of what is masked, or not there yet, is less than any score.
namespace phantora::rank {

enum class Contrast : std::uint8_t {
  none,      ///< of no class below: every argument matters
  choice,    ///< hands arguments on and tests conditions for zero (where, logic): 0 and 1
  bits,      ///< every bit by itself: all zeros, all ones
  product,   ///< -1, 0 and 1
  monotone,  ///< in each argument, but for NaN (min, max, clamp): both extremes and NaN
  order,     ///< <, >=: both extremes, of floats those of fp16
  equality   ///< ==: extremes, NaN, and the values that are known
};

/// What to put in the place of an unknown value of `type` beside these known ones.
std::vector<Value> contrasting(Contrast contrast, ElementType type,
                               std::span<const std::optional<Value>> beside);

/// Equal as results: NaN is equal to NaN.
bool same_result(const Value& a, const Value& b) noexcept;

/// Decides results of one function, element by element. Most elements with an unknown argument are
/// undecided, and a kernel has up to 10^5: it allocates nothing for each.
class Decider {
 public:
  Decider(Contrast contrast, std::span<const ElementType> types);

  /// `function(const Value*)` of `arguments`, of which some are unknown; nullopt if that is not
  /// decided.
  template <class F>
  std::optional<Value> operator()(std::span<const std::optional<Value>> arguments, F function) {
    if (contrast_ == Contrast::none) return std::nullopt;
    for (std::size_t a = 0; a < arguments.size(); ++a) {
      if (arguments[a]) {
        values_[a] = *arguments[a];
        counts_[a] = 1;
        continue;
      }
      if (contrast_ == Contrast::equality) tries_[a] = contrasting(contrast_, types_[a], arguments);
      values_[a] = tries_[a].front();
      counts_[a] = tries_[a].size();
    }
    const Value first = function(static_cast<const Value*>(values_.data()));
    // Every combination, like an odometer; most undecided results show it at the second.
    std::fill(at_.begin(), at_.end(), 0);
    for (std::size_t a = 0; a < arguments.size();) {
      if (++at_[a] == counts_[a]) {
        at_[a] = 0;
        if (!arguments[a]) values_[a] = tries_[a].front();
        ++a;
        continue;
      }
      values_[a] = tries_[a][at_[a]];
      if (!same_result(function(static_cast<const Value*>(values_.data())), first)) {
        return std::nullopt;
      }
      a = 0;
    }
    return first;
  }

 private:
  Contrast contrast_;
  std::vector<ElementType> types_;
  std::vector<std::vector<Value>> tries_;  ///< of each argument
  std::vector<Value> values_;
  std::vector<std::size_t> counts_, at_;
};

}  // namespace phantora::rank
