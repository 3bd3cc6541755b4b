#include "kernels/code_roofline.hpp"

#include <phantora/error.hpp>
#include <phantora/kernels/kernel_check.hpp>
#include <phantora/kernels/kernel_limits.hpp>
#include <phantora/kernels/roofline.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace phantora {

namespace {

// What follows was measured on an H200 with the sweeps behind lib/kernels/data/h200.tsv, and is
// taken to hold for the other GPUs, relative to their own peaks.

/// The shortest kernels: an elementwise addition of 1024 elements takes 0.86-0.90 us, a fill 0.6.
constexpr double floor_seconds = 0.9e-6;
/// A dependent access to memory, as full reductions by one block show: 65536 floats take 7.3 us,
/// 16384 take 3.2 us and 1024 take 1.8 us.
constexpr double round_trip_seconds = 0.5e-6;

// Products: least mean deviation over the 2,584 aligned bf16 GEMMs of the sweeps (median 6 %).
/// Attained share of the tensor cores' peak, by tiles of 128 x 192 and more.
constexpr double product_efficiency = 0.85;
/// Smaller tiles lose to operand traffic, and narrow ones waste the tensor cores' width.
constexpr double best_tile_area = 128.0 * 192.0;
constexpr double area_exponent = 0.2;
constexpr double best_tile_width = 64.0;
constexpr double width_exponent = 0.6;
/// Start and end of a wave of tiles.
constexpr double wave_seconds = 1.5e-6;
/// Tiles whose operands an SM's shared memory holds at a time, at most.
constexpr double most_resident = 8.0;
/// The extra kernel that adds the partial products when k is split.
constexpr double split_seconds = 3.4e-6;
/// Products stream their operands at 4.0 of the data sheet's 4.8 TB/s.
constexpr double product_memory_efficiency = 0.83;

/// Fused attention alternates products with softmax: cuDNN's best is 0.6 of peak.
constexpr double attention_efficiency = 0.6;
/// Streaming kernels reach 4.2-4.4 TB/s of the 4.8 TB/s of the data sheet.
constexpr double memory_efficiency = 0.89;
/// Operands that stay in the L2 cache come at twice the memory's bandwidth: 25 MB take 3.1 us.
constexpr double l2_speedup = 1.9;
/// Hits fall from all to none as the footprint grows over this range, in L2 sizes (33-55 MB).
constexpr double l2_full = 0.525;
constexpr double l2_none = 0.875;
/// One thread block sustains 48 GB/s (a layer norm's gradient with 24 blocks), which is 1/100 of
/// the memory's bandwidth.
constexpr double block_share = 0.0125;
/// cuDNN's layout conversions: nchwToNhwc moves 2.1 TB/s.
constexpr double conversion_efficiency = 0.44;
/// Copies over PCIe: 55 GB/s pinned and 15 GB/s pageable of the 64 GB/s of 16 lanes.
constexpr double pcie_efficiency = 0.86;
constexpr double pageable_efficiency = 0.22;
/// Peer copies: NCCL's tables count 0.8 of the raw NVLink rate.
constexpr double nvlink_efficiency = 0.8;

/// Of kernels that are known by their code alone (bench/accuracy/README.md), and of those which
/// spend their time in loops that only data end.
constexpr double code_deviation = 0.3;
constexpr double guessed_deviation = 1.0;

struct Tile {
  double rows, cols;
  double efficiency;
  double resident = 1;  ///< on an SM at a time
};

/// Tile shapes of the libraries' kernels.
const std::array<Tile, 26>& tiles() {
  static const std::array<Tile, 26> all = [] {
    std::array<Tile, 26> shapes{
        {{256, 128, 0}, {128, 256, 0}, {192, 192, 0}, {320, 128, 0}, {128, 320, 0}, {192, 128, 0},
         {128, 192, 0}, {128, 128, 0}, {160, 128, 0}, {128, 160, 0}, {256, 96, 0},  {96, 256, 0},
         {256, 64, 0},  {64, 256, 0},  {128, 64, 0},  {64, 128, 0},  {96, 128, 0},  {128, 96, 0},
         {64, 64, 0},   {96, 64, 0},   {64, 96, 0},   {64, 32, 0},   {32, 64, 0},   {64, 16, 0},
         {16, 64, 0},   {64, 8, 0}}};
    for (Tile& tile : shapes) {
      const double area = std::min(1.0, tile.rows * tile.cols / best_tile_area);
      const double width = std::min(1.0, std::min(tile.rows, tile.cols) / best_tile_width);
      tile.efficiency = std::pow(area, area_exponent) * std::pow(width, width_exponent);
      tile.resident = std::clamp(std::floor(1.0 / area), 1.0, most_resident);
    }
    return shapes;
  }();
  return all;
}

/// Share of the peak that FLOP attain which are told alone: the tensor cores' is that of products.
double attained(Arithmetic arithmetic) {
  const bool tensor_cores = arithmetic == Arithmetic::fp8 || arithmetic == Arithmetic::half ||
                            arithmetic == Arithmetic::tf32;
  return tensor_cores ? product_efficiency : 1.0;
}

}  // namespace

FlopRate peak_rate(const GpuModel& gpu, Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::fp8:
      return gpu.fp8;
    case Arithmetic::half:
      return gpu.half;
    case Arithmetic::tf32:
      // It is a permission, which the libraries do without where no tensor core has it.
      return std::max(gpu.tf32, gpu.fp32);
    case Arithmetic::fp64:
      return gpu.fp64;
    case Arithmetic::fp32:
    case Arithmetic::none:
      break;
  }
  return gpu.fp32;
}

Roofline::Roofline(GpuModel gpu) : gpu_{std::move(gpu)} {}

double Roofline::transfer_seconds(const KernelWork& work) const {
  switch (work.path) {
    case DataPath::pcie:
      return work.bytes / (gpu_.pcie.bytes_per_second() * pcie_efficiency);
    case DataPath::pcie_pageable:
      return work.bytes / (gpu_.pcie.bytes_per_second() * pageable_efficiency);
    case DataPath::nvlink: {
      // Without NVLink peers talk over PCIe.
      const Bandwidth link = gpu_.nvlink > Bandwidth{} ? gpu_.nvlink : gpu_.pcie;
      return work.bytes / (link.bytes_per_second() * nvlink_efficiency);
    }
    case DataPath::device_memory:
      break;
  }
  const double memory = gpu_.memory_bandwidth.bytes_per_second();
  const double hits = l2_hits(work.bytes);
  const double seconds =
      work.bytes * (hits / (memory * l2_speedup) + (1.0 - hits) / (memory * memory_efficiency));
  if (work.blocks <= 0.0) return seconds;
  return std::max(seconds, work.bytes / (memory * block_share * work.blocks));
}

/// Share of the bytes that come from the L2 cache, since the sweeps repeat each kernel.
double Roofline::l2_hits(double bytes) const {
  const double footprint = bytes / static_cast<double>(gpu_.l2.count());
  return std::clamp((l2_none - footprint) / (l2_none - l2_full), 0.0, 1.0);
}

/// What the device memory alone takes.
double Roofline::memory_seconds(const KernelWork& work) const {
  const double bytes = work.bytes + work.converted_bytes;
  return bytes * (1.0 - l2_hits(bytes)) /
         (gpu_.memory_bandwidth.bytes_per_second() * memory_efficiency);
}

double Roofline::on(const Roofline& other, const KernelWork& work, double seconds) const {
  if (work.path != DataPath::device_memory)
    return seconds * other.seconds(work) / this->seconds(work);
  // What is not the memory's is the SMs': products and tiles as the roofline has them, and else
  // instructions and the L2 cache, which keep pace with SMs and clock.
  KernelWork computed = work;
  computed.bytes = computed.converted_bytes = 0.0;
  const double pace =
      work.m > 0.0 || work.tiles > 0.0
          ? (other.seconds(computed) - floor_seconds) / (this->seconds(computed) - floor_seconds)
          : gpu_.sm_count * gpu_.clock_hz / (other.gpu_.sm_count * other.gpu_.clock_hz);
  // The two overlap, but not wholly: squares add up. Of 17,085 kernels that both an H200 and an
  // H100 ran, exponents of 1.5 to 4 leave mean errors of 6.4 to 5.9 % on one half; with 2 it is
  // 6.0 % there and as much on the other half. The whole time by the roofline leaves 11.2 %.
  const double body = std::max(seconds - floor_seconds, 0.0);
  const double here = std::min(memory_seconds(work), body);
  const double there = here > 0.0 ? other.memory_seconds(work) * here / memory_seconds(work)
                                  : other.memory_seconds(work);
  const double rest = std::sqrt(body * body - here * here) * pace;
  return seconds - body + std::hypot(rest, there);
}

double Roofline::product_seconds(const KernelWork& work) const {
  const double sms = gpu_.sm_count;
  const double rate =
      peak_rate(gpu_, work.arithmetic).per_second() / sms * product_efficiency * work.efficiency;
  double best = std::numeric_limits<double>::infinity();
  // The library is taken to choose the tile and the split of k that suit the shape best.
  for (const Tile& tile : tiles()) {
    const double count = std::ceil(work.m / tile.rows) * std::ceil(work.n / tile.cols) * work.batch;
    const double step_seconds = 2.0 * tile.rows * tile.cols * 64.0 / (rate * tile.efficiency);
    for (double split = 1.0; split <= 16.0 && (split == 1.0 || work.k / split >= 256.0);
         split *= 2.0) {
      const double waves = std::ceil(count * split / sms);
      const double steps = std::ceil(work.k / (split * 64.0));
      // Of small tiles an SM has several: they share its tensor cores, but begin and end together.
      const double together = std::ceil(count * split / (sms * tile.resident));
      const double seconds = waves * steps * step_seconds + together * wave_seconds +
                             (split > 1.0 ? split_seconds : 0.0);
      best = std::min(best, seconds);
      if (count * split >= sms) break;  // with full waves, a split gains nothing
    }
  }
  const double memory =
      work.bytes / (gpu_.memory_bandwidth.bytes_per_second() * product_memory_efficiency);
  // Near the ridge of the roofline both bounds are felt.
  const double squares = std::pow(best, 4.0) + std::pow(memory, 4.0);
  return std::sqrt(std::sqrt(squares));
}

double Roofline::seconds(const KernelWork& work) const {
  PHANTORA_EXPECTS(peak_rate(gpu_, work.arithmetic) > FlopRate{},
                   "the GPU has units for the kernel's arithmetic");
  if (work.m > 0.0) {
    const double conversion =
        work.converted_bytes > 0.0
            ? 2.0 * floor_seconds +
                  work.converted_bytes /
                      (gpu_.memory_bandwidth.bytes_per_second() * conversion_efficiency)
            : 0.0;
    const double step = product_seconds(work) + work.round_trips * round_trip_seconds;
    const double beside =
        work.flops / (peak_rate(gpu_, work.arithmetic).per_second() * attained(work.arithmetic));
    return floor_seconds + work.repeats * step + beside + conversion;
  }
  const double memory = transfer_seconds(work);
  if (work.tiles > 0.0) {
    const double sms = gpu_.sm_count;
    const double waves = std::ceil(work.tiles / sms);
    const double arithmetic =
        waves * (work.flops / work.tiles) /
        (peak_rate(gpu_, work.arithmetic).per_second() / sms * attention_efficiency);
    return floor_seconds + wave_seconds + std::max(arithmetic, memory);
  }
  const double arithmetic =
      work.flops / (peak_rate(gpu_, work.arithmetic).per_second() * attained(work.arithmetic));
  return floor_seconds + std::max(arithmetic, memory) + work.round_trips * round_trip_seconds;
}

std::optional<CostEstimate> Roofline::estimate(const KernelQuery& query) const {
  check(query, gpu_);
  const KernelWork work = describe(query);
  if (detail::tells_code(query)) return code_estimate(query, work);
  const double time = seconds(work);
  // Kernels reach between a half of the bound and all of it.
  return with_limits({duration_from_seconds(time), duration_from_seconds(0.5 * time),
                      work.exact ? CostSource::roofline : CostSource::grid},
                     query, gpu_);
}

CostEstimate Roofline::code_estimate(const KernelQuery& query, const KernelWork& work) const {
  double memory = query.bytes > 0.0 ? transfer_seconds(work) : 0.0;
  // What goes anywhere costs more where the L2 cache does not keep it.
  const auto random = query.features.find("random_bytes");
  if (random != query.features.end() &&
      query.bytes > l2_none * static_cast<double>(gpu_.l2.count()))
    memory += random->second / (gpu_.memory_bandwidth.bytes_per_second() * memory_efficiency);
  const double time = floor_seconds + detail::code_seconds(query, gpu_, memory);
  const auto guessed = query.features.find("guessed");
  const double part = guessed != query.features.end() ? guessed->second : 0.0;
  const double deviation = code_deviation + (guessed_deviation - code_deviation) * part;
  CostEstimate estimate{duration_from_seconds(time), duration_from_seconds(deviation * time),
                        CostSource::code};
  const bool products =
      query.features.contains("tensor_half") || query.features.contains("tensor_tf32") ||
      query.features.contains("tensor_8_bits") || query.features.contains("tensor_fp64");
  estimate.limit = products ? KernelLimit::arithmetic : KernelLimit::memory;
  return with_limits(estimate, query, gpu_);
}

}  // namespace phantora
