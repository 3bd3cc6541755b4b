#pragma once

#include "rank/kernels/kernel_launch.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace phantora::rank {

/// A __device__, __constant__ or __managed__ variable, as the code of its module tells of it.
struct ModuleVariable {
  std::size_t size = 0;
  bool constant = false;
  std::vector<std::byte> value{};  ///< at first; empty of what is too long to be of interest
};
/// By its name in the GPU's code; nothing where that does not tell (PTX).
std::optional<ModuleVariable> variable(const Module& module, const char* name);

}  // namespace phantora::rank
