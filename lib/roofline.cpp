#include <phantora/roofline.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace phantora {

namespace {

// What follows was measured on an H200 with the sweeps behind lib/data/h200.tsv, and is taken to
// hold for the other GPUs, relative to their own peaks.

/// The shortest kernels: an elementwise addition of 1024 elements takes 0.86-0.90 us, a fill 0.6.
constexpr double floor_seconds = 0.9e-6;
/// A matrix product starts and drains a pipeline on top: 2.2 us is the least that nvjet takes.
constexpr double product_floor_seconds = 1.3e-6;
/// Start and end of a wave of tiles.
constexpr double wave_seconds = 0.6e-6;
/// Attained share of the tensor cores' peak by tiles of 128 x 192, under the power limit.
constexpr double product_efficiency = 0.78;
constexpr double best_tile_area = 128.0 * 192.0;
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
/// Copies over PCIe: 55 GB/s pinned and 15 GB/s pageable of the 64 GB/s of 16 lanes.
constexpr double pcie_efficiency = 0.86;
constexpr double pageable_efficiency = 0.22;
/// Peer copies: NCCL's tables count 0.8 of the raw NVLink rate.
constexpr double nvlink_efficiency = 0.8;

/// Tile shapes of the libraries' kernels; each is tried both ways.
constexpr std::array<std::array<double, 2>, 26> tiles{
    {{256, 128}, {128, 256}, {192, 192}, {320, 128}, {128, 320}, {192, 128}, {128, 192},
     {128, 128}, {160, 128}, {128, 160}, {256, 96},  {96, 256},  {256, 64},  {64, 256},
     {128, 64},  {64, 128},  {96, 128},  {128, 96},  {64, 64},   {96, 64},   {64, 96},
     {64, 32},   {32, 64},   {64, 16},   {16, 64},   {64, 8}}};

double peak(const GpuModel& gpu, Arithmetic arithmetic) {
  // Without tensor-core support the next wider arithmetic does the work.
  double rate = 0.0;
  switch (arithmetic) {
    case Arithmetic::fp8:
      rate = gpu.fp8.per_second();
      [[fallthrough]];
    case Arithmetic::half:
      rate = rate > 0.0 ? rate : gpu.half.per_second();
      [[fallthrough]];
    case Arithmetic::tf32:
      rate = rate > 0.0 ? rate : gpu.tf32.per_second();
      break;
    case Arithmetic::fp64:
      rate = gpu.fp64.per_second();
      break;
    case Arithmetic::fp32:
    case Arithmetic::none:
      break;
  }
  return rate > 0.0 ? rate : gpu.fp32.per_second();
}

}  // namespace

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
  const double footprint = work.bytes / static_cast<double>(gpu_.l2.count());
  const double hits = std::clamp((l2_none - footprint) / (l2_none - l2_full), 0.0, 1.0);
  const double seconds =
      work.bytes * (hits / (memory * l2_speedup) + (1.0 - hits) / (memory * memory_efficiency));
  if (work.blocks <= 0.0) return seconds;
  return std::max(seconds, work.bytes / (memory * block_share * work.blocks));
}

double Roofline::product_seconds(const KernelWork& work) const {
  const double sms = gpu_.sm_count;
  const double rate = peak(gpu_, work.arithmetic) / sms * product_efficiency * work.efficiency;
  const double reduction_rate = gpu_.memory_bandwidth.bytes_per_second() * l2_speedup;
  double best = std::numeric_limits<double>::infinity();
  // The library is taken to choose the tile and the split of k that suit the shape best.
  for (const auto& [rows, cols] : tiles) {
    const double efficiency = std::min(1.0, std::pow(rows * cols / best_tile_area, 0.3));
    const double count = std::ceil(work.m / rows) * std::ceil(work.n / cols) * work.batch;
    for (double split = 1.0; split <= 32.0 && (split == 1.0 || work.k / split >= 256.0);
         split *= 2.0) {
      const double waves = std::ceil(count * split / sms);
      const double depth = std::ceil(work.k / split / 64.0) * 64.0;
      double seconds = waves * (2.0 * rows * cols * depth / (rate * efficiency) + wave_seconds);
      if (split > 1.0) {
        // Partial sums go through memory in fp32, and a second kernel adds them.
        seconds += product_floor_seconds +
                   work.m * work.n * work.batch * (4.0 * split + 2.0) / reduction_rate;
      }
      best = std::min(best, seconds);
      if (count * split > 4.0 * sms) break;  // splitting full waves further only adds traffic
    }
  }
  return best;
}

double Roofline::seconds(const KernelWork& work) const {
  const double memory = transfer_seconds(work);
  if (work.m > 0.0) {
    return floor_seconds + product_floor_seconds + std::max(product_seconds(work), memory);
  }
  if (work.tiles > 0.0) {
    const double sms = gpu_.sm_count;
    const double waves = std::ceil(work.tiles / sms);
    const double arithmetic = waves * (work.flops / work.tiles) /
                              (peak(gpu_, work.arithmetic) / sms * attention_efficiency);
    return floor_seconds + product_floor_seconds + std::max(arithmetic, memory);
  }
  const double arithmetic = work.flops / peak(gpu_, work.arithmetic);
  return floor_seconds + std::max(arithmetic, memory);
}

std::optional<CostEstimate> Roofline::estimate(const KernelQuery& query) const {
  const double time = seconds(describe(query));
  // Kernels reach between a half of the bound and all of it.
  return CostEstimate{duration_from_seconds(time), duration_from_seconds(0.5 * time),
                      CostSource::roofline};
}

}  // namespace phantora
