#include "kernels/convolution_groups.hpp"
#include "kernels/library_operations.hpp"
#include "kernels/round_trips.hpp"

#include <phantora/kernels/kernel_signature.hpp>
#include <phantora/kernels/kernel_work.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

namespace phantora {

namespace {

using detail::Convolution;
using detail::Groups;
using detail::l2_trip_seconds;
using detail::round_trip_seconds;

double feature(const KernelQuery& query, std::string_view key, double otherwise) {
  const auto found = query.features.find(key);
  return found != query.features.end() && found->second > 0.0 ? found->second : otherwise;
}

std::string_view attribute(const KernelQuery& query, std::string_view key,
                           std::string_view otherwise) {
  const auto found = query.attributes.find(key);
  return found != query.attributes.end() ? std::string_view{found->second} : otherwise;
}

double type_bytes(std::string_view type) {
  if (type.starts_with("fp8") || type == "int8" || type == "bool") return 1.0;
  if (type == "bf16" || type == "fp16") return 2.0;
  if (type == "fp64") return 8.0;
  return 4.0;
}

Arithmetic arithmetic_of(std::string_view type, std::string_view compute) {
  if (type.starts_with("fp8")) return Arithmetic::fp8;
  if (type == "bf16" || type == "fp16") return Arithmetic::half;
  if (type == "fp64" || compute == "fp64") return Arithmetic::fp64;
  if (compute == "fp16" || compute == "bf16") return Arithmetic::half;
  return compute == "tf32" ? Arithmetic::tf32 : Arithmetic::fp32;
}

std::string label(Arithmetic arithmetic) { return '/' + std::string{to_string(arithmetic)}; }

/// Round trips to memory that take as long as a kernel that waits for the one before it: some 2 us
/// and the gap between them.
constexpr double launch_round_trips = 6.0;

/// A coordinate along which efficiency changes over factors of e^`scale`.
float log_coordinate(double value, double scale) {
  return static_cast<float>(std::log(std::max(value, 1.0)) / scale);
}

/// What tells products of one arithmetic apart, beside their sizes and bytes.
struct ProductLayout {
  double alignment = 16.0;  ///< of the operands' rows in bytes, at most 16
  bool transposed_a = false, transposed_b = false;
  bool epilogue = false;
};

/// Completes a product whose sizes, arithmetic and bytes are set.
void place_product(KernelWork& work, const ProductLayout& layout) {
  work.limit = KernelLimit::arithmetic;
  // Below 16 bytes the tensor memory accelerator and wide loads cannot be used, and cuBLAS turns to
  // older kernels: another group, in which the degree matters again.
  work.group = "gemm";
  work.group += label(work.arithmetic);
  if (layout.alignment < 16.0) work.group += "/unaligned";
  work.alignment = layout.alignment;
  work.a_along_k = layout.transposed_a;
  work.b_along_k = !layout.transposed_b;
  constexpr double size_scale = 2.0;
  work.coordinates = {log_coordinate(work.m, size_scale), log_coordinate(work.n, size_scale),
                      log_coordinate(work.k, size_scale), log_coordinate(work.batch, size_scale),
                      layout.transposed_a ? 0.5F : 0.0F,  layout.transposed_b ? 0.5F : 0.0F,
                      layout.epilogue ? 0.5F : 0.0F,      log_coordinate(layout.alignment, 0.7)};
}

KernelWork gemm(const KernelQuery& query) {
  const auto a_type = attribute(query, "a_type", "bf16");
  const auto b_type = attribute(query, "b_type", a_type);
  const auto c_type = attribute(query, "c_type", a_type);
  KernelWork work;
  work.arithmetic = arithmetic_of(a_type, attribute(query, "compute", "fp32"));
  work.m = feature(query, "m", 1.0);
  work.n = feature(query, "n", 1.0);
  work.k = feature(query, "k", 1.0);
  work.batch = feature(query, "batch", 1.0);
  work.bytes =
      work.batch * (work.m * work.k * type_bytes(a_type) + work.k * work.n * type_bytes(b_type) +
                    work.m * work.n * type_bytes(c_type));
  place_product(work,
                {std::min({feature(query, "a_align", 16.0), feature(query, "b_align", 16.0),
                           feature(query, "c_align", 16.0), 16.0}),
                 attribute(query, "transa", "N") != "N", attribute(query, "transb", "N") != "N",
                 attribute(query, "epilogue", "none") != "none"});
  return work;
}

/// The largest power of two, at most 16, that divides a row of so many bytes.
double alignment_of(double bytes) {
  double alignment = 16.0;
  while (std::fmod(bytes, alignment) != 0.0) alignment /= 2.0;
  return alignment;
}

/// A convolution of 1 x 1 without a stride is a product as it stands, and cuDNN runs it by the
/// kernels of cuBLAS: one for each image where the channels come first, and of all pixels at once
/// where they come last. Of 401 such forward and backward-data calls in bf16, with rows of 16
/// bytes, 347 were these kernels.
KernelWork pointwise_convolution(const KernelQuery& query, double pixels) {
  const auto type = attribute(query, "type", "bf16");
  const double size = type_bytes(type);
  const double images = feature(query, "n", 1.0);
  const double in = feature(query, "c", 1.0);
  const double out = feature(query, "k", 1.0);
  // An image of one pixel has either layout.
  const bool nchw = pixels > 1.0 && attribute(query, "layout", "nchw") == "nchw";
  const bool forward = query.name == "conv_fwd";
  KernelWork work;
  work.arithmetic = arithmetic_of(type, attribute(query, "compute", "fp32"));
  work.bytes = (images * pixels * (in + out) + in * out) * size;
  if (query.name == "conv_bwd_filter") {
    work.limit = KernelLimit::arithmetic;
    work.m = in;
    work.n = out;
    work.k = nchw ? pixels : images * pixels;
    work.batch = nchw ? images : 1.0;
    // Each image's product is a result of its own, in fp32, and another kernel adds them.
    if (nchw) work.converted_bytes = images * in * out * 4.0;
    if (nchw) work.conversions = 1.0;
    work.group = query.name;
    work.group += label(work.arithmetic) + "/pointwise";
    work.family = nchw ? "nchw" : "nhwc";
    work.coordinates = {log_coordinate(in, 2.0), log_coordinate(out, 2.0),
                        log_coordinate(pixels, 2.0), log_coordinate(images, 2.0),
                        log_coordinate(alignment_of(pixels * size), 0.7)};
    return work;
  }
  work.m = nchw ? pixels : forward ? out : in;
  work.n = !nchw ? images * pixels : forward ? out : in;
  work.k = forward ? in : out;
  work.batch = nchw ? images : 1.0;
  const double row = nchw ? pixels : work.m;
  place_product(work, {std::min(alignment_of(row * size), alignment_of(in * size)),
                       !nchw && forward, nchw && !forward, false});
  // Where rows are multiples of 8 bytes alone, cuDNN may yet change the layout rather than use the
  // older kernels.
  if (work.group.ends_with("/unaligned"))
    work.group = query.name + label(work.arithmetic) + "/pointwise";
  return work;
}

/// A filter of three dimensions, which is told as one of two, whose height is that of two of them.
bool is_volume(const KernelQuery& query) {
  const double s = feature(query, "s", 1.0);
  return s > 1.0 && feature(query, "r", 1.0) == s * s;
}

/// A filter for each channel: no product of matrices, but sums on the plain units over what streams
/// past them. cuDNN has kernels for the usual filters and strides alone, others take 20 times as
/// long, so that little can be learnt across them.
KernelWork depthwise(const KernelQuery& query, double inputs, double outputs) {
  const auto type = attribute(query, "type", "bf16");
  const double channels = feature(query, "c", 1.0);
  const double taps = feature(query, "r", 1.0) * feature(query, "s", 1.0);
  const double stride = feature(query, "stride_h", 1.0) * feature(query, "stride_w", 1.0);
  KernelWork work;
  work.arithmetic = type == "fp64" ? Arithmetic::fp64 : Arithmetic::fp32;
  work.flops = 2.0 * outputs * taps;
  work.bytes = (inputs + outputs + feature(query, "k", 1.0) * taps) * type_bytes(type);
  work.group = query.name;
  work.group += "/depthwise";
  work.family = attribute(query, "layout", "nchw");
  // Beyond 7 x 7 there is none for each size: 0.5 to 1.5 TFLOP/s, where the others reach 5 to 14.
  if (taps > 49.0) work.flops *= 10.0;
  if (is_volume(query)) {
    // None at all: 0.2 to 0.7 TFLOP/s, by kernels that each type has others of.
    work.flops *= 100.0;
    work.group += "/volume";
    work.family += type;
    work.family += attribute(query, "compute", "fp32");
  }
  work.coordinates = {log_coordinate(outputs, 2.0),
                      log_coordinate(channels, 2.0),
                      log_coordinate(taps, 0.5),
                      log_coordinate(stride, 0.7),
                      log_coordinate(type_bytes(type), 0.5),
                      type == "fp16" ? 0.7F : 0.0F,
                      log_coordinate(feature(query, "n", 1.0), 2.0),
                      log_coordinate(feature(query, "dilation_w", 1.0), 1.0)};
  return work;
}

/// The product over the implicit im2col matrix of so many channels in and out, which is done
/// `batch` times.
void place_factors(KernelWork& work, std::string_view name, const Convolution& shape, double in,
                   double out, double batch) {
  work.batch = batch;
  work.kernel = ProductKernel::convolution;
  if (name == "conv_bwd_filter") {
    work.kernel = ProductKernel::filter_gradient;
    work.m = in * shape.taps;
    work.n = out;
    work.k = shape.images * shape.positions;
  } else if (name == "conv_bwd_data") {
    work.m = shape.images * shape.pixels;
    work.n = in;
    work.k = out * shape.taps / shape.strides;
    work.parts = std::max(1.0, shape.taps / shape.strides);
  } else {
    work.m = shape.images * shape.positions;
    work.n = out;
    work.k = in * shape.taps;
    work.parts = shape.taps;
  }
  for (double* side : {&work.m, &work.n, &work.k}) *side = std::max(1.0, *side);
}

/// A tensor's layout is changed by a kernel of its own, tile by tile.
void convert(KernelWork& work, double images, double channels, double pixels, double size) {
  work.conversions += 1.0;
  work.conversion_tiles += images * std::ceil(channels / 32.0) * std::ceil(pixels / 32.0);
  work.converted_bytes += 2.0 * images * channels * pixels * size;
}

/// Completes the work of a convolution in groups.
void grouped_convolution(KernelWork& work, std::string_view name, const Convolution& shape) {
  const double in = shape.in / shape.groups, out = shape.out / shape.groups;
  const double width = std::max(in, out);
  const bool tensor_cores =
      work.arithmetic == Arithmetic::half || work.arithmetic == Arithmetic::tf32;
  work.group += "/grouped";
  if (!tensor_cores) {
    // One group after the other, each by some three kernels: almost all of fp32 (37 of the sweeps'
    // 41 calls that do not make filters' gradients).
    if (shape.taps <= 1.0 || name != "conv_bwd_filter") {
      work.batch = 1.0;
      work.repeats = shape.groups;
      work.bytes /= shape.groups;
      work.round_trips = 3.0 * launch_round_trips;
    }
    return;
  }
  const Groups run = detail::run_of_groups(name, shape, width);
  // Tiles of transforms that know no layout take 5 times as long as of those that change one, and
  // their start 7 us: tensorTransformGeneric takes 8 ps for each element.
  constexpr double transform_tiles = 5.0 / 1024.0, transform_starts = 3.0;
  // Copies of a group's channels out of, or into, its tensor (nhwcSliceCKernel): 3 to 5 ps.
  constexpr double slice_tiles = 2.4 / 1024.0;
  if (run == Groups::apart) {
    work.family += "/apart";
    place_factors(work, name, shape, in, out, 1.0);
    work.repeats = shape.groups;
    work.bytes /= shape.groups;
    work.round_trips = launch_round_trips;
    KernelWork each;
    if (shape.nchw) {
      convert(each, shape.images, in, shape.pixels, shape.size);
      if (shape.taps > 1.0) convert(each, out, in, shape.taps, shape.size);
      convert(each, shape.images, out, shape.positions, shape.size);
    } else {
      const double elements = shape.images * (in * shape.pixels + out * shape.positions);
      each.conversions = 2.0;
      each.conversion_tiles = elements * slice_tiles;
      each.converted_bytes = 2.0 * elements * shape.size;
    }
    work.conversions = shape.groups * each.conversions;
    work.conversion_tiles = shape.groups * each.conversion_tiles;
    work.converted_bytes = shape.groups * each.converted_bytes;
    return;
  }
  const auto widened = [&](double channels) {
    return run == Groups::padded ? std::exp2(std::ceil(std::log2(channels))) : channels;
  };
  const double wide_in = widened(in), wide_out = widened(out);
  const double shared =
      std::clamp(std::floor(64.0 / std::max(wide_in, wide_out)), 1.0, shape.groups);
  place_factors(work, name, shape, wide_in * shared, wide_out * shared,
                std::ceil(shape.groups / shared));
  if (run == Groups::padded) {
    work.family += "/padded";
    const double input = shape.images * wide_in * shape.groups * shape.pixels;
    const double output = shape.images * wide_out * shape.groups * shape.positions;
    const double filter = wide_in * wide_out * shape.groups * shape.taps;
    work.conversions += transform_starts;
    work.conversion_tiles += shape.out * in * shape.taps * transform_tiles;
    if (!shape.nchw) {
      work.conversions += 2.0 * transform_starts;
      work.conversion_tiles +=
          shape.images * transform_tiles * (shape.in * shape.pixels + shape.out * shape.positions);
    }
    work.converted_bytes += 3.0 * (input + output + filter) * shape.size;
    work.bytes = (input + output + filter) * shape.size;
  }
  if (shape.nchw) {
    convert(work, shape.images, wide_in * shape.groups, shape.pixels, shape.size);
    convert(work, shape.images, wide_out * shape.groups, shape.positions, shape.size);
    if (run == Groups::together) convert(work, shape.out, wide_in, shape.taps, shape.size);
  }
}

/// Convolutions are products over the implicit im2col matrix.
KernelWork convolution(const KernelQuery& query) {
  const auto type = attribute(query, "type", "bf16");
  KernelWork work;
  work.limit = KernelLimit::arithmetic;
  work.arithmetic = arithmetic_of(type, attribute(query, "compute", "fp32"));
  const double images = feature(query, "n", 1.0);
  const double size = type_bytes(type);
  // Channels are padded to what the tensor cores load at once, 16 bytes.
  const double channels = feature(query, "c", 1.0);
  const double in = std::ceil(channels * size / 16.0) * 16.0 / size;
  const double out = feature(query, "k", 1.0);
  const double h = feature(query, "h", 1.0);
  const double w = feature(query, "w", 1.0);
  const double r = feature(query, "r", 1.0);
  const double s = feature(query, "s", 1.0);
  const double groups = feature(query, "groups", 1.0);
  const double stride_h = feature(query, "stride_h", 1.0);
  const double stride_w = feature(query, "stride_w", 1.0);
  const auto extent = [&](double length, std::string_view pad, std::string_view dilation,
                          double filter, double stride) {
    const double reach = feature(query, dilation, 1.0) * (filter - 1.0) + 1.0;
    return std::max(1.0,
                    std::floor((length + 2.0 * feature(query, pad, 0.0) - reach) / stride) + 1.0);
  };
  const double p = extent(h, "pad_h", "dilation_h", r, stride_h);
  const double q = extent(w, "pad_w", "dilation_w", s, stride_w);
  if (groups > 1.0 && channels <= groups) {
    return depthwise(query, images * channels * h * w, images * out * p * q);
  }
  const bool nchw = attribute(query, "layout", "nchw") == "nchw";
  const bool pointwise = r * s <= 1.0;
  const bool tensor_cores =
      work.arithmetic == Arithmetic::half || work.arithmetic == Arithmetic::tf32;
  // Of planes that no 8 bytes divide, cuDNN changes the layout of all but the smallest.
  const bool rows_aligned_last =
      alignment_of(channels * size) == 16.0 && alignment_of(out * size) == 16.0;
  // Filters' gradients are no products of planes as small as that (7 of the sweeps' 9 aligned
  // ones).
  constexpr double small_plane = 64.0;
  const bool small_planes =
      query.name == "conv_bwd_filter" && nchw && h * w > 1.0 && h * w <= small_plane;
  const bool rows_aligned =
      nchw && h * w > 1.0 ? alignment_of(h * w * size) >= 8.0 && !small_planes : rows_aligned_last;
  if (pointwise && groups <= 1.0 && p * q == h * w && tensor_cores && rows_aligned) {
    return pointwise_convolution(query, h * w);
  }
  const Convolution shape{.images = images,
                          .in = groups > 1.0 ? channels : in,
                          .out = out,
                          .pixels = h * w,
                          .positions = p * q,
                          .taps = r * s,
                          .strides = stride_h * stride_w,
                          .groups = groups,
                          .size = size,
                          .nchw = nchw};
  place_factors(work, query.name, shape, shape.in / groups, out / groups, groups);
  const double input = images * in * h * w;
  const double output = images * out * p * q;
  // Where filters are narrower than their strides, some pixels are never looked at.
  const double seen = images * in * p * std::min(r, stride_h) * q * std::min(s, stride_w);
  const bool skips = (r < stride_h || s < stride_w) && query.name != "conv_bwd_data";
  work.bytes =
      ((skips ? std::min(seen, input) : input) + output + out / groups * in * r * s) * size;
  work.group = query.name;
  work.group += label(work.arithmetic);
  work.family = nchw ? "nchw" : "nhwc";
  const double dilation = feature(query, "dilation_h", 1.0) * feature(query, "dilation_w", 1.0);
  if (groups > 1.0) {
    grouped_convolution(work, query.name, shape);
    work.coordinates = {log_coordinate(images * p * q, 2.0),
                        log_coordinate(std::max(channels, out) / groups, 1.0),
                        log_coordinate(groups, 1.0),
                        log_coordinate(images, 2.0),
                        log_coordinate(type_bytes(type), 1.0),
                        log_coordinate(r * s, 1.5),
                        log_coordinate(stride_h * stride_w, 1.5),
                        log_coordinate(dilation, 1.5)};
    return work;
  }
  // The tensor-core kernels want channels last; cuDNN converts what is not by kernels of their own.
  // A 1x1 filter is a plain product in either layout, if the planes are aligned; and of images of
  // one pixel the two layouts are the same, which filters' gradients see if the channels are
  // aligned.
  const bool plain = pointwise && stride_h * stride_w <= 1.0 && !small_planes &&
                     (h * w <= 1.0 ? rows_aligned_last || query.name != "conv_bwd_filter"
                                   : std::fmod(h * w * size, 16.0) == 0.0);
  // Those of fp32 want channels first: of the sweeps' 98 forward and backward-data calls, 30 of the
  // 32 with channels last were converted and none of the others. Filters' gradients have kernels
  // for either.
  // So do those of images of up to 4 channels, in 16 bits and forward: 75 of the sweeps' 125 run on
  // the plain units as they lie (implicit_convolve_sgemm).
  const bool few_channels = query.name == "conv_fwd" && channels <= 4.0 && size < 4.0;
  const bool converted =
      tensor_cores ? nchw && !plain && !few_channels : !nchw && query.name != "conv_bwd_filter";
  if (converted) {
    convert(work, images, in, h * w, size);
    if (r * s > 1.0 || (h * w <= 1.0 && !rows_aligned_last)) convert(work, out, in, r * s, size);
    convert(work, images, out, p * q, size);
  }
  // Rows that no 16 bytes divide, of either side, are padded first or have older kernels.
  const double unaligned = (alignment_of(channels * size) < 16.0 ? 1.0 : 0.0) +
                           (alignment_of(out * size) < 16.0 ? 0.5 : 0.0);
  work.coordinates = {log_coordinate(images * p * q, 2.0), log_coordinate(channels, 2.0),
                      log_coordinate(out, 2.0), log_coordinate(r * s, 1.5),
                      log_coordinate(stride_h * stride_w, 2.0), nchw ? 0.3F : 0.0F,
                      log_coordinate(dilation, 1.5),
                      // One of one dimension or of three, which is told as one of two, is not
                      // square, and has older kernels.
                      log_coordinate(std::max(r / s, s / r), 1.0), static_cast<float>(unaligned)};
  return work;
}

/// cuDNN keeps the weights of a layer of up to as many units in the SMs, but not in bf16: so do all
/// of the sweeps' 1,301 passes. (RNN: up to 368 forward and 240 backward, from 408 and 296 on no
/// more; LSTM and GRU up to 192 and 128, from 200 and 136 on no more.)
double persistent_units(bool forward, double gates) {
  const double units = gates > 1.0 ? 192.0 : 384.0;
  return forward ? units : units * 2.0 / 3.0;
}

/// A step of a layer whose weights stay in the SMs: a block has a sequence, and a thread goes
/// through the states of so many units, padded to 32. `parts` of 4096 weights beyond 12 do not fit
/// into the registers with what else is there, beyond 16 they come from the L2 cache. Read off the
/// medians of the 348 such kernels in the sweeps: forward 0.24, 0.31, 0.43, 0.47 and 0.94 us at 32,
/// 64, 96, 128 and 192 units of an RNN, 0.32, 0.44, 0.72, 2.06 and 4.6 at 32 to 160 of an LSTM;
/// backward some 0.15 us more.
double persistent_step_seconds(bool forward, double units, double parts) {
  const double spilled = parts > 12.0 ? 1.5 + 0.28 * std::max(0.0, parts - 16.0) : 0.0;
  return 1e-6 * ((forward ? 0.16 : 0.31) + 0.0024 * units + 0.035 * parts + spilled);
}

/// The gradients of the biases are sums over all rows, by a block for 32 units, whose threads take
/// 32 rows at once: 0.09 to 0.8 us for each such step by the number of columns, of a GRU, whose
/// sums are of more than its gates, 0.4 to 1.7.
double bias_step_seconds(double gates, double columns) {
  return gates == 3.0 ? 0.6e-6 + 0.2e-9 * columns : 0.08e-6 + 0.12e-9 * columns;
}

/// cuDNN's recurrent networks: the inputs' products at once, the states' one step after the other.
/// The gradients of the weights are products over all steps.
KernelWork recurrent(const KernelQuery& query) {
  const auto type = attribute(query, "type", "fp32");
  const double steps = feature(query, "steps", 1.0);
  const double rows = feature(query, "batch", 1.0);
  const double input = feature(query, "input", 1.0);
  const double hidden = feature(query, "hidden", 1.0);
  const double layers = feature(query, "layers", 1.0);
  const double directions = feature(query, "directions", 1.0);
  const double cell_gates = feature(query, "gates", 1.0);
  const double gates = cell_gates * hidden;
  const bool forward = query.name == "rnn_fwd";
  KernelWork work;
  work.limit = KernelLimit::arithmetic;
  work.arithmetic = arithmetic_of(type, attribute(query, "compute", "fp32"));
  work.batch = 1.0;
  work.a_along_k = forward;
  const double inputs = input + (layers - 1.0) * directions * hidden;  // of all layers
  bool persistent = false;
  if (query.name == "rnn_bwd_weights") {
    // A product with the inputs and one with the states, both over all rows of all steps.
    work.b_along_k = false;
    work.m = gates;
    work.n = 0.5 * (hidden + inputs / layers);
    work.k = rows * steps;
    work.repeats = 2.0 * layers * directions;
    constexpr double rows_at_once = 32.0;
    const double sums = std::ceil(work.k / rows_at_once) * bias_step_seconds(cell_gates, gates);
    // The product over one step alone, and the sums.
    work.round_trips = 2.0 * launch_round_trips + 0.5 * sums / round_trip_seconds;
    work.bytes = (work.k * (work.m + work.n) + work.m * work.n) * type_bytes(type);
  } else if (type != "bf16" && hidden <= persistent_units(forward, cell_gates)) {
    // One kernel takes all steps of a layer.
    persistent = true;
    work.batch = 0.0;
    constexpr double padding = 32.0, part = 4096.0, full = 16.0;
    const double padded = std::ceil(hidden / padding) * padding;
    const double parts = cell_gates * padded * padded / part;
    work.blocks = rows;
    work.resident = std::max(1.0, std::floor(full / parts));
    // The weights are loaded first; the inputs' product comes before, and backward the gates'
    // gradients as well.
    constexpr double start = 1.5e-6, loaded_part = 0.5e-6, beside = 4.5e-6;
    work.round_trips =
        layers * directions *
        (start + loaded_part * parts + steps * persistent_step_seconds(forward, padded, parts) +
         (forward ? beside : 2.0 * beside)) /
        l2_trip_seconds;
    work.flops = 2.0 * rows * steps * gates * inputs * directions;
    work.bytes = rows * steps * (inputs + gates * layers) * directions * type_bytes(type);
  } else {
    work.m = forward ? gates : hidden;
    work.n = rows;
    work.k = forward ? hidden : gates;
    work.repeats = steps * layers * directions;
    // The product, and the kernel that applies the gates.
    work.round_trips = 2.0 * launch_round_trips;
    work.flops = 2.0 * rows * steps * gates * inputs * directions;
    work.bytes = (work.m * work.k + rows * (work.m + work.k)) * type_bytes(type);
  }
  work.group = query.name;
  work.group += persistent ? "/persistent" : label(work.arithmetic);
  work.family = type;
  work.coordinates = {log_coordinate(hidden, 1.0), log_coordinate(rows, 2.0),
                      log_coordinate(steps, 2.0),  log_coordinate(gates / hidden, 2.0),
                      log_coordinate(layers, 1.5), log_coordinate(directions, 1.5),
                      log_coordinate(inputs, 4.0), 0.0F};
  return work;
}

/// Shape of an attention, however the query tells it.
struct Attention {
  double batch = 1, heads = 1, key_heads = 1;
  double queries = 1, keys = 1, depth = 64, value_depth = 64;
  double causal = 0;  ///< 1 = yes, 0 = no, 0.5 = not told
};

Attention attention_shape(const KernelQuery& query) {
  Attention shape;
  shape.batch = feature(query, "b", 1.0);
  shape.heads = feature(query, "h", 1.0);
  shape.key_heads = feature(query, "h_kv", shape.heads);
  shape.queries = feature(query, "s_q", 1.0);
  shape.keys = feature(query, "s_kv", shape.queries);
  shape.depth = feature(query, "d", 64.0);
  shape.value_depth = feature(query, "d_v", shape.depth);
  const auto causal = attribute(query, "causal", "?");
  shape.causal = causal == "1" ? 1.0 : causal == "0" ? 0.0 : 0.5;
  return shape;
}

/// What a small kernel within a library call takes, and the gap before it, in round trips.
constexpr double small_kernel_round_trips = 5.0;

/// Steps of `tiles` of which the first makes `each`, every further one as many more, up to all,
/// `whole`.
double causal_steps(double tiles, double each, double whole) {
  const double growing = std::min(tiles, std::floor(whole / each));
  return each * growing * (growing + 1.0) / 2.0 + (tiles - growing) * whole;
}

/// Cuts attention into tiles. Forward, a tile is 128 queries and goes from one 128 keys to the
/// next; backward, a tile is 128 keys and goes from one 64 queries to the next: cuDNN's and
/// FlashAttention's kernels for Hopper. Each step has products as deep as `depth` and takes
/// exponentials that no tensor core does, of which more or less is hidden; a tile takes longer than
/// its steps at both ends. These figures leave the least deviations of the 876 kernels without
/// masks and dropout in the H200's sweeps: medians of 1.9 % (forward, depth 64), 4.2 % (128), 2.8
/// and 3.4 % (backward).
void cut_attention(KernelWork& work, const Attention& shape, double depth, bool backward) {
  constexpr double rows = 128.0;
  const double step = backward ? 64.0 : 128.0;
  const double ends = backward ? 2.6 : 1.3;            // in steps
  const double exponentials = backward ? 54.0 : 80.0;  // as so much more depth
  work.step_flops = (backward ? 10.0 : 4.0) * rows * step * (depth + exponentials);
  const double tiled = backward ? shape.keys : shape.queries;
  const double walked = backward ? shape.queries : shape.keys;
  const double tiles = std::ceil(tiled / rows);
  const double whole = std::ceil(walked / step);
  // Backward, a tile of keys meets the queries after it: as many as the mirrored tile has before
  // it.
  const double masked = causal_steps(tiles, rows / step, whole);
  const double sequences = shape.batch * shape.heads;
  const double steps = shape.causal * masked + (1.0 - shape.causal) * tiles * whole;
  work.tiles = sequences * tiles;
  work.longest = whole + ends;
  work.steps = sequences * (steps + tiles * ends);
}

/// `products`: matrix products of s_q x s_kv x d, 2 in the forward direction and 5 backward.
KernelWork attention(std::string_view type, const Attention& shape, double products) {
  KernelWork work;
  work.limit = KernelLimit::arithmetic;
  work.arithmetic = arithmetic_of(type, "fp32");
  // The causal mask removes half of a square, and only the corner above the last keys otherwise.
  const double masked =
      shape.causal * 0.5 * std::min(1.0, shape.queries / std::max(1.0, shape.keys));
  work.flops = products * 2.0 * shape.batch * shape.heads * shape.queries * shape.keys * 0.5 *
               (shape.depth + shape.value_depth) * (1.0 - masked);
  const bool backward = products > 2.0;
  const double depths = shape.depth + shape.value_depth;
  // Operands and results; backward, the queries' gradient is added up in fp32.
  work.bytes = shape.batch * type_bytes(type) *
               (backward ? shape.heads * (shape.queries * 2.0 * depths + shape.keys * 2.0 * depths)
                         : (shape.heads * shape.queries + shape.key_heads * shape.keys) * depths);
  work.coordinates = {log_coordinate(shape.batch * shape.heads, 2.0),
                      log_coordinate(shape.queries, 1.5),
                      log_coordinate(shape.keys, 1.5),
                      log_coordinate(shape.depth, 0.7),
                      static_cast<float>(shape.causal),
                      log_coordinate(shape.heads / std::max(1.0, shape.key_heads), 4.0),
                      0.0F,
                      0.0F};
  return work;
}

/// cuDNN's: a memset clears the counter that tiles are taken from. Backward, one kernel before the
/// products multiplies the output with its gradient, and clears the queries' gradient, another
/// converts that from fp32; where heads share keys, two more add what each head makes of the keys'
/// and the values' gradients.
KernelWork library_attention(const KernelQuery& query) {
  const auto type = attribute(query, "type", "bf16");
  const Attention shape = attention_shape(query);
  const bool backward = query.name == "sdpa_bwd";
  KernelWork work = attention(type, shape, backward ? 5.0 : 2.0);
  cut_attention(work, shape, std::ceil(std::max(shape.depth, shape.value_depth) / 64.0) * 64.0,
                backward);
  work.round_trips = small_kernel_round_trips;
  if (backward) {
    const double size = type_bytes(type);
    const double queries = shape.batch * shape.heads * shape.queries * shape.depth;
    work.converted_bytes = queries * (3.0 * size + 8.0);
    work.round_trips *= 3.0;
    if (shape.key_heads < shape.heads) {
      const double keys = shape.batch * shape.keys * (shape.depth + shape.value_depth);
      work.converted_bytes += keys * size * (shape.heads + shape.key_heads);
      work.round_trips += 2.0 * small_kernel_round_trips;
    }
  }
  work.group = query.name;
  work.group += label(work.arithmetic);
  // A mask's numbers are read, and dropout's drawn, for every score: other kernels, two and more
  // times as slow.
  constexpr float apart = 2.0F;
  work.coordinates[6] = attribute(query, "mask", "0") == "1" ? apart : 0.0F;
  work.coordinates[7] = attribute(query, "dropout", "0") == "1" ? apart : 0.0F;
  return work;
}

/// The first template argument; nothing if there is none.
std::string_view first_argument(const KernelSignature& signature) {
  return signature.arguments.empty() ? std::string_view{} : signature.arguments.front();
}

/// FlashAttention's and CUTLASS's fused kernels: shape from the features, else from grid and name.
KernelWork fused_attention(const KernelQuery& query, const KernelSignature& signature) {
  const bool cutlass = signature.base.starts_with("fmha");
  Attention shape = attention_shape(query);
  KernelSignature traits;
  if (cutlass) {
    // AttentionKernel<type, arch, aligned, rows, keys, depth, ...> is the only parameter.
    const std::string_view name = query.name;
    const auto open = name.find('(');
    const auto close = name.rfind("::Params");
    if (open != std::string_view::npos && close != std::string_view::npos && open < close) {
      traits = parse_signature(name.substr(open + 1, close - open - 1));
    }
  } else {
    traits = parse_signature(first_argument(signature));
  }
  const auto trait = [&](std::size_t i) {
    return i < traits.arguments.size() ? leading_integer(traits.arguments[i]) : 0.0;
  };
  // flash: <depth, rows, keys, ...>; fmha forward: <type, arch, aligned, rows, keys, depth>.
  if (!cutlass && trait(0) > 0.0) shape.depth = feature(query, "d", trait(0));
  if (query.grid && query.features.find("s_q") == query.features.end()) {
    const bool backward = signature.base.find("bwd") != std::string_view::npos;
    const double rows =
        cutlass ? std::max(trait(3), 64.0) : std::max(trait(backward ? 2 : 1), 64.0);
    shape.queries = shape.keys = query.grid->x * rows;
    shape.batch = cutlass ? query.grid->z : query.grid->y;
    shape.heads = shape.key_heads = cutlass ? query.grid->y : query.grid->z;
  }
  // flash_fwd_kernel<traits, dropout, causal, ...>; so is the backward loop.
  if (!cutlass && signature.arguments.size() > 2) {
    shape.causal = signature.arguments[2] == "true" ? 1.0 : 0.0;
  }
  const bool backward = signature.base.find("bwd") != std::string_view::npos ||
                        signature.base.starts_with("fmha_cutlassB");
  // fmha_cutlassF_f32_...; FlashAttention has 16 bits alone. A launch tells its type by no
  // attribute.
  const bool wide = signature.base.find("_f32_") != std::string_view::npos;
  KernelWork work = attention(wide ? "fp32" : "bf16", shape, backward ? 5.0 : 2.0);
  cut_attention(work, shape, std::ceil(std::max(shape.depth, shape.value_depth) / 32.0) * 32.0,
                backward);
  const bool conversion = signature.base.find("dot_do_o") != std::string_view::npos ||
                          signature.base.find("convert") != std::string_view::npos ||
                          signature.base.find("combine") != std::string_view::npos;
  if (conversion) {
    // These read the output and its gradient, or write the query's gradient, and multiply nothing.
    work.flops = work.tiles = 0.0;
    work.bytes = shape.batch * shape.heads * shape.queries * shape.depth * 6.0;
    work.coordinates = {log_coordinate(work.bytes, 1.5), log_coordinate(shape.depth, 0.7)};
  }
  work.group = signature.base;
  work.family = signature.identity;
  if (cutlass) {
    // fmha_cutlassF_bf16_aligned_64x64_rf_sm80: few were measured of each tile, but tiles are
    // alike, and so are the types of 16 bits.
    const auto kind = signature.base.find('_', std::string_view{"fmha_"}.size());
    const auto tile = signature.base.find('_', kind + 1);
    work.group = signature.base.substr(0, kind);
    work.group += label(work.arithmetic);
    if (tile != std::string_view::npos) work.family = signature.base.substr(tile);
  }
  return work;
}

/// FlashAttention 3, whose kernels cut into tiles as cuDNN's do, and are taken to be as fast: those
/// were measured. Splits of the keys are tiles of their own where the GPU has SMs left for them.
KernelWork hopper_attention(const KernelQuery& query) {
  constexpr std::string_view main_loop = "CollectiveMainloopFwdSm90<";
  Attention shape = attention_shape(query);
  const std::string_view name = query.name;
  const std::size_t begin = std::min(name.find(main_loop), name.size());
  std::size_t end = begin;
  for (int depth = 0; end < name.size(); ++end) {
    if (name[end] == '<') ++depth;
    if (name[end] == '>' && --depth == 0) break;
  }
  const KernelSignature traits = parse_signature(name.substr(begin, end + 1 - begin));
  // <stages, cluster, tile, depth of values, element, sum, architecture, causal, local, cap,
  // lengths, pages, appends, value queries, registers, overlaps, packs heads, splits, ...>
  constexpr std::size_t element = 4, causal = 7, packs_heads = 16;
  const auto trait = [&](std::size_t i) {
    return i < traits.arguments.size() ? traits.arguments[i] : std::string_view{};
  };
  shape.causal = trait(causal) == "true" ? 1.0 : 0.0;
  const bool eight = trait(element).find("float_e") != std::string_view::npos;
  KernelWork work = attention(eight ? "fp8" : "bf16", shape, 2.0);
  // Queries of heads that share keys lie in one tile, which matters where they fill no tile alone.
  constexpr double rows = 128.0;
  const double sharing = shape.heads / std::max(1.0, shape.key_heads);
  Attention tiled = shape;
  if (trait(packs_heads) == "true" && shape.queries * sharing <= rows) {
    tiled.heads = shape.key_heads;
    tiled.queries *= sharing;
  }
  cut_attention(work, tiled, std::ceil(std::max(shape.depth, shape.value_depth) / 64.0) * 64.0,
                false);
  // A grid of one block per SM takes tiles from a list.
  const double blocks = query.grid ? query.grid->count() : work.tiles;
  const double splits = std::clamp(std::floor(blocks / std::max(1.0, work.tiles)), 1.0,
                                   std::max(1.0, feature(query, "splits", 1.0)));
  work.tiles *= splits;
  work.longest = std::max(1.0, work.longest / splits);
  work.group = "sdpa_fwd";
  work.group += label(work.arithmetic);
  return work;
}

/// Batch normalisation passes over its operands: statistics, then the result.
KernelWork batch_norm(const KernelQuery& query) {
  const double elements = feature(query, "n", 1.0) * feature(query, "c", 1.0) *
                          feature(query, "h", 1.0) * feature(query, "w", 1.0);
  // Training reads x twice and writes y; backward reads x and dy twice and writes dx.
  const double passes = query.name == "batch_norm_bwd"         ? 5.0
                        : query.name == "batch_norm_fwd_train" ? 3.0
                                                               : 2.0;
  KernelWork work;
  work.bytes = elements * passes * type_bytes(attribute(query, "type", "fp32"));
  work.group = query.name;
  work.family = attribute(query, "layout", "nchw");
  work.coordinates = {log_coordinate(work.bytes, 1.5),
                      log_coordinate(feature(query, "c", 1.0), 2.0)};
  return work;
}

KernelWork transfer(const KernelQuery& query) {
  KernelWork work;
  // The feature is the size; the query's bytes may count reading and writing.
  const double size = feature(query, "bytes", std::max(1.0, query.bytes));
  work.group = query.name;
  if (query.name != "memset") work.limit = KernelLimit::copy_engine;
  work.path = query.name.ends_with("_pinned")     ? DataPath::pcie
              : query.name.ends_with("_pageable") ? DataPath::pcie_pageable
              : query.name.ends_with("_p2p")      ? DataPath::nvlink
                                                  : DataPath::device_memory;
  // A copy within the device reads and writes there.
  work.bytes = query.name == "memcpy_d2d" ? 2.0 * size : size;
  work.coordinates = {log_coordinate(size, 1.5)};
  return work;
}

/// Elements that one thread of the kernel handles, as PyTorch 2.11 is compiled; 0 = unknown.
double elements_per_thread(const KernelSignature& signature) {
  // Measured: 2^20 elements make 1024 blocks of 128 threads, whatever the vector width.
  if (signature.base == "vectorized_elementwise_kernel") return 8.0;
  if (signature.base == "unrolled_elementwise_kernel") return 4.0;
  if (signature.base == "elementwise_kernel" && signature.arguments.size() > 1) {
    return leading_integer(signature.arguments[1]);
  }
  return 0.0;
}

/// Number of arrays that an elementwise kernel touches: the N of std::array<char*, N>.
double array_count(std::string_view identity) {
  constexpr std::string_view array = "std::array<char*, ";
  const auto at = identity.rfind(array);
  return at == std::string_view::npos ? 0.0 : leading_integer(identity.substr(at + array.size()));
}

/// What stands between the first parentheses of `text`.
std::string_view operand_list(std::string_view text) {
  const auto open = text.find('(');
  const auto close = text.find(')', open);
  if (open == std::string_view::npos || close == std::string_view::npos) return {};
  return text.substr(open + 1, close - open - 1);
}

/// Bytes per element of an elementwise kernel whose functor is `functor`, with `arrays` arrays.
double element_bytes(std::string_view functor, double arrays) {
  // A lambda names the types of its operands: {lambda(bool, float, float)#1}.
  const auto lambda = functor.rfind("{lambda(");
  if (lambda != std::string_view::npos && functor.find('}', lambda) + 1 == functor.size()) {
    double bytes = 0.0;
    double operands = 0.0;
    double last = 4.0;
    for (std::string_view rest = operand_list(functor.substr(lambda)); !rest.empty();) {
      const auto comma = rest.find(',');
      last = std::max(1.0, last_type_bytes(rest.substr(0, comma)));
      bytes += last;
      operands += 1.0;
      rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    }
    const bool narrowing = functor.find("float16_copy_kernel") != std::string_view::npos;
    const bool comparison = functor.find("compare_") != std::string_view::npos;
    const double result = narrowing ? 2.0 : comparison ? 1.0 : last;
    return bytes + std::max(0.0, arrays - operands) * result;
  }
  const KernelSignature type = parse_signature(functor);
  const double size = type.arguments.empty() ? 4.0 : last_type_bytes(first_argument(type));
  return std::max(1.0, size) * arrays;
}

/// What runs in an elementwise_kernel, whose operands are strided: it is named within the name of
/// PyTorch's gpu_kernel_impl, or gpu_kernel_impl_nocast where nothing is converted.
struct StridedFunctor {
  std::string_view name;
  double operands;  ///< with the result
  bool converts;
};

StridedFunctor strided_functor(std::string_view text) {
  const KernelSignature outer = parse_signature(text);
  const std::string_view name = outer.arguments.empty() ? text : outer.arguments.front();
  const bool converts = outer.base == "gpu_kernel_impl";
  // A lambda's operands are its own; of other functors, unary ones have one, most have two.
  const auto lambda = name.rfind("{lambda(");
  if (lambda == std::string_view::npos) {
    return {name, name.find("UnaryFunctor") != std::string_view::npos ? 2.0 : 3.0, converts};
  }
  const std::string_view list = operand_list(name.substr(lambda));
  const auto operands = std::ranges::count(list, ',') + (list.empty() ? 0 : 1);
  return {name, 1.0 + static_cast<double>(operands), converts};
}

/// What elementwise_kernel takes for an element, whose place in each operand is found by a division
/// for each of `dims` dimensions, which takes longer than the traffic. 512 elements touch `lines`
/// of 128 bytes, where an operand is transposed.
double place_ps(const StridedFunctor& functor, double elements_per_thread, double dims,
                double lines) {
  // Of 342 launches of 2 million elements and more on an H200 (data/h200_sweep9.jsonl.gz): those of
  // 2 bytes, of which a thread has 4 elements, and those of 4, of which it has 2. Mean errors
  // of 6.6 and 6.4 %. Converting takes 1.9 ps more: of 4 launches of earlier sweeps, and 26 in
  // models.
  const bool four = elements_per_thread > 2.0;
  const double once = four ? 1.65 : 2.5, each = four ? 0.12 : 0.07;
  // 125 launches more touch lines that lie apart: 0.4 ps for 80 to 96 of them, 3.8 for 256, 4.2 for
  // 512, where no element finds its line in the L1 cache.
  constexpr double all_apart_ps = 4.2, near = 64.0, length = 100.0;
  const double apart = 1.0 - std::exp(-std::max(0.0, lines - near) / length);
  return once + each * dims * functor.operands + (functor.converts ? 1.9 : 0.0) +
         all_apart_ps * apart;
}

/// Thread blocks of a launch; 0 = not told.
double blocks_of(const KernelQuery& query) { return query.grid ? query.grid->count() : 0.0; }

/// Blocks of such a launch that an SM runs at once by their threads alone, of which the SMs of all
/// GPUs here but the L40S have room for 2048.
double resident_blocks(const KernelQuery& query) {
  return std::max(1.0, std::floor(2048.0 / query.block.count()));
}

KernelWork elementwise(const KernelQuery& query, const KernelSignature& signature) {
  const double threads = blocks_of(query) * query.block.count();
  KernelWork work;
  const bool counted = query.features.find("numel") != query.features.end();
  const double numel =
      feature(query, "numel", threads * std::max(1.0, elements_per_thread(signature)));
  // The functor comes after the vector width, which is a number.
  const auto functor = std::ranges::find_if(
      signature.arguments, [](std::string_view a) { return leading_integer(a) == 0.0; });
  const bool named = functor != signature.arguments.end();
  std::optional<StridedFunctor> strided;
  if (named && signature.base == "elementwise_kernel") strided = strided_functor(*functor);
  const double counted_arrays =
      strided ? strided->operands : feature(query, "arrays", array_count(signature.identity));
  const double arrays = counted_arrays > 0.0 ? counted_arrays : 2.0;
  // A kernel that was compiled at run time has a plain name, and its bytes are told.
  const bool plain = signature.arguments.empty() && numel > 0.0 && query.bytes > 0.0;
  const double used = plain    ? query.bytes / numel
                      : !named ? 4.0 * arrays
                               : element_bytes(strided ? strided->name : *functor, arrays);
  work.bytes = numel * used;
  if (signature.identity.find("WithCast") != std::string_view::npos) {
    // With casts the types are only known at run time, and converting them takes longer than the
    // traffic: 0.95 ps per array and one more for the functor, which is 64 times fp32's peak.
    work.arithmetic = Arithmetic::fp32;
    work.flops = numel * (arrays + 1.0) * 64.0;
  } else if (strided) {
    work.arithmetic = Arithmetic::fp32;
    work.flops = 64.0 * numel *
                 place_ps(*strided, elements_per_thread(signature), feature(query, "dims", 3.0),
                          feature(query, "lines", 0.0));
  }
  work.exact = counted;
  work.group = plain ? "vectorized_elementwise_kernel" : signature.base;
  work.family = signature.identity;
  // Launches of which it is not told how their operands lie say nothing of the others.
  const float told = feature(query, "dims", 0.0) > 0.0 ? 1.0F : 0.0F;
  work.coordinates = {log_coordinate(work.bytes, 0.8), log_coordinate(used / arrays, 0.7),
                      static_cast<float>(arrays * 0.5), told,
                      log_coordinate(feature(query, "lines", 1.0), 2.0)};
  return work;
}

/// multi_tensor_apply cuts its tensors into chunks of up to 65536 elements, a block each, whose
/// threads take 4 elements after the other.
KernelWork multi_tensor(const KernelQuery& query, const KernelSignature& signature) {
  constexpr double chunk = 65536.0;
  KernelWork work;
  const double numel = feature(query, "numel", blocks_of(query) * chunk);
  // Where nobody tells, one block has all that the others' single elements leave.
  const double longest =
      feature(query, "cols", std::clamp(numel - blocks_of(query) + 1.0, 1.0, chunk));
  const double size =
      signature.arguments.size() > 1 ? last_type_bytes(signature.arguments[1]) : 0.0;
  const auto depth_at = signature.identity.find("Metadata<");
  double lists = 1.0;
  if (depth_at != std::string_view::npos) {
    const KernelSignature metadata = parse_signature(first_argument(signature));
    if (!metadata.arguments.empty()) lists = leading_integer(metadata.arguments.back());
  }
  // Each list is read; one more pass writes the result.
  work.bytes = numel * std::max(2.0, size) * (std::max(1.0, lists) + 1.0);
  work.blocks = query.grid ? query.grid->count() : std::ceil(numel / chunk);
  if (query.grid) {
    work.round_trips = std::ceil(longest / (4.0 * query.block.count()));
    work.resident = resident_blocks(query);
  }
  work.group = signature.base;
  work.family = signature.identity;
  work.coordinates = {log_coordinate(numel, 0.8), log_coordinate(lists, 0.5),
                      log_coordinate(size, 0.7), log_coordinate(longest, 0.8)};
  return work;
}

/// Size of the elements that a kernel of PyTorch's is instantiated for, in bytes.
double element_size(const KernelSignature& signature) {
  for (const std::string_view argument : signature.arguments) {
    const KernelSignature inner = parse_signature(argument);
    // Copies are instantiated for a size, OpaqueType<2u>; reductions for ReduceOp<input, ...>.
    if (inner.base == "OpaqueType") return leading_integer(first_argument(inner));
    const auto type = inner.base == "ReduceOp" ? first_argument(inner) : argument;
    if (const double size = last_type_bytes(type); size > 0.0) return size;
  }
  return 4.0;
}

/// PyTorch's scans of a dimension that is not the last go down each column one element after the
/// other. The fourth sweep's 14 cumsum take 0.15 us for each where the matrix stays in the L2
/// cache, and 0.27 to 0.36 us where it does not: 0.18 us, their geometric mean, is so much of a
/// round trip.
constexpr double scan_step_round_trips = 0.36;

/// How often a kernel of PyTorch's reads or writes each of its elements; 0 = not known to us.
double passes(std::string_view base) {
  static constexpr std::array<std::pair<std::string_view, double>, 18> known{{
      {"vectorized_layer_norm", 2.0},
      {"RowwiseMoments", 1.0},
      {"ComputeInternalGradients", 2.0},
      {"layer_norm_grad_input", 3.0},
      {"GammaBetaBackward", 2.0},
      {"cunn_SoftMaxForwardReg", 2.0},
      {"cunn_SoftMaxForwardSmem", 2.0},
      {"cunn_SoftMaxForward", 3.0},
      {"cunn_SoftMaxBackward", 3.0},
      {"softmax_warp_forward", 2.0},
      {"softmax_warp_backward", 3.0},
      {"nll_loss", 2.0},
      {"reduce_kernel", 1.0},
      {"fused_dropout", 2.0},
      {"batch_norm_collect_statistics", 1.0},
      {"batch_norm_transform_input", 2.0},
      {"batch_norm_backward_reduce", 2.0},
      {"batch_norm_backward", 3.0},
  }};
  const auto found =
      std::ranges::find_if(known, [&](const auto& entry) { return base.starts_with(entry.first); });
  return found != known.end() ? found->second : 0.0;
}

/// Whether the inputs of a reduction's result lie in several dimensions that are no single one, as
/// those of a channel in images do.
bool scattered_inputs(const KernelQuery& query) { return feature(query, "dims", 1.0) > 1.0; }

/// Sets the round trips to memory that a reduction of so many elements makes one after the other.
void set_reduction_trips(KernelWork& work, const KernelQuery& query,
                         const KernelSignature& signature, double elements_per_thread) {
  // reduce_kernel<threads, outputs per thread, ...> keeps 4 loads in flight, of one vector each:
  // 4 elements of a row, as many as outputs where several columns are added at once, and one where
  // the inputs of a result lie in several dimensions. The threads of a block share a row, or with
  // several outputs per thread, block.y rows.
  const double outputs =
      signature.arguments.size() > 1 ? std::max(1.0, leading_integer(signature.arguments[1])) : 1.0;
  const double vector = outputs > 1.0 ? outputs : scattered_inputs(query) ? 1.0 : 4.0;
  work.round_trips = std::ceil(elements_per_thread / (4.0 * vector));
  if (query.grid->y == 1) return;
  // Then the last of the grid.y blocks that share a result adds their partial sums, which are in
  // the L2 cache: a column sum with 128 / 4 of them takes 17 us, where its loads take 3.
  const double adders =
      outputs > 1.0 ? query.block.y : static_cast<double>(query.block.x) * query.block.y;
  const double loads = std::ceil(query.grid->y / adders);
  work.partial_trips = 0.7 * (3.0 + loads);
  work.round_trips += work.partial_trips;
  // A block has room for more columns than are left: its other threads add what was never written.
  const double results = feature(query, "rows", 0.0), room = query.block.x * outputs;
  if (outputs > 1.0 && std::fmod(results, room) > 0.0) work.unwritten_loads = loads;
}

/// PyTorch's batch norm where channels do not come last (ATen/native/cuda/Normalization.cuh) has
/// blocks for each channel, whose threads go through the images' planes one element after the
/// other.
struct PlaneWalk {
  std::string_view base;
  double times;
  bool adds;  ///< then sums up what its threads found
};
constexpr std::array plane_walks{PlaneWalk{"batch_norm_collect_statistics_kernel", 1.0, true},
                                 PlaneWalk{"batch_norm_transform_input_kernel", 1.0, false},
                                 PlaneWalk{"batch_norm_backward_kernel", 2.0, true}};

double plane_round_trips(const KernelQuery& query, const PlaneWalk& walk,
                         double elements_per_thread) {
  // A block is as wide as the next power of two of a plane, which fills three quarters of that.
  constexpr double widest = 512.0, filled = 0.75;
  const double each = std::ceil(elements_per_thread / (query.block.x < widest ? filled : 1.0));
  // Through shared memory: 1.8 to 2.3 us, fitted with the time of an element to the H200's and the
  // H100's 141 launches of either kernel.
  constexpr double sums = 8.0;
  return walk.times * each + (walk.adds ? sums : 0.0);
}

/// The gradient of a depthwise filter has a block for each of its taps, whose warps take an image
/// each and go through its plane by 32 elements: so many steps, of which an image's begin takes 3.
double tap_gradient_steps(const KernelQuery& query, double numel, double planes, double taps) {
  constexpr double warp = 32.0, begin = 3.0;
  const double images = std::max(1.0, planes * taps / query.grid->count());
  return std::ceil(images * warp / query.block.count()) *
         (begin + std::ceil(numel / planes / warp));
}

/// PyTorch's concatenation finds the place of an element by a division for every dimension but
/// one: 2.1 ps in two dimensions, 4.1 in four, whatever the number of bytes, of the H200's launches
/// of 2 million elements and more (28 of data/h200_sweep3.jsonl.gz, 55 of h200_sweep9.jsonl.gz).
/// Where 4 of them are loaded at once, 1.4 to 2.1 ps in four dimensions (5 launches of
/// inception_v3).
double concatenated_ps(std::string_view kernel, double dims) {
  return (0.1 + dims) * (kernel.ends_with("_alignedK_contig") ? 0.42 : 1.0);
}

/// Gradients of 16 bits are added by comparing and swapping: of the H200's 7 launches of
/// atomic_adaptive_average_gradinput in bf16, a thread takes 0.5 to 1.7 us for each element of its
/// window, of the 4 in fp32 up to 0.04 us.
constexpr double swapped_tap_round_trips = 1.3;

/// As FLOP in fp32, what takes the whole GPU a picosecond.
constexpr double flops_per_ps = 64.0;

/// Picoseconds of the whole GPU that pooling in two dimensions takes where channels come last: for
/// an element of the result, or of the image whose gradient it makes. An image has `larger`
/// elements for each that is pooled. Of the H200's 174 launches of a million elements and more of
/// data/h200_sweep7.jsonl.gz and h200_sweep9.jsonl.gz, by filter and stride: gradients of averages
/// take 18, 21, 34 and 72 ps (2/2, 3/2, 3/1, 5/1), of maxima 5.7, 9, 24 and 46, averages 24, 27, 22
/// and 31, maxima 19, 27, 14 and 30. 0 = another kernel.
double pooling_ps(std::string_view base, double taps, double larger) {
  const double windows = taps / larger;  // that an element of the image lies in
  if (base == "avg_pool2d_backward_out_cuda_frame_nhwc") return 16.0 + 2.2 * windows;
  if (base == "max_pool_backward_nhwc") return 3.5 + 2.2 * windows;
  if (base == "avg_pool2d_out_cuda_frame_nhwc") return 17.0 + 0.5 * taps + 2.0 * (larger - 1.0);
  if (base == "max_pool_forward_nhwc") return 9.0 + 0.75 * taps + 3.5 * (larger - 1.0);
  return 0.0;
}

/// Elements of the image for each that is pooled, by the bytes that pooling moves: an image and
/// what is pooled of it, whose maxima have an index of 8 bytes each.
double image_for_each_pooled(const KernelQuery& query, std::string_view base, double size) {
  const double numel = feature(query, "numel", 0.0);
  const double pooled_size = size + (base.starts_with("max_") ? 8.0 : 0.0);
  const double ratio = base.find("backward") != std::string_view::npos
                           ? numel * pooled_size / (query.bytes - numel * size)
                           : (query.bytes / numel - pooled_size) / size;
  return std::isfinite(ratio) ? std::max(1.0, ratio) : 1.0;
}

/// PyTorch's pooling forward, and bilinear resizing of channels that come last, compute addresses,
/// with divisions, for longer than they move data: a thread of the H200's table takes 9 ps of the
/// whole GPU, and 0.75 for each tap of its window. With 4, 9 and 25 taps max_pool_forward_nchw
/// takes 12.5, 16.5 and 28 ps for each output, max_pool3d's with 8, 27 and 125 takes 15, 31 and 93
/// ps for each thread, resizing 9 to 22 ps for each element of the larger image.
double address_flops(std::string_view base, double elements, double taps, double threads,
                     double size) {
  constexpr double thread_ps = 9.0, tap_ps = 0.75;
  const bool window = base.starts_with("max_pool_forward_") || base.starts_with("avg_pool2d_") ||
                      base == "max_pool3d_with_indices_single_out_frame";
  if (window) return flops_per_ps * std::max(elements, threads) * (thread_ps + tap_ps * taps);
  if (base.starts_with("upsample_bilinear2d_") && base.ends_with("nhwc_out_frame"))
    return flops_per_ps * std::max(elements * taps, threads) * thread_ps;
  // Its threads only look at their own elements, which are all there are: 4 to 7 ps for each.
  constexpr double adaptive_ps = 5.0;
  if (base.find("adaptive_average_") != std::string::npos)
    return flops_per_ps * std::max(elements * taps * adaptive_ps, threads * thread_ps);
  // An image's gradients are added by atomics, by as many threads of a warp to one pixel as it is
  // enlarged along a row, one after the other: 9 and 47 ps for each element of the larger image
  // where that is 2 and 8, in fp32, and 21 and 44 ps where it is 2 and 4, in bf16.
  constexpr double collision_ps = 5.5;
  if (base == "upsample_bilinear2d_backward_out_frame") {
    const double enlarged = std::sqrt(std::max(1.0, taps));
    return flops_per_ps * elements * taps * enlarged * collision_ps * (size <= 2.0 ? 2.0 : 1.0);
  }
  // Divisions of 64 bits: 4.2 ps for each element of the fourth sweep's larger rolls.
  constexpr double rolled_ps = 4.2;
  if (base == "roll_cuda_kernel") return flops_per_ps * elements * rolled_ps;
  return 0.0;
}

/// Any other kernel: its bytes as told, or from the features, or what its threads can load. One
/// that is told by its work alone has no threads to guess from, and fills the GPU.
KernelWork other(const KernelQuery& query, const KernelSignature& signature) {
  KernelWork work;
  const double blocks = blocks_of(query);
  const double threads = blocks * query.block.count();
  double rows = feature(query, "rows", 0.0);
  double cols = feature(query, "cols", 0.0);
  // A reduction that was compiled at run time has a plain name: its inputs and results tell.
  const bool plain = signature.base == "reduce_kernel" && signature.arguments.empty();
  const double size =
      plain && rows > 0.0 ? query.bytes / (rows * cols + rows) : element_size(signature);
  // The likelihood loss looks one element up per row.
  const bool lookup = signature.base.starts_with("nll_loss");
  if (lookup) cols = 1.0;
  if (query.grid && signature.base.starts_with("softmax_warp") && signature.arguments.size() > 3 &&
      cols == 0.0) {
    // <input, output, accumulator, log2 of the padded row, ...>; a warp has two rows of up to 128.
    cols = std::exp2(leading_integer(signature.arguments[3]));
    rows = blocks * query.block.y * (cols <= 128.0 ? 2.0 : 1.0);
  }
  const double numel = lookup ? rows : feature(query, "numel", rows * cols);
  const double times = passes(signature.base);
  if (numel > 0.0 && times > 0.0) {
    // Not the bytes that the query tells, so that told and untold launches compare.
    work.bytes = times * numel * size;
  } else if (query.bytes > 0.0 || numel > 0.0) {
    work.bytes = query.bytes > 0.0 ? query.bytes : 2.0 * numel * size;
  } else if (query.grid) {
    // One 16-byte load and store per thread is what vectorised kernels do; reductions give each
    // thread some 64 elements (in GPT-2's bias gradients 64 to 93).
    work.bytes = threads * (signature.base == "reduce_kernel" ? 64.0 * size : 32.0);
    work.exact = false;
  }
  // A reduction's rows are its results: how they are spread shows in the grid.
  const bool reduction = signature.base == "reduce_kernel";
  if (reduction && query.grid) {
    const double elements = numel > 0.0 ? numel : work.bytes / size;
    set_reduction_trips(work, query, signature, elements / threads);
  }
  const auto walk = std::ranges::find(plane_walks, signature.base, &PlaneWalk::base);
  if (walk != plane_walks.end() && numel > 0.0 && threads > 0.0) {
    work.round_trips = plane_round_trips(query, *walk, numel / threads);
    work.resident = resident_blocks(query);
  }
  work.flops = query.flops;
  work.arithmetic = query.arithmetic;
  if (signature.base == "batch_norm_collect_statistics_channels_last_kernel") {
    // Mean and variance are brought up to date with each element, by a division: 3.0 ps of both
    // GPUs, fitted to 105 launches.
    constexpr double welford_ps = 3.0;
    work.arithmetic = Arithmetic::fp32;
    work.flops = flops_per_ps * welford_ps * numel;
  }
  // Its columns are the filter's taps.
  if (signature.base.starts_with("conv_depthwise2d_")) work.flops = 2.0 * numel * cols;
  if (signature.base == "conv_depthwise2d_grad_weight_kernel" && query.grid && rows > 0.0) {
    // An SM full of threads takes 0.28 us for a step of each, and a warp alone 0.1 us: fitted to
    // the H200's 262 launches, with the begin of an image; to the H100's 224 the same.
    constexpr double lane_ps = 1.05, step_round_trips = 0.2;
    const double steps = tap_gradient_steps(query, numel, rows, cols);
    work.arithmetic = Arithmetic::fp32;
    work.flops = flops_per_ps * lane_ps * threads * steps;
    work.round_trips = step_round_trips * steps;
  }
  const double pooling =
      pooling_ps(signature.base, cols, image_for_each_pooled(query, signature.base, size));
  const double address = pooling > 0.0 ? flops_per_ps * numel * pooling
                                       : address_flops(signature.base, numel, cols, threads, size);
  if (numel > 0.0 && address > 0.0) {
    work.arithmetic = Arithmetic::fp32;
    work.flops = address;
    // A thread takes one element after the other: 36 ns for each of 324 or 784, where few are at
    // it.
    constexpr double tap_round_trips = 0.072;
    const bool swaps = signature.base.starts_with("atomic_") && size <= 2.0;
    if (signature.base.find("adaptive_average_") != std::string::npos)
      work.round_trips = cols * (swaps ? swapped_tap_round_trips : tap_round_trips);
  }
  // The place of each element is found by divisions: elementwise_kernel, which does that for two
  // operands at once, takes 3 ps for each.
  constexpr double scattered_ps = 1.5;
  const bool scattered = reduction && query.grid && scattered_inputs(query);
  if (scattered && numel > 0.0) {
    work.arithmetic = Arithmetic::fp32;
    work.flops = flops_per_ps * scattered_ps * numel;
  }
  // Vectors that the destination has room for are moved whole.
  const bool concatenation =
      signature.base.starts_with("CatArrayBatchedCopy") && !signature.base.ends_with("_vectorized");
  if (concatenation && query.grid && cols > 0.0 && signature.arguments.size() > 2) {
    // Every part has as many threads as the longest, 0.9 us for each of its steps in four
    // dimensions, as long as 1.6 such parts take where more are as long.
    constexpr double least_parts = 1.6;
    const double dims = leading_integer(signature.arguments[2]);
    work.arithmetic = Arithmetic::fp32;
    work.flops =
        flops_per_ps * std::max(numel, least_parts * cols) * concatenated_ps(signature.base, dims);
  }
  // Its few threads load one row after the other: 636 rows by 32 of them take 11 us.
  if (lookup && threads > 0.0) work.round_trips = std::ceil(rows / threads);
  if (signature.base == "tensor_kernel_scan_outer_dim") {
    work.round_trips = cols * scan_step_round_trips;
  }
  work.blocks = blocks;
  work.group = signature.base;
  // What launches took depends on their blocks, which are not known here.
  if (!query.grid) work.group += "/work";
  // Of the scalars that a launch of the aligned kernels makes one array of, nothing is told.
  if (concatenation && cols > 0.0) work.group = "CatArrayBatchedCopy";
  if (scattered) work.group += "/scattered";
  // Guessed bytes must not be compared with told ones.
  if (!work.exact) work.group += "/grid";
  work.family = signature.identity;
  work.coordinates = {log_coordinate(work.bytes, 1.0), log_coordinate(blocks, 1.0),
                      log_coordinate(reduction ? 1.0 : cols, 1.0),
                      log_coordinate(query.block.count(), 1.0), log_coordinate(size, 1.0)};
  return work;
}

KernelWork device_kernel(const KernelQuery& query) {
  const KernelSignature signature = parse_signature(query.name);
  if (!query.grid && !query.features.contains("numel") && !query.features.contains("s_q")) {
    return other(query, signature);
  }
  if (query.features.contains("s_q") && query.name.find("FlashAttnFwdSm90<") != std::string::npos)
    return hopper_attention(query);
  if (signature.base.starts_with("flash_") || signature.base.starts_with("fmha_cutlass")) {
    return fused_attention(query, signature);
  }
  if (signature.base.ends_with("elementwise_kernel") || query.features.contains("arrays")) {
    return elementwise(query, signature);
  }
  if (signature.base == "multi_tensor_apply_kernel") return multi_tensor(query, signature);
  if (signature.base.starts_with("reduction_") && query.features.contains("rows")) {
    KernelSignature compiled_before = signature;
    compiled_before.base = "reduce_kernel";
    return other(query, compiled_before);
  }
  return other(query, signature);
}

}  // namespace

double waves_on(const KernelWork& work, int sms) noexcept {
  return work.resident > 0.0 ? std::ceil(work.blocks / (work.resident * sms)) : 1.0;
}

KernelWork describe(const KernelQuery& query) {
  const std::string_view name = query.name;
  // A program's own kernel may have the name of a library operation.
  if (query.grid || !detail::library_operation(name)) {
    KernelWork work = device_kernel(query);
    if (query.grid) work.starts = query.grid->count();
    return work;
  }
  if (name == "gemm") return gemm(query);
  if (name.starts_with("conv_")) return convolution(query);
  if (name.starts_with("rnn_")) return recurrent(query);
  if (name.starts_with("sdpa_")) return library_attention(query);
  if (name.starts_with("batch_norm_")) return batch_norm(query);
  return transfer(query);
}

}  // namespace phantora
