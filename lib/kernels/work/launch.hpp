#pragma once

#include "kernels/work/reading.hpp"

/// A launch of a kernel by name, as the rules for PyTorch's kernels see it.
namespace phantora::detail {

struct Launch {
  const KernelQuery& query;
  const KernelSignature& signature;
  double blocks = 0, threads = 0;  ///< 0 = not told
  double rows = 0, cols = 0;       ///< 0 = not told
  double size = 4;                 ///< of an element, in bytes
  double numel = 0;                ///< elements; 0 = not told

  std::string_view base() const { return signature.base; }
  bool is_reduction() const { return signature.base == "reduce_kernel"; }
};

/// As FLOP in fp32, what takes the whole GPU a picosecond.
constexpr double flops_per_ps = 64.0;

/// Rules of reductions.cpp: the round trips of one, and what finding its elements takes.
void reduce(KernelWork& work, const Launch& launch);
/// Whether the inputs of a reduction's result lie in several dimensions that are no single one, as
/// those of a channel in images do.
bool scattered_inputs(const KernelQuery& query);

/// Rules of channels.cpp: PyTorch's batch norm, and its depthwise convolutions.
void go_through_channels(KernelWork& work, const Launch& launch);

/// Rules of addresses.cpp: pooling, resizing, rolling and concatenation, which compute addresses
/// for longer than they move data.
void find_addresses(KernelWork& work, const Launch& launch);
/// Whether a concatenation's elements are placed one by one: vectors that the destination has room
/// for are moved whole.
bool places_parts(const Launch& launch);

}  // namespace phantora::detail
