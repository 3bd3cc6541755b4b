#include "kernels/convolution_groups.hpp"

#include <cmath>

namespace phantora::detail {

namespace {

/// Those of 16 bits; others are of TF32.
bool is_half(const Convolution& shape) { return shape.size <= 2.0; }

bool is_strided(const Convolution& shape) { return shape.strides > 1.0; }

bool is_power_of_two(double width) { return std::exp2(std::round(std::log2(width))) == width; }

/// TF32's kernels for several groups tell by the bits of a word which taps lie in the image: of 56
/// calls with more than 32 taps, gradients of filters aside, 54 run apart.
bool is_beyond_masks(std::string_view name, const Convolution& shape) {
  constexpr double bits = 32.0;
  return !is_half(shape) && name != "conv_bwd_filter" && shape.taps > bits;
}

/// Filters that make so many products for each element of the result that few tiles are left.
bool is_long(const Convolution& shape, double width) {
  constexpr double taps = 40.0, products = 2500.0;
  return shape.taps > taps && width * shape.taps > products;
}

/// Of widths that are powers of two: all in one kernel, but where the groups are few and narrow, or
/// the gradient skips pixels.
bool run_apart(std::string_view name, const Convolution& shape, double width) {
  const double groups = shape.groups;
  if (shape.taps <= 1.0) {
    if (!is_half(shape)) return true;
    if (name == "conv_fwd") return width > 8.0;
    return !is_strided(shape) || (name == "conv_bwd_data" && width < 32.0);
  }
  if (name == "conv_fwd") {
    if (!is_half(shape)) return width == 16.0 && groups <= 2.0;
    if (is_long(shape, width) || (width >= 64.0 && shape.taps > 9.0)) return true;
    if (width == 64.0) return groups > 2.0 && shape.images < 16.0;
    return (width == 16.0 && groups <= 4.0) || (width == 32.0 && groups == 4.0);
  }
  if (name == "conv_bwd_data") {
    if (width >= 64.0 && (is_strided(shape) || shape.taps > 25.0)) return true;
    if (!is_half(shape) && shape.taps > 9.0) return true;
    return is_half(shape) && width >= 16.0 && groups <= 2.0;
  }
  if (is_half(shape)) return shape.taps > 9.0 ? groups <= 2.0 : width <= 16.0 && groups <= 4.0;
  return (width <= 16.0 && groups <= 6.0) || (width == 32.0 && groups <= 4.0);
}

/// Of other widths, where the padding adds not too much work, or what would run apart is too
/// little.
bool are_padded(std::string_view name, const Convolution& shape, double width) {
  if (shape.taps <= 1.0) return false;
  const double groups = shape.groups;
  const bool half = is_half(shape);
  if (std::fmod(width * shape.size, 16.0) != 0.0) return half && name != "conv_fwd";
  if (name == "conv_fwd") {
    if (!half) return width < 128.0 && (width > 32.0 || groups >= 4.0);
    if (is_long(shape, width) || (shape.taps > 9.0 && width >= 32.0)) return false;
    if (width < 32.0) return groups >= 5.0;
    if (width < 56.0) return groups >= 8.0;
    return width > 64.0 && width < 256.0;
  }
  if (name == "conv_bwd_data") {
    if (half && width > 32.0 && is_long(shape, width)) return false;
    if (width < 32.0) return !half || groups >= 3.0;
    if (is_strided(shape)) return false;
    if (!half) return width < 128.0;
    if (width < 48.0) return groups >= 4.0;
    if (width < 56.0) return groups > 8.0;
    return width > 64.0 && width < 256.0;
  }
  if (!half) return width < 64.0 && groups >= 4.0;
  if (shape.taps > 9.0 && shape.nchw) return groups > 2.0;
  const double reduced = shape.images * shape.positions;
  if (width < 32.0)
    return groups >= 3.0 && !(is_strided(shape) && groups <= 8.0 && reduced < 7000.0);
  return width < 56.0 && reduced < 4000.0;
}

}  // namespace

Groups run_of_groups(std::string_view name, const Convolution& shape, double width) {
  if (is_beyond_masks(name, shape)) return Groups::apart;
  // Of 16 bits, kernels for several groups make as many channels of each as come in (of 17 calls in
  // data/h200_keys8.csv.gz that make twice as many, by filters of several taps, none is as fast).
  const bool alike = shape.in == shape.out || !is_half(shape) || shape.taps <= 1.0;
  if (is_power_of_two(width) && alike)
    return run_apart(name, shape, width) ? Groups::apart : Groups::together;
  return are_padded(name, shape, width) ? Groups::padded : Groups::apart;
}

bool run_on_plain_units(std::string_view name, const Convolution& shape, double width) {
  if (!is_half(shape) || !shape.nchw || !is_long(shape, width) || width <= 32.0) return false;
  if (name == "conv_fwd") {
    constexpr double products = 4600.0;
    return width * shape.taps >= products && (width < 56.0 || width > 64.0);
  }
  const bool many = shape.groups >= 12.0 && shape.images >= 4.0;
  return name == "conv_bwd_data" && (width > 64.0 || !many);
}

}  // namespace phantora::detail
