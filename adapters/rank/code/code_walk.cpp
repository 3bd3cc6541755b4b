#include "rank/code/code_walk.hpp"

#include "rank/code/code_execution.hpp"
#include "rank/code/store_origins.hpp"
#include "rank/code/warp.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace phantora::rank {

namespace {

using namespace code;

/// Of all samples together: a round of a block's warps, each as long as it may be, is not finished.
constexpr std::int64_t longest_walk = 4 * most_steps;

/// Takes from the sectors of each load those that warps of a block have in common, all but once.
void share_reads(const Walk& walk, const std::vector<std::vector<std::uint64_t>>& first,
                 const std::vector<std::vector<std::uint64_t>>& second, unsigned warps,
                 std::vector<double>& sectors) {
  if (first.empty()) return;
  std::vector<std::uint64_t> read;
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (!walk.extents[i].written) read.insert(read.end(), first[i].begin(), first[i].end());
  }
  std::sort(read.begin(), read.end());
  for (std::size_t i = 0; i < second.size(); ++i) {
    if (second[i].empty() || walk.extents[i].written) continue;
    const auto shared = std::count_if(
        second[i].begin(), second[i].end(),
        [&](std::uint64_t sector) { return std::binary_search(read.begin(), read.end(), sector); });
    const double common = static_cast<double>(shared) / static_cast<double>(second[i].size());
    sectors[i] *= 1.0 - common + common / warps;
  }
}

/// The same bytes by ranges that are apart.
std::vector<AddressRange> joined(std::vector<AddressRange> ranges) {
  std::erase_if(ranges, [](const AddressRange& range) { return range.first >= range.last; });
  std::ranges::sort(ranges, {}, &AddressRange::first);
  std::vector<AddressRange> apart;
  for (const AddressRange& range : ranges) {
    if (!apart.empty() && range.first <= apart.back().last) {
      apart.back().last = std::max(apart.back().last, range.last);
    } else {
      apart.push_back(range);
    }
  }
  return apart;
}

/// Bytes that ranges have in all.
double united(std::vector<AddressRange> ranges) {
  double bytes = 0;
  for (const AddressRange& range : joined(std::move(ranges)))
    bytes += static_cast<double>(range.last - range.first);
  return bytes;
}

/// Takes from the sectors of each load what L1 caches answer: tables that all blocks read (weights
/// of a norm, a filter) come to each SM once.
void keep_tables(const Walk& walk, std::vector<double>& sectors) {
  const double sms = walk.launch.sms;
  if (sms == 0) return;
  const auto comes_once = [&](std::size_t i) {
    const Extent& extent = walk.extents[i];
    return sms * static_cast<double>(extent.last - extent.first) / sector_bytes;
  };
  std::vector<std::size_t> reused;
  std::vector<AddressRange> tables;
  for (std::size_t i = 0; i < sectors.size(); ++i) {
    const Extent& extent = walk.extents[i];
    if (extent.unknown || extent.written || extent.past_l1 || sectors[i] <= comes_once(i)) continue;
    reused.push_back(i);
    tables.push_back({extent.first, extent.last});
  }
  if (united(tables) > kept_of_l1) return;
  for (const std::size_t i : reused) sectors[i] = comes_once(i);
}

/// How much of what is accessed again and again the L2 cache keeps: all of an H100's 50 MB would
/// make single floats from 40 MB as fast as from 16 (48 us), which take 76, from 200 MB 140 and
/// from 1 GB 155 (bench/accuracy/triton_gathers.py). As much is there when a kernel runs again
/// (l2_full in lib/kernels/roofline.cpp).
constexpr double kept_of_l2 = 0.525;

/// What all accesses of one table, or to places that nobody knows, ask for.
struct Somewhere {
  double table = 0;  ///< bytes
  double kept = 0;   ///< bytes that the L2 cache holds of what is accessed here and there
  double behind_bases = 0, anywhere = 0, random = 0;
  double gone_to = 0;  ///< bytes of `behind_bases` that walks went to
  std::vector<AddressRange> shared{}, alone{};

  /// Behind an unknown base that one warp alone of those that were walked went to, the others'
  /// bases stand too, and those of the trips of loops that were counted through.
  [[nodiscard]] double asked() const {
    const double as_many = gone_to > 0 ? behind_bases / gone_to : 1.0;
    return anywhere + std::min(united(shared) + as_many * united(alone), behind_bases);
  }
  /// The share of accesses to what was accessed before that the cache does not answer.
  [[nodiscard]] double missed() const { return std::max(0.0, 1.0 - kept / table); }
};

/// Device memory that a launch moves one way.
struct Moved {
  double bytes = 0;   ///< what all its accesses reach, but no more than they ask for
  double random = 0;  ///< more than that, for accesses here and there
};
Moved moved(Walk& walk, const std::vector<double>& sectors, const std::vector<double>& random,
            bool written) {
  std::vector<AddressRange> reached;
  std::map<std::uint64_t, Somewhere> somewhere;
  double asked = 0;
  for (std::size_t i = 0; i < sectors.size(); ++i) {
    const Extent& extent = walk.extents[i];
    // What is added to is read before.
    const bool both = extent.atomics > 0;
    if ((extent.written != written && !both) || sectors[i] == 0) continue;
    const double bytes = sectors[i] * sector_bytes;
    if (!extent.unknown) {
      asked += bytes;
      reached.push_back({extent.first, extent.last});
      continue;
    }
    const Table& table = walk.table(i);
    Somewhere& there = somewhere[table.first];
    there.table = table.bytes;
    there.kept = kept_of_l2 * walk.launch.l2_bytes;
    there.random += extent.written == written ? random[i] : 0.0;
    if (extent.goes_anywhere()) {
      there.anywhere += bytes;
      continue;
    }
    there.behind_bases += bytes;
    there.gone_to += extent.gone_to * sector_bytes;
    for (const auto& [base, behind] : extent.behind) {
      // Whole sectors, also of a thread that goes elsewhere than all others.
      const std::uint32_t from = behind.first / sector_bytes * sector_bytes,
                          to = (behind.last + sector_bytes - 1) / sector_bytes * sector_bytes;
      (behind.shared ? there.shared : there.alone)
          .push_back({behind_base(base, from), behind_base(base, to)});
    }
  }
  Moved all{std::min(united(reached), asked)};
  for (const auto& [table, there] : somewhere) {
    const double wanted = there.asked(), missed = there.missed();
    // All of the table once, and what is asked for again and is gone.
    all.bytes += std::min(there.table, wanted) + std::max(0.0, wanted - there.table) * missed;
    // What lies beside comes with what is read, until all of the table is there.
    all.random += std::max(std::min(there.random, there.table - wanted), there.random * missed);
  }
  return all;
}

/// Where a launch's accesses of one kind go, of which `bytes` are moved.
std::vector<AddressRange> places_of(Walk& walk, const std::vector<double>& sectors, double bytes,
                                    bool written) {
  std::vector<AddressRange> places;
  for (std::size_t i = 0; i < sectors.size(); ++i) {
    const Extent& extent = walk.extents[i];
    if ((extent.written != written && extent.atomics == 0) || sectors[i] == 0) continue;
    AddressRange place{extent.first, extent.last};
    if (extent.unknown) {
      const Table& table = walk.table(i);
      if (table.first == 0 || table.first >= variables_base) continue;
      const double asked = std::min(table.bytes, sectors[i] * sector_bytes);
      place = {table.first, table.first + static_cast<std::uint64_t>(asked)};
    }
    const auto most = static_cast<std::uint64_t>(bytes);
    places.push_back({place.first, std::min(place.last, place.first + most)});
  }
  return joined(std::move(places));
}

/// Requests for the sector that most atomics go to: where those of the sampled warps met.
double hot_atomics(const Walk& walk, const std::vector<double>& sectors) {
  std::unordered_map<std::uint64_t, double> requests;
  double most = 0;
  for (std::size_t i = 0; i < sectors.size(); ++i) {
    const Extent& extent = walk.extents[i];
    const auto different = static_cast<double>(extent.changed.size());
    if (!extent.hot()) continue;
    for (const std::uint64_t sector : extent.changed)
      most = std::max(most, requests[sector] += sectors[i] / different);
  }
  return most;
}

/// How atomics go. Those of a warp in one sector the L2 cache takes at once where the sectors are
/// many: reflection_pad2d_backward's take as long as the plain stores of the forward kernel (H100,
/// bench/accuracy/studies.py), eight threads to a sector.
struct Atomics {
  double all = 0;      ///< of threads
  double apart = 0;    ///< of them, taken one by one
  double sectors = 0;  ///< requests that the others make
};
Atomics atomics_of(const Walk& walk) {
  Atomics found;
  for (const Extent& extent : walk.extents) {
    found.all += extent.atomics;
    (extent.hot() ? found.apart : found.sectors) += extent.hot() ? extent.atomics : extent.requests;
  }
  return found;
}

/// What a warp took, by the numbers of its block and in it, and by what answered its loads.
struct Clocks {
  double block = 0;
  unsigned warp = 0;
  std::array<double, assumptions> cycles{};

  /// @param from_l2  share of what is read that the L2 cache answers
  [[nodiscard]] double mixed(double from_l2) const {
    return std::lerp(cycles[by_memory], cycles[by_l2], from_l2);
  }
};

/// The mean of the warp that has most to do in a block, since a block goes on until all of its
/// warps have ended, and the most that any has.
std::pair<double, double> cycles_of(const std::vector<Clocks>& clocks, unsigned warps,
                                    double from_l2) {
  std::vector<double> sum(warps), number(warps);
  double mean = 0, longest = 0;
  for (const Clocks& one : clocks) {
    const double cycles = one.mixed(from_l2);
    sum[one.warp] += cycles;
    number[one.warp] += 1;
    longest = std::max(longest, cycles);
  }
  for (unsigned w = 0; w < warps; ++w)
    if (number[w] > 0) mean = std::max(mean, sum[w] / number[w]);
  return {mean, longest};
}

std::vector<BlockTime> block_times(const std::vector<Clocks>& clocks, double from_l2) {
  std::vector<BlockTime> times;
  for (const Clocks& one : clocks) times.push_back({one.block, one.mixed(from_l2)});
  return times;
}

/// Whether the mean of what warps do is told well by those that were walked.
bool is_well_told(const std::vector<Clocks>& clocks) {
  constexpr double good = 0.03;  // the standard error, as a share of the mean
  double sum = 0, squares = 0;
  for (const Clocks& one : clocks) {
    const double cycles = one.cycles[by_memory];
    sum += cycles;
    squares += cycles * cycles;
  }
  const auto n = static_cast<double>(clocks.size());
  return squares / n - sum * sum / n / n < good * good * sum * sum / n;
}

/// Of a launch with no more warps than that all are walked, of others as many if they are alike.
constexpr double enough_samples = 40;

/// A warp of a block.
struct Sample {
  double block;
  unsigned warp;
};

/// All of them, or the first and the last, which see the operands' ends, and then pairs of rounds
/// of all the warps that a block has: warps have roles (one loads what the others multiply). In a
/// round each is in another block, and in the next in the block that lies as far from the other
/// end, since work often grows or falls from block to block (what masks leave of attention).
std::vector<Sample> samples_of(const KernelQuery::Dim3& grid, unsigned warps, double most_samples) {
  const double blocks = grid.count();
  constexpr unsigned border = 2;
  std::vector<Sample> samples;
  if (blocks * warps <= enough_samples) {
    for (double block = 0; block < blocks; ++block)
      for (unsigned warp = 0; warp < warps; ++warp) samples.push_back({block, warp});
    return samples;
  }
  samples = {{0, 0}, {blocks - 1, warps - 1}};
  // Evenly along the grid's first dimension and, each for itself, along the others: by its first
  // number a block of some kernels knows which of two things it does.
  const double row = row_of(grid), rows = blocks / row;
  constexpr double golden = 0.6180339887498949, of_rows = 0.41421356237309515;
  const auto part = [](double place, double of) {
    return std::floor((place - std::floor(place)) * of);
  };
  const double room = std::min(most_samples, blocks * warps) - border;
  const auto pairs = static_cast<unsigned>(std::max(1.0, room / (2 * warps)));
  for (unsigned pair = 0; pair < pairs; ++pair) {
    for (const bool mirrored : {false, true}) {
      for (unsigned warp = 0; warp < warps; ++warp) {
        const double number = pair * warps + warp + 1;
        const double block = part(number * golden, row) + row * part(number * of_rows, rows);
        samples.push_back({mirrored ? blocks - 1 - block : block, warp});
      }
    }
  }
  return samples;
}

}  // namespace

std::optional<CodeWork> walk(const CodeLaunch& launch) {
  const Program program = parse(launch.code, launch.architecture, launch.links);
  if (program.code.empty()) return std::nullopt;
  Walk walk{launch, program};
  const double threads = launch.block.count();
  const auto warps = static_cast<unsigned>(std::ceil(threads / lanes));
  const double blocks = launch.grid.count();
  // Warps that share registers out among them do other things than each other.
  const bool has_roles = std::ranges::any_of(
      program.code, [](const Instruction& i) { return i.operation() == op_usetmaxreg; });
  if (!has_roles) walk.side_by_side = std::max(1.0, warps / schedulers);

  // What is known of memory may be another for each block, so that more of them are looked at.
  const bool reads = launch.known != nullptr;
  constexpr double most_of_data = 1500, most_otherwise = 200;
  const std::vector<Sample> samples =
      samples_of(launch.grid, warps, reads ? most_of_data : most_otherwise);
  const bool whole = blocks * warps <= enough_samples;

  Counts total;
  total.sectors.resize(walk.extents.size());
  total.random.resize(walk.extents.size());
  std::vector<std::vector<std::uint64_t>> first, second;
  double all = 0, stack_waits = 0;
  std::vector<Clocks> clocks;
  std::size_t walked = 0;
  for (const Sample& sample : samples) {
    // Long ways are walked by fewer rounds, where they are alike, and the longest by one warp.
    constexpr std::int64_t enough_steps = 20'000, many_steps = 150'000;
    // Of lengths that data tell a few may be long.
    const double least_samples = reads ? enough_samples : 8;
    const bool pair_ends = walked > 2 && (walked - 2) % (2 * warps) == 0;
    if (!whole && pair_ends && all >= least_samples) {
      if (walk.steps > many_steps) break;
      const bool are_enough = walk.steps > enough_steps || (!reads && all >= enough_samples);
      if (are_enough && is_well_told(clocks)) break;
    }
    if (all > 0 && walk.steps > longest_walk) break;
    walk.limit = walk.steps + most_steps;
    const auto block = static_cast<std::uint64_t>(sample.block);
    const KernelQuery::Dim3 at{static_cast<std::uint32_t>(block % launch.grid.x),
                               static_cast<std::uint32_t>(block / launch.grid.x % launch.grid.y),
                               static_cast<std::uint32_t>(block / launch.grid.x / launch.grid.y)};
    ++walk.warps;
    Warp warp{walk, at, sample.warp * lanes};
    if (!warp.run()) return std::nullopt;
    const bool border = !whole && ++walked <= 2;
    if (border) continue;  // for the operands' ends alone
    const Counts& counts = warp.counts();
    total.add(counts);
    clocks.push_back({sample.block, sample.warp, warp.clocks()});
    stack_waits += warp.clocks()[stacks_by_l2] - warp.clocks()[by_memory];
    all += 1;
    // What a neighbour reads too comes from the L1 cache.
    if (all == 1 && warps > 1) {
      walk.limit = walk.steps + most_steps;
      Warp neighbour{walk, at,
                     (sample.warp + 1 < warps ? sample.warp + 1 : sample.warp - 1) * lanes};
      if (!neighbour.run()) return std::nullopt;
      first = warp.first_sectors();
      second = neighbour.first_sectors();
    }
  }
  const double weight = blocks * warps / all;
  const auto sum = [&](Counts::Unit unit) { return weight * total.sum[unit]; };
  const Atomics atomics = atomics_of(walk);
  const double of_threads = sum(Counts::atomics) / std::max(1.0, atomics.all);
  const double products = total.sum[Counts::half_flops] + total.sum[Counts::tf32_flops] +
                          total.sum[Counts::eight_flops];
  CodeWork work{.instructions = sum(Counts::instructions),
                .alu = sum(Counts::alu),
                .fma = sum(Counts::fma),
                .fp64 = sum(Counts::fp64),
                .special = sum(Counts::special),
                .l1_passes = sum(Counts::lsu),
                .half_flops = sum(Counts::half_flops),
                .tf32_flops = sum(Counts::tf32_flops),
                .eight_flops = sum(Counts::eight_flops),
                .fp64_flops = sum(Counts::fp64_flops),
                .mma_sync = total.sum[Counts::mma_sync_flops] / std::max(1.0, products),
                .atomics = of_threads * atomics.apart,
                .atomic_sectors = of_threads * atomics.sectors,
                .local_bytes = sum(Counts::local_bytes),
                .lone_sectors = sum(Counts::lone_sectors),
                .partial_sectors = sum(Counts::partial_sectors),
                .partial_lines = sum(Counts::partial_lines),
                .guessed = std::min(1.0, total.sum[Counts::guessed] /
                                             std::max(1.0, total.sum[Counts::instructions])),
                .roles = has_roles,
                .by_data = walk.by_data,
                .knew = walk.knew};
  std::vector<double> sectors = total.sectors;
  for (double& count : sectors) count *= weight;
  share_reads(walk, first, second, warps, sectors);
  keep_tables(walk, sectors);
  for (std::size_t i = 0; i < sectors.size(); ++i) work.sectors += sectors[i];
  work.hot_atomics = hot_atomics(walk, sectors);
  std::vector<double> random = total.random;
  for (double& bytes : random) bytes *= weight;
  const Moved read = moved(walk, sectors, random, false),
              written = moved(walk, sectors, random, true);
  work.read_bytes = read.bytes;
  work.written_bytes = written.bytes;
  work.random_bytes = read.random + written.random;
  if (!reads) {
    work.read = places_of(walk, sectors, read.bytes, false);
    work.written = places_of(walk, sectors, written.bytes, true);
  }
  double asked = 0;
  for (std::size_t i = 0; i < sectors.size(); ++i)
    asked += walk.extents[i].written ? 0.0 : sectors[i] * sector_bytes;
  const double from_l2 = asked > 0 ? std::max(0.0, 1.0 - read.bytes / asked) : 0.0;
  work.stack_waits = stack_waits / all;
  std::tie(work.warp_cycles, work.longest_cycles) = cycles_of(clocks, warps, from_l2);
  work.warm_cycles = cycles_of(clocks, warps, 1).first;
  // Where blocks are alike, or each SM has very many of them, they end at about the same time.
  constexpr double alike = 1.1, very_many = 32;
  const double at_a_time = static_cast<double>(launch.sms) * launch.at_a_time;
  if (products > 0 && !has_roles && work.longest_cycles > alike * work.warp_cycles &&
      blocks > at_a_time && blocks <= very_many * at_a_time)
    work.unevenness =
        unevenness(block_times(clocks, from_l2), launch.grid, launch.sms, launch.at_a_time);
  return work;
}

}  // namespace phantora::rank
