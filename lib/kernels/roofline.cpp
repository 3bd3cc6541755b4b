#include "kernels/code_roofline.hpp"
#include "kernels/round_trips.hpp"

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

using detail::l2_trip_seconds;
using detail::round_trip_seconds;

// What follows was measured on an H200 with the sweeps behind lib/kernels/data/h200.tsv, and is
// taken to hold for the other GPUs, relative to their own peaks.

/// The shortest kernels: an elementwise addition of 1024 elements takes 0.86-0.90 us, a fill 0.6.
constexpr double floor_seconds = 0.9e-6;
/// The GPU starts no more than a block in so many cycles: beyond the floor, none of the 4,175
/// launches of 3,000 blocks and more in the H200's table takes less than 0.58 ns for each, and of
/// larger ones none less than 0.601; of the H100's 3,557 none less than 0.599 and 0.602.
constexpr double start_cycles = 1.19;

/// Of Hopper's dense peak, what its mma.sync instructions attain on average: W. Luo et al.,
/// "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking" (IPDPS
/// 2024). On Ampere and Ada, and on Blackwell's GPUs for workstations, it is the only instruction.
constexpr double hopper_mma_sync = 0.629;
/// Assumed, nobody has measured it: an SM of a B200 makes as many products in a cycle by mma.sync
/// as one of Hopper, of a peak that 148 SMs at 1.965 GHz share instead of 132 at 1.98.
constexpr double blackwell_mma_sync =
    hopper_mma_sync * (989.4 / (132 * 1.98)) / (2250.0 / (148 * 1.965));

// Products: the kernels' names and grids in the sweeps tell tiles and splits of k
// (nvjet_sm90_tst_256x128_64x4 has tiles of 256 x 128). These constants leave the least deviations
// of the times of four of five of the H200's 3,077 such bf16 products from product_seconds() with
// the tile told; of the others the median is 4.8 %.
struct ProductKernels {
  /// Attained share of the tensor cores' peak while a tile's operands are there.
  double efficiency;
  /// A step of a tile takes operands of so many bytes along k, and no less time than its loads'
  /// latency, in cycles.
  double step_bytes, step_cycles;
  /// Its operands come from the L2 cache, for each row and column of a tile.
  double row_cycles;
  /// The result is written, each element of a tile.
  double result_cycles;
  /// Launch, first loads and last stores, beyond the floor of any kernel.
  double start;
  /// The extra kernel that adds the partial products when k is split, and its gap; and a second for
  /// each byte of them.
  double split = 2.9e-6, partial = 0.37e-12;
  /// Tiles whose sides are powers of two, of at least so much; 0 = any.
  double least_side = 0.0;
  /// Beyond two waves the SMs take tiles from a counter, which a memset clears first.
  double counter = 2.3e-6;
  /// What they are made of. The efficiency is a share of Hopper's dense peak, whatever reaches it.
  TensorInstruction instruction = TensorInstruction::newest;
};
constexpr ProductKernels aligned_products{0.89, 128.0, 180.0, 1.9, 0.1, 1.24e-6};
/// cuDNN's kernels for convolutions (sm90_xmma_fprop_implicit_gemm_..., cutlass_tensorop_...dgrad):
/// fitted to the main kernel alone of 500 of the H200's calls each that are no judges, with the
/// tile chosen; others are off by 17 % in bf16, 13 in TF32 (with the constants of products 34 %).
constexpr ProductKernels half_convolutions{0.968,  128.0,  133.0,    2.6, 0.135,
                                           4.2e-6, 2.9e-6, 0.37e-12, 32.0};
constexpr ProductKernels tf32_convolutions{0.968,  128.0,  350.0,    2.6, 0.32,
                                           5.1e-6, 2.9e-6, 0.37e-12, 32.0};
/// Those for filters' gradients, which are long along k: the same way, 13 and 15 %.
constexpr ProductKernels half_gradients{0.91,   128.0,   180.0,   1.9, 0.135,
                                        3.3e-6, 12.0e-6, 1.0e-12, 32.0};
constexpr ProductKernels tf32_gradients{0.47,   128.0,  570.0,   1.4, 0.23,
                                        5.5e-6, 6.5e-6, 0.5e-12, 32.0};
/// Forward by filters of 49 taps and more cuDNN has kernels of older GPUs
/// (cutlass_tensorop_s1688fprop_..., sm80_xmma_fprop_implicit_gemm_indexed_...), which take 64
/// bytes of each tap's channels in a step of 0.28 to 0.32 us, one after the other: read off ten of
/// the H200's calls in data/h200_sweep15.jsonl.gz with 1 to 98 tiles, bf16 and TF32 alike; those
/// with more tiles attain 0.4 of the TF32 peak.
constexpr ProductKernels many_taps{.efficiency = 0.6,
                                   .step_bytes = 64.0,
                                   .step_cycles = 590.0,
                                   .row_cycles = 1.0,
                                   .result_cycles = 0.3,
                                   .start = 4.5e-6,
                                   .least_side = 32.0,
                                   .instruction = TensorInstruction::mma_sync};
/// Below 16 bytes the tensor memory accelerator cannot be used, and cuBLAS turns to kernels of
/// older GPUs, which load operands as they are aligned (cutlass_80_tensorop_bf16_s16816gemm_...
/// _align2 and _align4), and those of 2 bytes one by one (cutlass_75_..._s1688gemm_..._align1).
/// Fitted to four of five of the sweeps' 1,009 such bf16 products, with the tile chosen; the fifth
/// is 8 and 12 % off in the median.
constexpr ProductKernels older_products{.efficiency = 0.336,
                                        .step_bytes = 64.0,
                                        .step_cycles = 540.0,
                                        .row_cycles = 4.3,
                                        .result_cycles = 0.256,
                                        .start = 0.93e-6,
                                        .instruction = TensorInstruction::mma_sync};
constexpr ProductKernels oldest_products{.efficiency = 0.1405,
                                         .step_bytes = 64.0,
                                         .step_cycles = 764.0,
                                         .row_cycles = 1.11,
                                         .result_cycles = 0.234,
                                         .start = 2.88e-6,
                                         .instruction = TensorInstruction::mma_sync};
/// Of integers of 8 bits cuBLAS has kernels of older GPUs alone, without splits of k: with both
/// operands along k cutlass_80_tensorop_i16832gemm_s8_128x64_128x3_tn_align16 and its kind, else
/// cutlass_80_wmma_tensorop_i161616gemm_s8_forwardCompat_128x128_32x2_nn_align4. Fitted to the 201
/// and 62 calls of data/h100_sweep20.jsonl.gz that are no judges, with the tile chosen; its 106 and
/// 44 judges are 5.6 and 7.1 % off in the median, 14.2 and 16.8 % at p90.
constexpr ProductKernels integer_products{.efficiency = 0.479,
                                          .step_bytes = 128.0,
                                          .step_cycles = 487.0,
                                          .row_cycles = 2.87,
                                          .result_cycles = 0.2575,
                                          .start = 1.10e-6,
                                          .split = std::numeric_limits<double>::infinity(),
                                          .least_side = 32.0,
                                          .counter = 0.0,
                                          .instruction = TensorInstruction::mma_sync};
constexpr ProductKernels integers_across{.efficiency = 0.0689,
                                         .step_bytes = 32.0,
                                         .step_cycles = 1878.0,
                                         .row_cycles = 0.286,
                                         .result_cycles = 0.033,
                                         .start = 2.10e-6,
                                         .split = std::numeric_limits<double>::infinity(),
                                         .least_side = 32.0,
                                         .counter = 0.0,
                                         .instruction = TensorInstruction::mma_sync};
/// The plain units' kernels (sm80_xmma_gemm_f32f32_..._tilesize64x64x8, cutlass_80_simt_sgemm_...)
/// take 8 elements of k at once. Fitted to four of five of the 641 aligned fp32 products, with the
/// tile chosen; of the fifth the median is 8 %, of the 132 unaligned ones 7 % (with the constants
/// above 28 and 30 %).
constexpr ProductKernels plain_products{0.798,   32.0,    62.7,     2.53, 0.405,
                                        1.26e-6, 4.83e-6, 0.27e-12, 32.0, 0.0};
/// The tensor cores take TF32 along k alone: what lies across is turned by the kernel, or has one
/// of older GPUs (83 of 137 products with both across). Fitted to four of five of the 398 products:
/// those with both operands along k, with B alone, and the rest (of which the 26 with A alone
/// turned out to be like those with B alone). The fifth is 4, 8 and 8 % off in the median, where
/// the constants of 16 bits leave 26 % over all.
constexpr ProductKernels tf32_products{0.917,  128.0,  44.0,    1.73, 0.199,
                                       2.5e-6, 0.9e-6, 4.0e-12, 64.0};
constexpr ProductKernels tf32_one_across{0.875,   128.0,  514.0,   2.03, 0.237,
                                         1.46e-6, 2.5e-6, 1.4e-12, 64.0};
constexpr ProductKernels tf32_both_across{0.59,
                                          128.0,
                                          1.0,
                                          3.97,
                                          0.174,
                                          1.8e-6,
                                          2.3e-6,
                                          0.7e-12,
                                          64.0,
                                          2.3e-6,
                                          TensorInstruction::mma_sync};
/// Share of a last wave's emptiness that is lost: all SMs get more of the L2 cache's bandwidth
/// then.
constexpr double wave_loss = 0.85;
/// Beyond so many waves: all 923 such kernels follow a memset, and of 2,466 others one does.
constexpr double counted_waves = 2.0;
/// Products stream their operands at 4.1 of the data sheet's 4.8 TB/s.
constexpr double product_memory_efficiency = 0.86;

/// Start and end of attention, beyond the floor of any kernel.
constexpr double attention_start = 1.0e-6;
/// Fused attention alternates products with exponentials, which its steps count as so much more
/// depth: the two are hidden behind each other in part, and so these attain more than the peak
/// (cut_attention()).
constexpr double attention_efficiency = 1.15;
/// Of the longest tile, what the SMs wait for each other at the end, where tiles are not alike.
constexpr double uneven_end = 0.65;
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
/// cuDNN's layout conversions (nchwToNhwcKernel, nhwcToNchwKernel) have a block for each tile of 32
/// channels by 32 pixels, full or not. Of the H200's 17,279 in the sweeps those of 10,000 blocks
/// and more take 1.6 ns for each in 2 bytes, and in 4, where memory holds them up, 2.1 ns: as
/// cycles of an SM.
constexpr double conversion_tile_cycles = 1.6e-9 * 132.0 * 1.98e9;
/// The shortest of them take 1.2 us, and a gap follows.
constexpr double conversion_seconds = 2.6e-6;
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
};

/// Those that eight or more of the sweeps' products have, but for some between others.
constexpr std::array<Tile, 36> tiles{
    {{192, 192}, {256, 128}, {128, 256}, {320, 128}, {256, 160}, {160, 256}, {192, 128}, {128, 192},
     {176, 128}, {128, 160}, {128, 128}, {128, 224}, {144, 128}, {448, 64},  {384, 64},  {320, 64},
     {256, 64},  {64, 256},  {192, 96},  {112, 128}, {128, 96},  {96, 128},  {160, 64},  {128, 64},
     {64, 128},  {64, 96},   {96, 64},   {64, 64},   {256, 32},  {128, 32},  {64, 32},   {32, 64},
     {64, 16},   {16, 64},   {128, 8},   {64, 8}}};

const ProductKernels& kernels_of(const KernelWork& work) {
  if (work.arithmetic == Arithmetic::int8) {
    const bool along = work.a_along_k && work.b_along_k && work.alignment >= 16.0;
    return along ? integer_products : integers_across;
  }
  if (work.arithmetic == Arithmetic::fp32) return plain_products;
  const bool half = work.arithmetic == Arithmetic::half;
  const bool tf32 = work.arithmetic == Arithmetic::tf32;
  if (half || tf32) {
    if (work.kernel == ProductKernel::many_taps) return many_taps;
    if (work.kernel == ProductKernel::convolution)
      return half ? half_convolutions : tf32_convolutions;
    if (work.kernel == ProductKernel::filter_gradient)
      return half ? half_gradients : tf32_gradients;
  }
  if (work.alignment < 16.0) return work.alignment >= 4.0 ? older_products : oldest_products;
  if (!tf32) return aligned_products;
  if (work.a_along_k && work.b_along_k) return tf32_products;
  return work.a_along_k || work.b_along_k ? tf32_one_across : tf32_both_across;
}

/// Whether the tile's sides are powers of two, of at least so much.
bool has_powers(const Tile& tile, double least_side) {
  const auto power = [](double side) { return std::exp2(std::round(std::log2(side))) == side; };
  return tile.rows >= least_side && tile.cols >= least_side && power(tile.rows) && power(tile.cols);
}

/// Of an element of the operands of such arithmetic.
double operand_bytes(Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::fp8 || arithmetic == Arithmetic::int8) return 1.0;
  if (arithmetic == Arithmetic::half) return 2.0;
  return arithmetic == Arithmetic::fp64 ? 8.0 : 4.0;
}

/// Of the tensor cores' peak, what large products attain as a whole.
constexpr double whole_product_efficiency = 0.85;

double mma_sync_share(const GpuModel& gpu) {
  if (gpu.capability_major == 9) return hopper_mma_sync;
  // 11.0 is Thor's, which has tcgen05 as well.
  const bool tcgen05 = gpu.capability_major == 10 || gpu.capability_major == 11;
  return tcgen05 ? blackwell_mma_sync : 1.0;
}

/// Share of the peak that FLOP attain which are told alone: the tensor cores' is that of products.
double attained(Arithmetic arithmetic) {
  return on_tensor_cores(arithmetic) ? whole_product_efficiency : 1.0;
}

}  // namespace

bool on_tensor_cores(Arithmetic arithmetic) noexcept {
  return arithmetic == Arithmetic::fp8 || arithmetic == Arithmetic::half ||
         arithmetic == Arithmetic::tf32 || arithmetic == Arithmetic::int8;
}

FlopRate peak_rate(const GpuModel& gpu, Arithmetic arithmetic, TensorInstruction instruction) {
  if (instruction == TensorInstruction::mma_sync && on_tensor_cores(arithmetic))
    return FlopRate{peak_rate(gpu, arithmetic).per_second() * mma_sync_share(gpu)};
  switch (arithmetic) {
    case Arithmetic::fp8:
      return gpu.fp8;
    case Arithmetic::half:
      return gpu.half;
    case Arithmetic::int8:
      // As data sheets have it from Ampere on, where there is no fp8 yet.
      return std::max(gpu.fp8, FlopRate{2.0 * gpu.half.per_second()});
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
  if (work.blocks <= 0.0 || work.resident > 0.0) return seconds;
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

double Roofline::conversion_time(const KernelWork& work) const {
  const double tiling =
      work.conversion_tiles * conversion_tile_cycles / (gpu_.sm_count * gpu_.clock_hz);
  const double hits = l2_hits(work.converted_bytes);
  const double bandwidth = gpu_.memory_bandwidth.bytes_per_second();
  const double memory = work.converted_bytes * (hits / (bandwidth * l2_speedup) +
                                                (1.0 - hits) / (bandwidth * memory_efficiency));
  const auto square = [](double x) { return x * x; };
  return work.conversions * conversion_seconds +
         std::sqrt(std::hypot(square(tiling), square(memory)));
}

double Roofline::product_seconds(const KernelWork& work) const {
  const auto fourth_power = [](double x) { return x * x * x * x; };
  const auto fourth_root = [](double x) { return std::sqrt(std::sqrt(x)); };
  const double sms = gpu_.sm_count;
  const ProductKernels& kernels = kernels_of(work);
  const bool older = kernels.instruction == TensorInstruction::mma_sync;
  const double efficiency =
      kernels.efficiency *
      (older && on_tensor_cores(work.arithmetic) ? mma_sync_share(gpu_) / hopper_mma_sync : 1.0);
  const double rate = peak_rate(gpu_, work.arithmetic).per_second() / sms * efficiency;
  const double cycle = 1.0 / gpu_.clock_hz;
  const double step_length = kernels.step_bytes / operand_bytes(work.arithmetic);
  double best = std::numeric_limits<double>::infinity();
  // The library is taken to choose the tile and the split of k that suit the shape best.
  for (const Tile& tile : tiles) {
    if (kernels.least_side > 0.0 && !has_powers(tile, kernels.least_side)) continue;
    const double count = std::ceil(work.m / tile.rows) * std::ceil(work.n / tile.cols) * work.batch;
    const double area = tile.rows * tile.cols;
    // The parts of k, a convolution's taps, have steps of their own, whole or half: the sweeps'
    // kernels for that take 64 or 32 channels of 2 bytes at once
    // (sm90_xmma_fprop_implicit_gemm_..._tilesize128x128x32).
    for (const double share : {1.0, 0.5}) {
      if (share < 1.0 && work.parts <= 1.0) continue;
      const double length = share * step_length;
      // Whichever of the units, the operands' loads and their latency takes longest, all are felt.
      const double step =
          fourth_root(fourth_power(kernels.step_cycles * cycle) +
                      fourth_power((tile.rows + tile.cols) * kernels.row_cycles * share * cycle) +
                      fourth_power(2.0 * area * length / rate));
      const double all_steps = work.parts * std::ceil(work.k / (work.parts * length));
      const double most = work.kernel == ProductKernel::many_taps ? 1.0 : 32.0;
      for (double split = 1.0; split <= most && (split == 1.0 || count * split <= sms);
           split *= 2.0) {
        const double used = std::max(1.0, count * split / sms);
        const double waves = used + wave_loss * (std::ceil(used) - used);
        double seconds =
            waves * (std::ceil(all_steps / split) * step + area * kernels.result_cycles * cycle);
        if (split > 1.0)
          seconds += kernels.split + split * work.m * work.n * work.batch * 4.0 * kernels.partial;
        if (count > counted_waves * sms) seconds += kernels.counter;
        best = std::min(best, seconds);
      }
    }
  }
  const double memory =
      work.bytes / (gpu_.memory_bandwidth.bytes_per_second() * product_memory_efficiency);
  const double hits = l2_hits(work.bytes);
  // Near the ridge of the roofline both bounds are felt.
  return kernels.start +
         fourth_root(fourth_power(best) + fourth_power(memory * (1.0 - hits + hits / l2_speedup)));
}

double Roofline::seconds(const KernelWork& work) const {
  PHANTORA_EXPECTS(peak_rate(gpu_, work.arithmetic) > FlopRate{},
                   "the GPU has units for the kernel's arithmetic");
  if (work.m > 0.0) {
    const double conversion = conversion_time(work);
    const double step = product_seconds(work) + work.round_trips * round_trip_seconds;
    const double beside =
        work.flops / (peak_rate(gpu_, work.arithmetic).per_second() * attained(work.arithmetic));
    return floor_seconds + work.repeats * step + beside + conversion;
  }
  const double memory = transfer_seconds(work);
  if (work.tiles > 0.0) {
    const double sms = gpu_.sm_count;
    const double rate = peak_rate(gpu_, work.arithmetic, work.instruction).per_second() / sms;
    const double step =
        (work.step_flops / rate + work.step_cycles / gpu_.clock_hz) / attention_efficiency;
    const bool alike = work.steps >= work.longest * work.tiles * 0.999;
    const double steps = alike
                             ? std::ceil(work.tiles / sms) * work.longest
                             : std::max(work.longest, work.steps / sms + uneven_end * work.longest);
    KernelWork beside;
    beside.bytes = work.converted_bytes;
    return floor_seconds + attention_start + std::hypot(steps * step, memory) +
           transfer_seconds(beside) + work.round_trips * round_trip_seconds;
  }
  const double arithmetic =
      work.flops / (peak_rate(gpu_, work.arithmetic).per_second() * attained(work.arithmetic));
  const double starts = work.starts * start_cycles / gpu_.clock_hz;
  const double trips =
      work.round_trips * (work.resident > 0.0 ? l2_trip_seconds : round_trip_seconds);
  // Of several waves each hides the others' traffic.
  return floor_seconds + std::max(std::max({arithmetic, memory, starts}) + trips,
                                  waves_on(work, gpu_.sm_count) * trips);
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
  // Between two launches of a program's own kernel others use the L2 cache: what it reads comes
  // from memory unless the query says otherwise, and what it writes goes there.
  const KernelQuery::Operands& operands = query.operands;
  const double touched = operands.read + operands.written;
  const double there = touched > 0.0 ? (operands.read - operands.cold) / touched : 0.0;
  const double cold =
      query.bytes * (1.0 - there) / (gpu_.memory_bandwidth.bytes_per_second() * memory_efficiency);
  double memory = query.bytes > 0.0 ? std::max(cold, transfer_seconds(work)) : 0.0;
  // What goes anywhere costs more where the L2 cache does not keep it.
  const auto random = query.features.find("random_bytes");
  if (random != query.features.end() &&
      query.bytes > l2_none * static_cast<double>(gpu_.l2.count()))
    memory += random->second / (gpu_.memory_bandwidth.bytes_per_second() * memory_efficiency);
  memory += detail::stack_bytes_in_memory(query, gpu_) /
            (gpu_.memory_bandwidth.bytes_per_second() * memory_efficiency);
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
