#pragma once

#include "rank/kernels/code_walk.hpp"
#include "rank/kernels/launch_memory.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

/// What a launch does to memory, from the kernel's machine code: for kernels that nobody reads.
namespace phantora::rank {

struct Reach {
  std::vector<AddressRange> written{};
  bool gave = false;  ///< something known was written
};

/// nullopt, and why.
struct Attempt {
  std::optional<Reach> reach{};
  Obstacle obstacle = Obstacle::none;
  std::vector<AddressRange> read{};  ///< what it came to hangs on what is known there
};

/// What a launch came to that gave nothing known.
struct Outcome {
  std::vector<AddressRange> read;
  std::uint64_t content = 0;                         ///< of `read`: what is known there
  std::optional<std::vector<AddressRange>> written;  ///< nullopt: the code does not tell
  int alike = 0;  ///< how often it was the same for other data, of what is never executed
};

/// Where addresses of memory that a device reaches lie in the constants.
std::vector<std::size_t> pointers(std::span<const std::byte> constants);

/// Executes all warps of the launch on what is known of memory, to its end, and writes what comes
/// out, known or not. Nothing, and nothing is written, where the code's way hangs on what is not
/// known, has instructions whose meaning is not written down, or is long.
/// @param shared  bytes of shared memory of each block.
Attempt execute(const CodeLaunch& launch, std::size_t shared, const Writer& writer);

/// Where the launch's loads and stores go, by some of its warps, the first and the last among them,
/// which see the operands' ends. An address that is not known lies behind the parameter that it
/// comes from. Nothing where it comes from none.
Attempt reach(const CodeLaunch& launch);

/// What the launch's stores may reach whatever its warps' ways are: all behind the parameters that
/// their addresses come from, and behind the pointers that lie there where they come from tables.
/// Nothing where the code does not tell.
Attempt reach_of_all_ways(const CodeLaunch& launch);

}  // namespace phantora::rank
