#pragma once

#include "rank/kernels/kernel_launch.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace phantora::rank {

/// A __device__, __constant__ or __managed__ variable, as the code of its module tells of it.
struct ModuleVariable {
  std::size_t size = 0;  ///< 0: only a compiler knows (the stand-in NVRTC)
  bool constant = false;
  /// At first; empty of what is too long to be of interest, and where the code does not tell.
  std::vector<std::byte> value{};
};
/// What is longer than the data that are executed on needs no value.
inline constexpr std::size_t largest_value = 256 * 1024;
/// By its name in the GPU's code; nothing where that has none.
std::optional<ModuleVariable> variable(const Module& module, const char* name);

}  // namespace phantora::rank
