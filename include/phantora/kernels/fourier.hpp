#pragma once

#include <array>
#include <cmath>
#include <cstddef>

/// How cuFFT cuts a transform into kernels, which decides how often the data go through memory and
/// how much memory a plan asks for besides.
namespace phantora {

/// A transform of up to three dimensions; `points[0]` are those of the dimension whose elements lie
/// beside each other.
struct FourierShape {
  std::array<double, 3> points{1, 1, 1};  ///< of each dimension
  bool real = false;                      ///< one side is real numbers
  bool wide = false;                      ///< of 64 bits
  bool strided = false;                   ///< whether even points[0] lie apart
};

/// Whether the algorithm of Cooley and Tukey does: cuFFT has code for the primes up to 127 (cuFFT
/// API Reference, "Accuracy and Performance"), and Bluestein's algorithm for others, by transforms
/// of twice as many points.
inline bool fourier_has_small_factors(double points) {
  for (double prime = 2.0; prime <= 127.0 && points > 1.0; prime += 1.0) {
    while (std::fmod(points, prime) == 0.0) points /= prime;
  }
  return points <= 1.0;
}

/// What one plan does, of 279 plans on an H200 (lib/kernels/data/h200_sweep15.jsonl.gz, cuFFT of
/// CUDA 13.0).
struct FourierPlan {
  double passes = 0;     ///< kernels that go through all of the data one after the other
  double work_area = 0;  ///< as a multiple of the bytes of the complex side
};

/// The plan of a transform whose lengths are at least 1.
inline FourierPlan fourier_plan(const FourierShape& shape) {
  FourierPlan plan;
  for (std::size_t i = 0; i < shape.points.size(); ++i) {
    double points = shape.points[i];
    if (points <= 1.0 && i > 0) continue;
    const bool strided = i > 0 || shape.strided;
    // What fits an SM takes one kernel. Of points that lie apart, several transforms go through an
    // SM at once.
    const double most = (strided ? 1024.0 : 16384.0) / (shape.wide ? 2.0 : 1.0);
    const bool small_factors = fourier_has_small_factors(points);
    const auto power_of_two = [&] { return std::log2(points) == std::floor(std::log2(points)); };
    if (shape.real && i == 0 && small_factors && points > 1024.0 &&
        !(power_of_two() && points <= most)) {
      // Half as many complex points, and a kernel that puts the halves together.
      plan.passes += 1.0;
      plan.work_area = 1.0;
      points /= 2.0;
    }
    if (!small_factors) {
      // Bluestein's: within an SM, or three transforms in two kernels each.
      const bool within = 2.0 * points <= most;
      plan.passes += (within ? 1.0 : 6.0) + (shape.real && i == 0 ? 2.0 : 0.0);
      plan.work_area += (within ? 0.0 : 4.2) + (shape.real && i == 0 ? 2.0 : 0.0);
    } else if (points <= most) {
      plan.passes += 1.0;
    } else {
      plan.passes += power_of_two() ? 2.0 : 3.0;
      plan.work_area = std::fmax(plan.work_area, 1.0);
    }
  }
  return plan;
}

}  // namespace phantora
