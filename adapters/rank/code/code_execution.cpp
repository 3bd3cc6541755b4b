#include "rank/code/code_execution.hpp"

#include "rank/code/warp.hpp"
#include "rank/kernels/assumed_choice.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/memory/host_reach.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

namespace phantora::rank {

namespace {

using namespace code;

/// Of any warp: where it is told that it has nothing to do.
constexpr double least_instructions = 10;
/// Of a launch of which only some warps are looked at: so many are enough, and more than that too
/// long.
constexpr std::int64_t enough_looked_at = 5'000, most_looked_at = 100'000;
/// Of a block's execution, before anybody knows whether it gives something known: 0.4 s.
constexpr std::int64_t most_of_block = 2'000'000;

KernelQuery::Dim3 place(std::uint64_t block, const KernelQuery::Dim3& grid) {
  return {static_cast<std::uint32_t>(block % grid.x),
          static_cast<std::uint32_t>(block / grid.x % grid.y),
          static_cast<std::uint32_t>(block / grid.x / grid.y)};
}

unsigned warps_of(const CodeLaunch& launch) {
  return static_cast<unsigned>(std::ceil(launch.block.count() / lanes));
}

/// What programs decide by is counted and compared: long arithmetic in floating point, as of a
/// matrix product or a stencil, is timed and not executed. It is 31 to 34 % of the instructions of
/// a tiled product of 64 to 128 rows, and 5 % of a saxpy's (nvcc 13.0, sm_90).
bool multiplies(const Walk& walk) { return walk.products > walk.steps / 5; }

/// Its warps by turns, from barrier to barrier.
bool execute_block(Walk& walk, const KernelQuery::Dim3& block) {
  std::vector<Warp> warps;
  warps.reserve(warps_of(walk.launch));
  for (unsigned w = 0; w < warps_of(walk.launch); ++w) warps.emplace_back(walk, block, w * lanes);
  for (bool all_ended = false; !all_ended;) {
    all_ended = true;
    for (Warp& warp : warps) {
      if (!warp.run()) return false;
      all_ended = all_ended && warp.ended();
    }
  }
  return true;
}

}  // namespace

std::vector<std::size_t> pointers(std::span<const std::byte> constants) {
  // No memory is below 64 KiB (vm.mmap_min_addr), nor beyond a process's 47 bits.
  constexpr std::uint64_t least = 1U << 16, bits = 47;
  std::vector<std::size_t> places;
  for (std::size_t at = 0; at + sizeof(void*) <= constants.size(); at += sizeof(void*)) {
    const std::uint64_t word = pointer_at(constants, at);
    if (word < least || word >> bits != 0) continue;
    const auto* const address = reinterpret_cast<std::byte*>(word);
    if (allocation_of(address) || reached_by_device(address)) places.push_back(at);
  }
  return places;
}

Attempt execute(const CodeLaunch& launch, std::size_t shared, const Writer& writer,
                std::int64_t most) {
  const double blocks = launch.grid.count();
  if (blocks * warps_of(launch) * least_instructions > static_cast<double>(most))
    return {.obstacle = Obstacle::length};
  const Program program = parse(launch.code, launch.architecture, launch.links);
  if (program.code.empty()) return {.obstacle = Obstacle::code};
  LaunchMemory memory;
  Walk walk{.launch = launch, .program = program, .memory = &memory};
  // Since sm_90 the first KiB is the system's, and a program's own begins behind it.
  constexpr std::size_t reserved = 1024;
  SharedBytes of_block;
  walk.shared = &of_block;
  walk.pointers = pointers(launch.constants);
  // Without them a store to an address that is not known ends the execution.
  if (walk.pointers.size() > most_pointers) walk.pointers.clear();
  bool gave = false;  // looked for in long launches alone
  for (double block = 0; block < blocks; ++block) {
    walk.limit = std::min(most, walk.steps + most_of_block);
    of_block = {std::vector<std::byte>(reserved + shared),
                std::vector<std::uint8_t>(reserved + shared)};
    if (!execute_block(walk, place(static_cast<std::uint64_t>(block), launch.grid)))
      return {.obstacle = walk.obstacle, .steps = walk.steps, .read = memory.read()};
    // Most blocks do as much as the first, and all as much as the first sixteenth.
    const double allowed = 16 * (block + 1) > blocks ? 1.1 : 2.0;
    const double alike = blocks / (block + 1);
    const double steps = static_cast<double>(walk.steps) * alike,
                 bytes = static_cast<double>(memory.written_bytes()) * alike;
    if (steps > allowed * static_cast<double>(most) ||
        (steps > 2.0 * most_executed &&
         (bytes > 2.0 * static_cast<double>(executed_bytes()) || multiplies(walk))) ||
        (walk.steps > most_executed && !(gave = gave || memory.gave())))
      return {.obstacle = Obstacle::length, .steps = walk.steps, .gave = gave};
  }
  std::vector<Given> given = memory.commit(writer);
  Reach reach{memory.written(), memory.gave()};
  reach.written.insert(reach.written.end(), memory.lost().begin(), memory.lost().end());
  Attempt made{.reach = std::move(reach),
               .steps = walk.steps,
               .read = memory.read(),
               .to_the_end = !memory.lost().empty()};
  if (walk.steps > most_executed) made.given = std::move(given);
  return made;
}

Attempt reach(const CodeLaunch& launch) {
  const Program program = parse(launch.code, launch.architecture, launch.links);
  if (program.code.empty()) return {.obstacle = Obstacle::code};
  LaunchMemory memory;
  Walk walk{.launch = launch, .program = program, .limit = most_looked_at, .memory = &memory};
  walk.pointers = pointers(launch.constants);
  if (walk.pointers.size() > most_pointers) return {.obstacle = Obstacle::code};
  const auto blocks = static_cast<std::uint64_t>(launch.grid.count());
  const std::uint64_t warps = warps_of(launch);
  // The ends along each axis of the grid, and some in between.
  std::vector<std::uint64_t> sample{0, blocks - 1, launch.grid.x - 1,
                                    std::uint64_t{launch.grid.x} * launch.grid.y - 1};
  constexpr double golden = 0.6180339887498949;
  for (double k = 1; k <= 8; ++k)
    sample.push_back(static_cast<std::uint64_t>((k * golden - std::floor(k * golden)) *
                                                static_cast<double>(blocks)));
  std::map<std::uint64_t, bool> stored;  // by number of the warp
  const auto look_at = [&](std::uint64_t warp) {
    if (stored.contains(warp)) return true;
    const std::int64_t before = walk.stores;
    Warp on_its_way{walk, place(warp / warps, launch.grid),
                    static_cast<unsigned>(warp % warps) * lanes};
    if (!on_its_way.run()) return false;
    stored[warp] = walk.stores > before;
    return true;
  };
  for (const std::uint64_t block : sample) {
    if (block != 0 && block != blocks - 1 && walk.steps > enough_looked_at) break;
    for (const std::uint64_t warp : {std::uint64_t{0}, warps / 2, warps - 1})
      if (!look_at(block * warps + warp)) return {.obstacle = walk.obstacle, .read = memory.read()};
  }
  // A grid may go beyond the operands' end: the last warp that stores is looked for.
  const auto last = std::find_if(stored.rbegin(), stored.rend(), [](auto& w) { return w.second; });
  if (last != stored.rend() && last != stored.rbegin()) {
    std::uint64_t stores = last->first, does_not = std::prev(last)->first;
    while (does_not - stores > 1) {
      const std::uint64_t middle = stores + (does_not - stores) / 2;
      if (!look_at(middle)) return {.obstacle = walk.obstacle, .read = memory.read()};
      (stored[middle] ? stores : does_not) = middle;
    }
  }
  Reach reach;
  for (const Extent& extent : walk.extents) {
    if (extent.first >= extent.last) continue;
    // An access that goes to several allocations has its addresses from a table.
    const auto at = [](std::uint64_t address) { return reinterpret_cast<std::byte*>(address); };
    const auto from = allocation_of(at(extent.first)), to = allocation_of(at(extent.last - 1));
    if (!extent.written) continue;
    if (from ? to && from->base == to->base : !to) {
      reach.written.push_back({extent.first, extent.last});
    } else {
      walk.store_somewhere(static_cast<std::size_t>(&extent - walk.extents.data()));
    }
  }
  // Warps that are not looked at have their tables between those of the others.
  for (std::size_t access = 0; access < walk.extents.size(); ++access) {
    if (walk.extents[access].written && walk.extents[access].unknown) walk.store_somewhere(access);
  }
  if (walk.lost()) return {.obstacle = walk.obstacle, .read = memory.read()};
  reach.written.insert(reach.written.end(), memory.lost().begin(), memory.lost().end());
  return {.reach = std::move(reach), .read = memory.read(), .to_the_end = !memory.lost().empty()};
}

Attempt reach_of_all_ways(const CodeLaunch& launch) {
  const Program program = parse(launch.code, launch.architecture, launch.links);
  LaunchMemory memory;
  Walk walk{.launch = launch, .program = program, .memory = &memory};
  walk.pointers = pointers(launch.constants);
  for (std::size_t at = 0; at < program.code.size(); ++at) {
    const unsigned operation = program.code[at].operation();
    const auto number = static_cast<std::size_t>(program.number[at]);
    if (is_access(operation) && !is_load(operation) && !walk.stays_on_chip(number, operation))
      walk.store_somewhere(number);
  }
  if (program.code.empty()) walk.stop_unless(false, Obstacle::code);
  if (walk.lost()) return {.obstacle = walk.obstacle, .read = memory.read()};
  return {.reach = Reach{memory.lost()}, .read = memory.read(), .to_the_end = true};
}

}  // namespace phantora::rank
