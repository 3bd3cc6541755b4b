#pragma once

#include "rank/kernels/contrast.hpp"
#include "rank/kernels/families/element_type.hpp"

#include <cstdint>
#include <string_view>

/// Functions of scalars, by the name of PyTorch's functor, or of the function whose lambda it is.
/// Each gives nullptr for names that are not known here.
namespace phantora::rank {

struct BinaryFunction {
  Value (*evaluate)(ElementType compute, const Value& a, const Value& b);
  Contrast contrast = Contrast::none;
};
const BinaryFunction* binary_function(std::string_view name);

/// Of floating types alone, evaluated in double.
struct RealBinaryFunction {
  double (*evaluate)(double a, double b);
  Contrast contrast = Contrast::none;
};
const RealBinaryFunction* real_binary_function(std::string_view name);

using UnaryFunction = Value (*)(ElementType compute, const Value& a);
UnaryFunction unary_function(std::string_view name);

/// Functions from floating to floating: evaluated in double and rounded once, which is at least as
/// near to the true value as the device's own.
using RealFunction = double (*)(double);
RealFunction real_function(std::string_view name);

/// "BitwiseAndFunctor", or of or, else of exclusive or.
Value bitwise(std::string_view name, const Value& a, const Value& b);
Value shift(bool left, ElementType type, const Value& a, const Value& b);
/// @param relation  PyTorch's OpType: at least, greater, at most, less
Value compare(std::int64_t relation, ElementType compute, const Value& a, const Value& b);

}  // namespace phantora::rank
