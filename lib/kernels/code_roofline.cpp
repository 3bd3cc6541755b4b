#include "kernels/code_roofline.hpp"

#include <phantora/kernels/occupancy.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>

namespace phantora::detail {

namespace {

/// Threads' instructions that an SM does in a cycle (CUDA C++ Programming Guide, table "Throughput
/// of Native Arithmetic Instructions").
struct Sm {
  double fp32 = 128, fp64 = 64;
};
constexpr double logic = 64, special = 16, schedulers = 4;
constexpr double threads_of_a_warp = 32;
Sm sm_of(const GpuModel& gpu) {
  const int capability = 10 * gpu.capability_major + gpu.capability_minor;
  if (capability == 80) return {64, 32};
  if (capability < 90) return {128, 2};
  if (capability < 120) return {128, 64};
  return {128, 2};
}

/// 128 bytes from L1 or shared memory in a cycle.
constexpr double l1_passes = 1;
/// From the L2 cache to an SM in a cycle: two sectors. Seven tenths of that are attained, as
/// Triton's products by tiles of 64 x 64 show, which move 10 TB/s on an H100 (bench/accuracy,
/// triton_kernels.py); memory's bandwidth, of which 1.9 times was taken for it, differs between
/// H100 and H200, which have the same cache.
constexpr double l2_bytes = 64;
// What the L2 cache of an H200 takes in a cycle of sectors that are not written whole: a request
// takes time for each line and for each sector there. transpose_naive of
// bench/accuracy/h200_user_kernels.jsonl writes a sector of each line, 31 in a cycle, and
// activations of flash-linear-attention four, 84 (swish and swiglu, by two bytes for a thread;
// bench/accuracy/linear_attention.py).
constexpr double partial_lines = 36.4, partial_sectors = 209;
/// Threads' atomics, by histogram_shared of the same.
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

  [[nodiscard]] double at_once() const { return std::min(blocks, at_a_time); }
};
Load load_of(const KernelQuery& query, const GpuModel& gpu) {
  const BlockResources block{.threads = static_cast<int>(query.block.count()),
                             .registers = static_cast<int>(told(query, "registers")),
                             .shared_bytes = static_cast<std::size_t>(told(query, "shared"))};
  return {std::ceil(blocks_of(query) / gpu.sm_count),
          std::max(1.0, static_cast<double>(blocks_per_sm(gpu, block)))};
}

struct Efficiency {
  double issue = 1, units = 1, l1 = 1;
  double mma_sync = 1, wgmma = 1;  ///< of the tensor cores' peak, by the instruction
};
/// How long the units of the fullest SM are busy at the efficiency that is given, seconds.
struct Busy {
  double tensor = 0;  ///< its tensor cores
  double others = 0;  ///< the busiest of its other units
  double shared = 0;  ///< what all SMs share: the L2 cache's writes and atomics

  [[nodiscard]] double busiest() const { return std::max({tensor, others, shared}); }
};
Busy busy_of(const KernelQuery& query, const GpuModel& gpu, double blocks,
             const Efficiency& efficiency) {
  const Sm sm = sm_of(gpu);
  const double share = blocks / blocks_of(query);
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
  // Queries of before 2026-11-28 have no lines: as if each sector were in one of its own.
  const double sectors = told(query, "partial_sectors");
  const double lines =
      query.features.contains("partial_lines") ? told(query, "partial_lines") : sectors;
  const double writes = (lines / partial_lines + sectors / partial_sectors) / gpu.clock_hz;
  const double atomics = std::max(told(query, "atomics") / atomics_per_cycle +
                                      told(query, "atomic_sectors") / atomic_sectors_per_cycle,
                                  told(query, "hot_atomics") * cycles_per_hot_atomic) /
                         gpu.clock_hz;
  return {.tensor = tensor, .others = on_sm, .shared = std::max(writes, atomics)};
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
  const double most_shared = sm_limits(gpu).shared_bytes;
  const Load load = load_of(query, gpu);
  const double blocks = load.at_once();
  const double stacks = told(query, "local") * query.block.count() * blocks;
  const double shared = (told(query, "shared") + reserved_shared) * blocks;
  const auto* const part =
      std::ranges::find_if(shared_parts, [&](double size) { return size * kib >= shared; });
  const double given = part != shared_parts.end() ? *part * kib : most_shared;
  return stacks <= most_shared + l1_beside_shared - std::min(given, most_shared);
}

/// Of the L2 cache, what stacks may take so that all of them stay there, and that none does: they
/// are gone through in turn. On an H200 (50 MB) kernels of flash-linear-attention whose blocks have
/// 3 to 17 MB at a time take the time without stacks in memory, those with 29 to 118 MB and with
/// 354 all but the time with them (bench/accuracy/linear_attention.py).
constexpr double kept_stacks = 0.4, lost_stacks = 0.6;

double l2_seconds(const KernelQuery& query, const GpuModel& gpu) {
  const double stacks = keeps_stacks(query, gpu) ? 0.0 : told(query, "local_bytes");
  const double bytes = told(query, "l2_bytes") + stacks;
  return bytes / (l2_bytes * gpu.sm_count * gpu.clock_hz);
}

/// How much of a block's time is left where the L2 cache holds a part of what this launch reads.
double sooner_when_warm(const KernelQuery& query) {
  const KernelQuery::Operands& operands = query.operands;
  const double cycles = told(query, "warp_cycles"), warm = told(query, "warm_cycles");
  if (operands.read <= 0 || cycles <= 0 || warm <= 0) return 1;
  return std::lerp(1.0, warm / cycles, (operands.read - operands.cold) / operands.read);
}

/// Whether warps only read, compute and write, wherever they are: some wait for memory while
/// others compute. Products' warps wait for tiles all together, those that gather for addresses,
/// and warps with roles for each other.
bool streams(const KernelQuery& query) {
  constexpr std::array others{"tensor_half",  "tensor_tf32",    "tensor_8_bits", "tensor_fp64",
                              "random_bytes", "atomic_sectors", "atomics",       "roles"};
  return std::ranges::none_of(others, [&](const char* key) { return told(query, key) > 0; });
}

/// Whether warp groups multiply that have no roles: each waits for its own products.
bool multiplies_by_groups(const KernelQuery& query) {
  constexpr std::array tensor{"tensor_half", "tensor_tf32", "tensor_8_bits"};
  return std::ranges::any_of(tensor, [&](const char* key) { return told(query, key) > 0; }) &&
         told(query, "mma_sync") < 0.5 && told(query, "roles") == 0;
}

/// What the fullest SM has to do, and how often blocks there come in as others end.
struct Turns {
  Load load{};
  double rounds = 1;
};

/// Blocks of products by warp groups that are alike begin and end together, in rounds; those that
/// are left for the last go to SMs in pairs, as pairs end: three blocks for each SM that holds two
/// take as long as four (bench/accuracy/triton_neighbours.py). Others are as uneven as their order
/// makes them, where that is told.
Turns turns_of(const KernelQuery& query, const GpuModel& gpu, bool end_together) {
  Load load = load_of(query, gpu);
  if (load.blocks <= load.at_a_time) return {load, 1};
  const double mean = blocks_of(query) / gpu.sm_count;
  const double work = told(query, "uneven_work"), ends = told(query, "uneven_ends");
  if (work > 0) {
    load.blocks = work * mean;
  } else if (end_together) {
    const double left = std::fmod(load.blocks, load.at_a_time);
    load.blocks += std::min(load.at_a_time, 2 * std::ceil(left / 2)) - left;
  }
  double rounds = std::max(1.0, load.blocks / load.at_a_time);
  if (ends > 0) rounds = ends * mean / load.at_a_time;
  return {load, end_together ? std::ceil(rounds) : rounds};
}

// Where two bounds are near one another both are felt: more by products that wait for memory, as
// Triton's kernels and users' own were fitted; less where warps stream, as the half of
// bench/accuracy's inductor_kernels.py that does not judge has it (4 and 6 come to about the same
// as 5), and by what warp groups do inside an SM, whose copies run ahead.
constexpr double together = 2.5, apart = 5.0;
double felt(double sharpness, std::initializer_list<double> seconds) {
  double sum = 0;
  for (const double bound : seconds) sum += std::pow(bound, sharpness);
  return std::pow(sum, 1.0 / sharpness);
}

/// Of products by warp groups. While the tensor cores multiply for one block, the SM does little
/// for another: what a block does beside its own products, attention's exponentials, all but adds
/// up with theirs. The exponent is that of one to six blocks for each SM
/// (bench/accuracy/triton_neighbours.py, with which attention is then right in the mean; 1.1
/// and 1.2 come to about the same).
/// @param cycles  of a block that is alone on its SM
double taking_turns(const Busy& busy, double blocks, double cycles, const GpuModel& gpu) {
  constexpr double sharpness = 1.15;
  const double beside = std::max(0.0, blocks * cycles / gpu.clock_hz - busy.tensor);
  return std::max(
      {felt(sharpness, {busy.tensor, std::min(busy.others, beside)}), busy.others, busy.shared});
}

}  // namespace

bool tells_code(const KernelQuery& query) { return query.features.contains("warp_instructions"); }

double stack_bytes_in_memory(const KernelQuery& query, const GpuModel& gpu) {
  if (keeps_stacks(query, gpu)) return 0;
  const Load load = load_of(query, gpu);
  const double at_once = std::min(load.at_once() * gpu.sm_count, blocks_of(query));
  const double stacks = told(query, "local") * query.block.count() * at_once;
  const double of_l2 = stacks / static_cast<double>(gpu.l2.count());
  const double lost = std::clamp((of_l2 - kept_stacks) / (lost_stacks - kept_stacks), 0.0, 1.0);
  return lost * told(query, "local_bytes");
}

double code_seconds(const KernelQuery& query, const GpuModel& gpu, double memory_seconds) {
  // Of mma.sync more is not to be had on Hopper (hopper_mma_sync in roofline.cpp). By wgmma
  // Triton's product of 4096 x 4096 x 4096 by tiles of 128 x 256 makes 733 TFLOP/s on an H100.
  constexpr Efficiency attained{
      .issue = 0.8, .units = 1.0, .l1 = 0.8, .mma_sync = 0.6, .wgmma = 0.74};
  constexpr double l2_attained = 0.7;
  const double waits = keeps_stacks(query, gpu) ? 0.0 : told(query, "stack_waits");
  const double sooner = sooner_when_warm(query);
  const double mean = sooner * told(query, "warp_cycles") + waits,
               longest = sooner * told(query, "longest_cycles") + waits;
  const bool by_groups = multiplies_by_groups(query);
  constexpr double alike = 1.1;
  const auto [load, rounds] = turns_of(query, gpu, by_groups && longest <= alike * mean);
  const Busy each = busy_of(query, gpu, load.blocks, attained);
  const double l2 = l2_seconds(query, gpu) / l2_attained;
  // That of a block whose warps are alike has the units' time in it. Of several blocks each hides
  // what others wait for, and so do roles.
  const double alone = rounds * mean / gpu.clock_hz;
  const bool one_at_a_time = load.at_once() <= 1 && told(query, "roles") == 0;
  const double sharpness = streams(query) ? apart : together;
  const double busy = each.busiest();
  double all = 0;
  if (by_groups) {
    const double turns = taking_turns(each, load.blocks, mean, gpu);
    const double on_sm = one_at_a_time ? std::max(busy, alone) : felt(apart, {turns, alone});
    all = felt(together, {felt(apart, {on_sm, l2}), memory_seconds});
  } else {
    // What goes to memory goes through the L2 cache on its way: the slower of the two is felt.
    const double moved = std::max(memory_seconds, l2);
    all = one_at_a_time ? felt(sharpness, {std::max(busy, alone), moved})
                        : felt(sharpness, {busy, alone, moved});
  }
  // The block that has most to do goes on when all others have ended.
  const double of_longest = mean > 0 ? busy / load.blocks * longest / mean : 0.0;
  const double last = felt(sharpness, {of_longest, longest / gpu.clock_hz});
  return std::max({all, last, start_seconds(query, gpu)});
}

}  // namespace phantora::detail
