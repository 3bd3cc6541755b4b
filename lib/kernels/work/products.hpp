#pragma once

#include "kernels/work/reading.hpp"

namespace phantora::detail {

/// What tells products of one arithmetic apart, beside their sizes and bytes.
struct ProductLayout {
  double alignment = 16.0;  ///< of the operands' rows in bytes, at most 16
  bool transposed_a = false, transposed_b = false;
  bool epilogue = false;
};

/// Completes a product whose sizes, arithmetic and bytes are set.
void place_product(KernelWork& work, const ProductLayout& layout);

}  // namespace phantora::detail
