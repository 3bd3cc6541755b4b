#include "kernels/work/launch.hpp"

#include <algorithm>
#include <cmath>

namespace phantora::detail {

namespace {

/// PyTorch's concatenation finds the place of an element by a division for every dimension but
/// one: 2.1 ps in two dimensions, 4.1 in four, whatever the number of bytes, of the H200's launches
/// of 2 million elements and more (28 of data/h200_sweep3.jsonl.gz, 55 of h200_sweep9.jsonl.gz).
/// Where several are loaded at once, 1.4 to 2.5 ps in four dimensions (launches of inception_v3 and
/// of DenseNets).
double concatenated_ps(std::string_view kernel, double dims) {
  return (0.1 + dims) * (kernel.ends_with("_alignedK_contig") ? 0.55 : 1.0);
}

/// Gradients of 16 bits are added by comparing and swapping: of the H200's 7 launches of
/// atomic_adaptive_average_gradinput in bf16, a thread takes 0.5 to 1.7 us for each element of its
/// window, of the 4 in fp32 up to 0.04 us.
constexpr double swapped_tap_round_trips = 1.3;

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
  if (base.find("adaptive_average_") != std::string_view::npos)
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

/// PyTorch's packing of FSDP2's gradients (_chunk_cat) converts elements one by one, each after a
/// loop's bounds are looked at: 2.92 and 2.89 ps for each of 61 and 131 million from bf16 to fp32
/// (an H200, bench/accuracy/h200_measured_two, whose Llama judges it no more), 3.2 on an H100 in a
/// profile of the same program. Of one type they go as vectors.
double packed_ps(const Launch& launch) {
  const auto& types = launch.signature.arguments;
  const bool converts = types.size() == 2 && types[0] != types[1];
  return launch.base() == "chunk_cat_cuda_kernel" && converts ? 2.9 : 0.0;
}

}  // namespace

bool places_parts(const Launch& launch) {
  return launch.base().starts_with("CatArrayBatchedCopy") &&
         !launch.base().ends_with("_vectorized");
}

void find_addresses(KernelWork& work, const Launch& launch) {
  const std::string_view base = launch.base();
  const double numel = launch.numel, cols = launch.cols, size = launch.size;
  const double pooling = pooling_ps(base, cols, image_for_each_pooled(launch.query, base, size));
  const double each_ps = std::max(pooling, packed_ps(launch));
  const double address = each_ps > 0.0 ? flops_per_ps * numel * each_ps
                                       : address_flops(base, numel, cols, launch.threads, size);
  if (numel > 0.0 && address > 0.0) {
    work.arithmetic = Arithmetic::fp32;
    work.flops = address;
    // A thread takes one element after the other: 36 ns for each of 324 or 784, where few are at
    // it.
    constexpr double tap_round_trips = 0.072;
    const bool swaps = base.starts_with("atomic_") && size <= 2.0;
    if (base.find("adaptive_average_") != std::string_view::npos)
      work.round_trips = cols * (swaps ? swapped_tap_round_trips : tap_round_trips);
  }
  const auto& arguments = launch.signature.arguments;
  if (places_parts(launch) && launch.query.grid && cols > 0.0 && arguments.size() > 2) {
    // Every part has as many threads as the longest, 0.9 us for each of its steps in four
    // dimensions, as long as 1.6 such parts take where more are as long.
    constexpr double least_parts = 1.6;
    const double dims = leading_integer(arguments[2]);
    work.arithmetic = Arithmetic::fp32;
    work.flops = flops_per_ps * std::max(numel, least_parts * cols) * concatenated_ps(base, dims);
    // Parts have the longest one's blocks, which are started if there is nothing for them to do:
    // 49 of DenseNet's, the first of which is eight times as long as the others, take 96 us.
    work.starts = launch.query.grid->count();
  }
}

}  // namespace phantora::detail
