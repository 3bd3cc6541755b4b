#pragma once

#include <phantora/kernels/gpu_model.hpp>

#include <cstddef>

namespace phantora {

/// What a streaming multiprocessor holds at a time.
struct SmLimits {
  int threads = 2048;             ///< of all its blocks
  int blocks = 32;                ///< of any kernel
  int shared_bytes = 0;           ///< of all its blocks
  int shared_bytes_of_block = 0;  ///< that a block can ask for
  int registers = 65536;          ///< of 32 bits
};

/// Of an SM of the GPU's compute capability (CUDA C++ Programming Guide 13.0, table "Technical
/// Specifications per Compute Capability"), or of the one before where that is not listed here.
SmLimits sm_limits(const GpuModel& gpu);

/// What a block takes of its SM.
struct BlockResources {
  int threads = 1;               ///< of the block
  int registers = 0;             ///< of a thread; 0: not known, no limit
  std::size_t shared_bytes = 0;  ///< without what the driver keeps of each block's
};

/// Blocks of a kernel that an SM holds at a time, as cudaOccupancyMaxActiveBlocksPerMultiprocessor
/// has it; 0 where not even one fits.
int blocks_per_sm(const GpuModel& gpu, const BlockResources& block);

}  // namespace phantora
