#pragma once

#include "rank/kernels/code_walk.hpp"
#include "rank/kernels/launch_memory.hpp"

#include <cstddef>
#include <optional>
#include <vector>

/// What a launch does to memory, from the kernel's machine code: for kernels that nobody reads.
namespace phantora::rank {

struct Reach {
  std::vector<AddressRange> read{}, written{};
  bool knew = false;  ///< something known was read: other data may lead elsewhere
};

/// Executes all warps of the launch on what is known of memory, to its end, and writes what comes
/// out, known or not. nullopt, and nothing is written, where the code's way hangs on what is not
/// known, has instructions whose meaning is not written down, or is long.
/// @param shared  bytes of shared memory of each block.
std::optional<Reach> execute(const CodeLaunch& launch, std::size_t shared, const Writer& writer);

/// Where the launch's loads and stores go, by some of its warps, the first and the last among them,
/// which see the operands' ends. An address that is not known lies behind the parameter that it
/// comes from. nullopt where it comes from none.
std::optional<Reach> reach(const CodeLaunch& launch);

}  // namespace phantora::rank
