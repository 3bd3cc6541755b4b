#pragma once

#include <phantora/kernels/kernel_cost_model.hpp>

#include <array>
#include <cstdint>
#include <string>

namespace phantora {

/// What carries the bytes.
enum class DataPath : std::uint8_t { device_memory, pcie, pcie_pageable, nvlink };

/// Whose kernels do a product.
enum class ProductKernel : std::uint8_t {
  plain,           ///< cuBLAS's
  convolution,     ///< cuDNN's for convolutions and gradients of their data
  many_taps,       ///< those for filters of many taps, whose k no SMs share
  filter_gradient  ///< cuDNN's for gradients of filters
};

/// What makes products on the tensor cores.
enum class TensorInstruction : std::uint8_t {
  newest,   ///< the one that reaches the GPU's peak: wgmma on Hopper, tcgen05 on Blackwell
  mma_sync  ///< a warp's own, which every GPU since Ampere has and code of older GPUs knows alone
};

/// The work that a launch asks for, independent of the GPU that does it.
///
/// A kernel is a matrix product (m, n, k, batch > 0), which may be done again and again and have
/// other arithmetic beside it (repeats, flops), or arithmetic cut into tiles (flops and tiles > 0),
/// or moves bytes only. All of them move bytes.
struct KernelWork {
  static constexpr std::size_t dimensions = 10;  ///< of `coordinates`

  /// Kernels whose efficiency may be compared, e.g. "gemm/half" or "reduce_kernel".
  std::string group{};
  /// The variant within the group, e.g. the operand layout or the functor.
  std::string family{};
  /// Where in its group the kernel lies, in units of the distance over which efficiencies stay
  /// alike. Unused ones are 0. The last is that of convolutions which are tried out.
  std::array<float, dimensions> coordinates{};

  KernelLimit limit = KernelLimit::memory;      ///< what holds it up
  Arithmetic arithmetic = Arithmetic::none;     ///< which units do it
  double m = 0, n = 0, k = 0, batch = 0;        ///< of a product; else 0
  ProductKernel kernel = ProductKernel::plain;  ///< that a product runs as
  /// That arithmetic cut into tiles is made of: products know theirs by their kernels.
  TensorInstruction instruction = TensorInstruction::newest;
  bool a_along_k = true, b_along_k = true;  ///< whether a product's operands lie along k
  double parts = 1;        ///< that k consists of, none of which shares a step with another
  double repeats = 1;      ///< of the product and its round trips, each waiting for the one before
  double alignment = 16;   ///< of the rows of its operands, in bytes, at most 16
  double flops = 0;        ///< of arithmetic that is no product
  double tiles = 0;        ///< that such arithmetic is cut into
  double steps = 0;        ///< of all tiles, each of which makes its own one after the other
  double longest = 0;      ///< of the tile that has most
  double step_flops = 0;   ///< a step takes as long as so many FLOP
  double step_cycles = 0;  ///< and on top so many cycles of an SM
  DataPath path = DataPath::device_memory;  ///< what the bytes go over
  double bytes = 0;                         ///< that must be moved at least
  double converted_bytes = 0;   ///< moved on top, by kernels that change an operand's layout
  double conversions = 0;       ///< such kernels
  double conversion_tiles = 0;  ///< of 32 x 32 elements, which they take one by one
  double blocks = 0;            ///< thread blocks that move them; 0 = enough to fill the GPU
  double starts = 0;         ///< thread blocks that are started one after the other; 0 = not told
  double round_trips = 0;    ///< to memory, that have to wait for each other
  double partial_trips = 0;  ///< of round_trips, to partial results that the launch itself wrote
  /// Loads one after the other that also take in what lies beside those partial results, and nobody
  /// wrote.
  double unwritten_loads = 0;
  /// Blocks that an SM runs at once, of a kernel whose threads each wait for one load after the
  /// other, as round trips to the L2 cache; 0 = another kernel.
  double resident = 0;
  bool exact = true;  ///< whether the bytes follow from the query, or are guessed from the grid
};

/// Reads a query's work off its name, grid, features and attributes (lib/kernels/README.md lists
/// the keys). Total: a kernel of which nothing is known is taken to move what its threads can load.
KernelWork describe(const KernelQuery& query);

/// How often the round trips are made one after the other on a GPU of so many SMs: blocks that no
/// SM has room for make theirs after others.
double waves_on(const KernelWork& work, int sms) noexcept;

}  // namespace phantora
