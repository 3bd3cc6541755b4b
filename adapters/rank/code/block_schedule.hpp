#pragma once

#include <phantora/kernels/kernel_cost_model.hpp>

#include <vector>

/// How blocks that are not alike fill a GPU.
namespace phantora::rank {

/// Blocks along the first dimension of a grid that has several.
double row_of(const KernelQuery::Dim3& grid);

/// What one block of a launch takes, cycles.
struct BlockTime {
  double block = 0;  ///< its number
  double cycles = 0;
};

/// How unevenly SMs get blocks; 1: evenly, 0: not known.
struct Unevenness {
  /// When the last block ends, in the time that they would take on average.
  double ends = 0;
  /// What the blocks of the SM that gets most take, by the mean of the SMs.
  double work = 0;
};

/// Blocks begin in the order of their numbers, each where another has ended. What a block takes is
/// what those took that are known and lie next to it along the grid's first dimension, in turn:
/// what masks leave of attention hangs on that, while the others count heads and sequences.
/// @param known  of some of the blocks, not none
/// @param at_a_time  blocks that an SM holds
Unevenness unevenness(const std::vector<BlockTime>& known, const KernelQuery::Dim3& grid, int sms,
                      int at_a_time);

}  // namespace phantora::rank
