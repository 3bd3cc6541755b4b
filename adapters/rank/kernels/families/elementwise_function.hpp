#pragma once

#include "rank/kernels/contrast.hpp"
#include "rank/kernels/families/element_type.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace phantora::rank {

/// Of an elementwise kernel at most, its result among them.
inline constexpr std::size_t max_operands = 8;

/// The function that an elementwise kernel applies, read from its functor's name.
struct ElementwiseFunction {
  std::vector<ElementType> arguments;
  ElementType result{};
  std::size_t state_bytes = 1;  ///< size of the functor: an empty class has one byte
  /// @param values  one for each argument.
  /// @param state   the functor's bytes: its scalars.
  /// Empty where only the types are known.
  std::function<Value(const Value* values, const std::byte* state)> evaluate;
  /// How to find out whether the known arguments decide the result alone.
  Contrast contrast = Contrast::none;
  /// Tells whether two numbers are equal (or, if `state` says so, whether they are not), or on
  /// which side of a scalar a number is.
  enum class Compares : std::uint8_t { nothing, equality, order } compares = Compares::nothing;
};

/// @param functor  e.g. "at::native::CUDAFunctor_add<float>" or a lambda's full name.
/// @return nullopt for functors whose meaning is not known here.
std::optional<ElementwiseFunction> elementwise_function(std::string_view functor);

/// Types of a functor's arguments and result as far as its name tells, also when its meaning is not
/// known: for sizes. Empty when they cannot be told.
std::vector<ElementType> functor_types(std::string_view functor);

/// How many operands a functor has, its result among them, also when its meaning is not known.
std::optional<std::size_t> operands_of_functor(std::string_view functor);

}  // namespace phantora::rank
