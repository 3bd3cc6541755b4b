#include "kernels/code_roofline.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace phantora::detail {

namespace {

/// What an SM does in a cycle, and what it holds.
struct Sm {
  double fp32 = 128, fp64 = 64;  ///< threads' instructions
  double warps = 64, blocks = 32;
  double shared = 0;  ///< bytes
};

// CUDA C++ Programming Guide, tables "Throughput of Native Arithmetic Instructions" and "Technical
// Specifications per Compute Capability".
constexpr double logic = 64, special = 16, schedulers = 4, registers = 65536;
constexpr double threads_of_a_warp = 32;
Sm sm_of(const GpuModel& gpu) {
  const int capability = 10 * gpu.capability_major + gpu.capability_minor;
  constexpr double kib = 1024;
  if (capability == 80) return {64, 32, 64, 32, 164 * kib};
  if (capability < 90) return {128, 2, 48, 24, 100 * kib};
  if (capability < 120) return {128, 64, 64, 32, 228 * kib};
  return {128, 2, 48, 32, 100 * kib};
}

/// 128 bytes from L1 or shared memory in a cycle.
constexpr double l1_passes = 1;
/// From the L2 cache to an SM in a cycle: two sectors. Seven tenths of that are attained, as
/// Triton's products by tiles of 64 x 64 show, which move 10 TB/s on an H100 (bench/accuracy,
/// triton_kernels.py); memory's bandwidth, of which 1.9 times was taken for it, differs between
/// H100 and H200, which have the same cache.
constexpr double l2_bytes = 64;
// What the L2 cache of an H200 takes in a cycle, by transpose_naive and histogram_shared in
// bench/accuracy/h200_user_kernels.jsonl: sectors that are not written whole, threads' atomics.
constexpr double partial_sectors = 31;
constexpr double atomics_per_cycle = 15.7;
/// Of sectors that lie here and there: additions of rows of 16, 128 and 1,024 floats to 2 MB take
/// an H100 31, 39 and 38 of them in a cycle (bench/accuracy/triton_gathers.py).
constexpr double atomic_sectors_per_cycle = 38;
/// Atomics on one sector follow one another, those of a warp's instruction at once: by filter_arr
/// of the CUDA samples on an H200, one for each of 312,512 warps (examples/native). Others of them
/// agree: five counters in one sector, and maxima, take the same.
constexpr double cycles_per_hot_atomic = 1.54;
/// Blocks that an H100 starts in a cycle, and warps of them: those that do nothing take 0.60 ns
/// each, with 1 as with 16 warps, and 0.98 ns with 32 (1,024 to 262,144 blocks, 1980 MHz; blocks of
/// bench/accuracy/triton_blocks.py).
constexpr double blocks_per_cycle = 0.84, warps_per_cycle = 16.5;
/// The driver's KiB of every block's shared memory (since sm_80).
constexpr double reserved_shared = 1024;
/// L1 and shared memory are one, of which kernels get one of these parts as shared memory (CUDA C++
/// Programming Guide, "Shared Memory" of compute capabilities 8.x and 9.0), as much as they need.
constexpr std::array<double, 10> shared_parts{0, 8, 16, 32, 64, 100, 132, 164, 196, 228};  // KiB
/// What is left for L1 beside the most that there is of shared memory.
constexpr double l1_beside_shared = 28 * 1024;

double told(const KernelQuery& query, const char* key) {
  const auto found = query.features.find(key);
  return found != query.features.end() ? found->second : 0;
}

double blocks_of(const KernelQuery& query) { return query.grid ? query.grid->count() : 1.0; }
double warps_of_block(const KernelQuery& query) {
  return std::ceil(query.block.count() / threads_of_a_warp);
}

/// Blocks on the SM that has most, and how many of them at a time.
struct Load {
  double blocks = 1, at_a_time = 1;
};
Load load_of(const KernelQuery& query, const GpuModel& gpu) {
  const Sm sm = sm_of(gpu);
  const double warps = warps_of_block(query);
  double resident = std::min(sm.blocks, std::floor(sm.warps / warps));
  // Registers are handed out to warps in units of 256.
  const double of_a_warp =
      std::max(256.0, std::ceil(told(query, "registers") * threads_of_a_warp / 256.0) * 256.0);
  resident = std::min(resident, std::floor(registers / of_a_warp / warps));
  resident = std::min(resident, std::floor(sm.shared / (told(query, "shared") + reserved_shared)));
  return {std::ceil(blocks_of(query) / gpu.sm_count), std::max(1.0, resident)};
}

/// Cycles that the units of the fullest SM are busy, the busiest at the efficiency that is given.
struct Efficiency {
  double issue = 1, units = 1, l1 = 1;
  double mma_sync = 1, wgmma = 1;  ///< of the tensor cores' peak, by the instruction
};
double busy_seconds(const KernelQuery& query, const GpuModel& gpu, const Efficiency& efficiency) {
  const Sm sm = sm_of(gpu);
  const double share = load_of(query, gpu).blocks / blocks_of(query);
  const auto cycles = [&](const char* key, double threads_per_cycle) {
    return told(query, key) * share * threads_of_a_warp / threads_per_cycle;
  };
  const double units = std::max({cycles("alu", logic), cycles("fma", sm.fp32),
                                 cycles("double", sm.fp64), cycles("special", special)});
  const double on_sm =
      std::max({told(query, "warp_instructions") * share / schedulers / efficiency.issue,
                units / efficiency.units,
                told(query, "l1_passes") * share / l1_passes / efficiency.l1}) /
      gpu.clock_hz;
  const double by_warps = told(query, "mma_sync");
  const double slowdown = by_warps / efficiency.mma_sync + (1 - by_warps) / efficiency.wgmma;
  const auto products = [&](const char* key, FlopRate rate) {
    const double flops = told(query, key) * share;
    return flops > 0 && rate > FlopRate{} ? flops * gpu.sm_count / rate.per_second() * slowdown
                                          : 0.0;
  };
  const double tensor =
      std::max({products("tensor_half", gpu.half), products("tensor_tf32", gpu.tf32),
                products("tensor_8_bits", gpu.fp8), products("tensor_fp64", gpu.fp64)});
  const double writes = told(query, "partial_sectors") / partial_sectors / gpu.clock_hz;
  const double atomics = std::max(told(query, "atomics") / atomics_per_cycle +
                                      told(query, "atomic_sectors") / atomic_sectors_per_cycle,
                                  told(query, "hot_atomics") * cycles_per_hot_atomic) /
                         gpu.clock_hz;
  return std::max({on_sm, tensor, writes, atomics});
}

/// Until the last block has started.
double start_seconds(const KernelQuery& query, const GpuModel& gpu) {
  const double blocks = blocks_of(query), warps = blocks * warps_of_block(query);
  return std::max(blocks / blocks_per_cycle, warps / warps_per_cycle) / gpu.clock_hz;
}

/// Whether L1 keeps the threads' stacks, which have registers that the compiler puts aside: those
/// of all threads fit beside shared memory; else each word is gone when it is asked for again.
bool keeps_stacks(const KernelQuery& query, const GpuModel& gpu) {
  constexpr double kib = 1024;
  const Sm sm = sm_of(gpu);
  const Load load = load_of(query, gpu);
  const double blocks = std::min(load.blocks, load.at_a_time);
  const double stacks = told(query, "local") * query.block.count() * blocks;
  const double shared = (told(query, "shared") + reserved_shared) * blocks;
  const auto* const part =
      std::ranges::find_if(shared_parts, [&](double size) { return size * kib >= shared; });
  const double given = part != shared_parts.end() ? *part * kib : sm.shared;
  return stacks <= sm.shared + l1_beside_shared - std::min(given, sm.shared);
}

double l2_seconds(const KernelQuery& query, const GpuModel& gpu) {
  const double stacks = keeps_stacks(query, gpu) ? 0.0 : told(query, "local_bytes");
  const double bytes = told(query, "l2_bytes") + stacks;
  return bytes / (l2_bytes * gpu.sm_count * gpu.clock_hz);
}

/// Whether warps only read, compute and write, wherever they are: some wait for memory while
/// others compute. Products' warps wait for tiles all together, those that gather for addresses,
/// and warps with roles for each other.
bool streams(const KernelQuery& query) {
  constexpr std::array others{"tensor_half",  "tensor_tf32",    "tensor_8_bits", "tensor_fp64",
                              "random_bytes", "atomic_sectors", "atomics",       "roles"};
  return std::ranges::none_of(others, [&](const char* key) { return told(query, key) > 0; });
}

}  // namespace

bool tells_code(const KernelQuery& query) { return query.features.contains("warp_instructions"); }

double least_code_seconds(const KernelQuery& query, const GpuModel& gpu) {
  return std::max(busy_seconds(query, gpu, {}), l2_seconds(query, gpu));
}

double code_seconds(const KernelQuery& query, const GpuModel& gpu, double memory_seconds) {
  // Of mma.sync more is not to be had on Hopper (hopper_mma_sync in roofline.cpp). By wgmma
  // Triton's product of 4096 x 4096 x 4096 by tiles of 128 x 256 makes 733 TFLOP/s on an H100.
  constexpr Efficiency attained{
      .issue = 0.8, .units = 1.0, .l1 = 0.8, .mma_sync = 0.6, .wgmma = 0.74};
  constexpr double l2_attained = 0.7;
  const double busy = busy_seconds(query, gpu, attained);
  // What goes to memory goes through the L2 cache on its way: the slower of the two is felt.
  const double moved = std::max(memory_seconds, l2_seconds(query, gpu) / l2_attained);
  // Blocks come in as others end.
  const Load load = load_of(query, gpu);
  const double rounds = load.blocks <= load.at_a_time ? 1.0 : load.blocks / load.at_a_time;
  // Where two bounds are near one another both are felt: more by products, as Triton's kernels and
  // users' own were fitted; less where warps stream, as the half of bench/accuracy's
  // inductor_kernels.py that does not judge has it (4 and 6 come to about the same as 5).
  const double sharpness = streams(query) ? 5.0 : 2.5;
  const auto felt = [sharpness](auto... seconds) {
    return std::pow((std::pow(seconds, sharpness) + ...), 1.0 / sharpness);
  };
  const double waits = keeps_stacks(query, gpu) ? 0.0 : told(query, "stack_waits");
  const double mean = told(query, "warp_cycles") + waits,
               longest = told(query, "longest_cycles") + waits;
  // That of a block whose warps are alike has the units' time in it. Of several blocks each hides
  // what others wait for, and so do roles.
  const double alone = rounds * mean / gpu.clock_hz;
  const bool one_at_a_time =
      std::min(load.blocks, load.at_a_time) <= 1 && told(query, "roles") == 0;
  const double all = one_at_a_time ? felt(std::max(busy, alone), moved) : felt(busy, alone, moved);
  // The block that has most to do goes on when all others have ended.
  const double of_longest = mean > 0 ? busy / load.blocks * longest / mean : 0.0;
  return std::max({all, felt(of_longest, longest / gpu.clock_hz), start_seconds(query, gpu)});
}

}  // namespace phantora::detail
