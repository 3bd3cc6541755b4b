#pragma once

#include "rank/kernels/element_type.hpp"
#include "rank/kernels/kernel_effect.hpp"

/// What a program finds when it tests values that are not computed. Zeros would mean that each
/// check of its own fails ("(value == value).all()", which torch.distributions asks of all that it
/// is given), and that each sequence has ended as soon as a token is compared with zero. So all()
/// holds, any() finds nothing, and an unknown number (a token, an index) equals no other. The
/// report counts what was assumed so (assumed_tests).
namespace phantora::rank {

enum class Test : std::uint8_t { all, any, equal, not_equal };

/// The outcome, as an element of `type`; with --unknown 1, any() finds something.
ElementBytes assumed_outcome(Test test, ElementType type);

/// Whether numbers of the type are compared with others one by one: tokens and indices, not flags
/// and bytes of images.
constexpr bool is_told_apart(ElementType type) noexcept {
  return type == ElementType::int32 || type == ElementType::int64;
}

}  // namespace phantora::rank
