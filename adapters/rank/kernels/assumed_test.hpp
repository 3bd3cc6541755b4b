#pragma once

#include "rank/kernels/families/element_type.hpp"
#include "rank/kernels/kernel_effect.hpp"

/// What a program finds when it tests values that are not computed. Zeros would mean that each
/// check of its own fails ("(value == value).all()", which torch.distributions asks of all that it
/// is given), that each sequence has ended as soon as a token is compared with zero, and that each
/// loss is NaN ("isfinite(loss)"). So all() holds, any() finds nothing, an unknown integer (a
/// token, an index) equals no other and is on the side of a bound on which 0 and 1 both are, and an
/// unknown float is neither NaN nor infinite. The report counts what was assumed so
/// (assumed_tests).
namespace phantora::rank {

enum class Test : std::uint8_t { holds, fails, finds };

/// The outcome, as an element of `type`; with --unknown 1, what is looked for is found.
ElementBytes assumed_outcome(Test test, ElementType type);

/// Whether numbers of the type are compared with others one by one: tokens and indices, not flags
/// and bytes of images.
constexpr bool is_told_apart(ElementType type) noexcept {
  return type == ElementType::int32 || type == ElementType::int64;
}

}  // namespace phantora::rank
