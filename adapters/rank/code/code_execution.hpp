#pragma once

#include "rank/code/behind_pointers.hpp"
#include "rank/code/code_walk.hpp"
#include "rank/code/launch_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
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
  std::int64_t steps = 0;            ///< instructions of warps that were executed
  bool gave = false;                 ///< something known, until it was too long
  std::vector<AddressRange> read{};  ///< what it came to hangs on what is known there
  std::vector<Given> given{};        ///< of a long one
  bool to_the_end = false;           ///< something was written as far as allocations go
};

/// What a launch came to that gave nothing known, or took long: for launches that have their
/// tensors elsewhere too.
struct Outcome {
  BehindPointers read{};
  KnownBytes known{};                       ///< of `read`
  std::optional<BehindPointers> written{};  ///< nullopt: the code does not tell
  bool never = false;     ///< such launches are never executed, whatever the data are
  int alike = 0;          ///< how often it was the same for other data, as far as as much was known
  mutable int taken = 0;  ///< how often it was taken to be the same
  BehindPointers given_at{};
  std::vector<Given> given{};  ///< with the ranges of the launch that was executed
};

/// Where addresses of memory that a device reaches lie in the constants.
std::vector<std::size_t> pointers(std::span<const std::byte> constants);

/// Instructions of warps that are worth any launch's execution, and a long one's, in which each
/// block does little: some 10 ms and 12 s. Sums over the blocks of a mask of 16,384 positions each
/// way, which Inductor makes of create_block_mask(), take 54 million.
inline constexpr std::int64_t most_executed = 40'000, most_executed_long = 64'000'000;

/// Executes all warps of the launch on what is known of memory, to its end, and writes what comes
/// out, known or not. Nothing, and nothing is written, where the code's way hangs on what is not
/// known, has instructions whose meaning is not written down, or is long: more than `most`
/// instructions, or more than `most_executed` for more bytes than operands are executed of, with a
/// fifth of them computing in floating point, or without anything known that was written by then.
/// @param shared  bytes of shared memory of each block.
Attempt execute(const CodeLaunch& launch, std::size_t shared, const Writer& writer,
                std::int64_t most = most_executed);

/// What long launches of kernels that nobody reads may cost. Those that give something known are
/// worth it, as control flow hangs on it, and a kernel of which launches did is trusted to; of
/// others a few are tried.
class LongLaunches {
 public:
  /// @param balance  of the kernel: instructions that gave nothing less those that did
  [[nodiscard]] std::int64_t most(std::int64_t balance) const {
    return balance < 0 || wasted_ <= most_wasted ? most_executed_long : most_executed;
  }
  void note(std::int64_t steps, bool gave, std::int64_t& balance) {
    if (gave) {
      balance = std::max(balance - steps, -most_credit);
    } else if (steps > most_executed) {
      balance += steps;
      wasted_ += steps;
    }
  }

 private:
  static constexpr std::int64_t most_credit = 1'000'000;
  /// An instruction takes some 0.2 us: 0.1 s, less than a hundredth of what a program that compiles
  /// kernels begins with.
  static constexpr std::int64_t most_wasted = 500'000;
  std::int64_t wasted_ = 0;
};

/// Where the launch's loads and stores go, by some of its warps, the first and the last among them,
/// which see the operands' ends. An address that is not known lies behind the parameter that it
/// comes from. Nothing where it comes from none.
Attempt reach(const CodeLaunch& launch);

/// What the launch's stores may reach whatever its warps' ways are: all behind the parameters that
/// their addresses come from, and behind the pointers that lie there where they come from tables.
/// Nothing where the code does not tell.
Attempt reach_of_all_ways(const CodeLaunch& launch);

}  // namespace phantora::rank
