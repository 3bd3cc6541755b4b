#include "kernels/work/launch.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace phantora::detail {

namespace {

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

}  // namespace

void go_through_channels(KernelWork& work, const Launch& launch) {
  const std::string_view base = launch.base();
  const auto walk = std::ranges::find(plane_walks, base, &PlaneWalk::base);
  if (walk != plane_walks.end() && launch.numel > 0.0 && launch.threads > 0.0) {
    work.round_trips = plane_round_trips(launch.query, *walk, launch.numel / launch.threads);
    work.resident = resident_blocks(launch.query);
  }
  if (base == "batch_norm_collect_statistics_channels_last_kernel") {
    // Mean and variance are brought up to date with each element, by a division: 3.0 ps of both
    // GPUs, fitted to 105 launches.
    constexpr double welford_ps = 3.0;
    work.arithmetic = Arithmetic::fp32;
    work.flops = flops_per_ps * welford_ps * launch.numel;
  }
  // Its columns are the filter's taps.
  if (base.starts_with("conv_depthwise2d_")) work.flops = 2.0 * launch.numel * launch.cols;
  if (base == "conv_depthwise2d_grad_weight_kernel" && launch.query.grid && launch.rows > 0.0) {
    // An SM full of threads takes 0.28 us for a step of each, and a warp alone 0.1 us: fitted to
    // the H200's 262 launches, with the begin of an image; to the H100's 224 the same.
    constexpr double lane_ps = 1.05, step_round_trips = 0.2;
    const double steps = tap_gradient_steps(launch.query, launch.numel, launch.rows, launch.cols);
    work.arithmetic = Arithmetic::fp32;
    work.flops = flops_per_ps * lane_ps * launch.threads * steps;
    work.round_trips = step_round_trips * steps;
  }
}

}  // namespace phantora::detail
