#include "kernels/work/families.hpp"
#include "kernels/work/reading.hpp"

#include <phantora/kernels/fourier.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace phantora::detail {

KernelWork fourier_transform(const KernelQuery& query) {
  const std::string_view in = attribute(query, "type", "complex64"),
                         out = attribute(query, "output_type", in);
  const bool from_real = !is_complex(in), to_real = !is_complex(out);
  const bool wide = in == "complex128" || in == "fp64";
  const double x = feature(query, "x", 1.0), y = feature(query, "y", 1.0),
               z = feature(query, "z", 1.0), batch = feature(query, "batch", 1.0);
  const double points = x * y * z * batch;
  // Of a real side's spectrum a half is there.
  const double spectrum = (from_real || to_real ? std::floor(x / 2.0) + 1.0 : x) * y * z * batch;
  const double complex_bytes = wide ? 16.0 : 8.0;
  const double stride = feature(query, "stride", 1.0);
  const double passes = fourier_plan({{x, y, z}, from_real || to_real, wide, stride > 1.0}).passes;
  const double input = from_real ? points * complex_bytes / 2.0 : spectrum * complex_bytes,
               output = to_real ? points * complex_bytes / 2.0 : spectrum * complex_bytes;
  KernelWork work;
  work.arithmetic = wide ? Arithmetic::fp64 : Arithmetic::fp32;
  // Cooley and Tukey's 5 n log2(n) of complex numbers, half of that of real ones.
  work.flops =
      5.0 * points * std::log2(std::max(2.0, x * y * z)) * (from_real || to_real ? 0.5 : 1.0);
  // Each pass reads and writes all of it.
  work.bytes = input + output + (passes - 1.0) * 2.0 * spectrum * complex_bytes;
  // A kernel of a few points takes 1.5 us.
  work.round_trips = 1.2 + (passes - 1.0) * launch_round_trips / 2.0;
  work.group = wide ? "fft/fp64" : "fft";
  work.family = from_real ? "r2c" : to_real ? "c2r" : "c2c";
  work.coordinates = {log_coordinate(work.bytes, 0.8),
                      log_coordinate(x, 1.5),
                      log_coordinate(y, 2.0),
                      log_coordinate(z, 2.0),
                      static_cast<float>(passes) * 0.5F,
                      log_coordinate(stride, 2.0),
                      fourier_has_small_factors(x) && fourier_has_small_factors(y) ? 0.0F : 1.0F,
                      std::log2(x) == std::floor(std::log2(x)) ? 0.0F : 0.5F};
  return work;
}

}  // namespace phantora::detail
