#pragma once

#include "rank/code/code_walk.hpp"

#include <cstddef>
#include <span>
#include <vector>

/// Kernels that wait for other GPUs: all-reduces of engines that answer, PyTorch's on symmetric
/// memory. They set flags in the other GPUs' memory, and wait until the others have set theirs.
namespace phantora::rank {

/// The GPUs that a launch of such a kernel waits for, and the one that it runs on: those whose
/// memory shows where the parameters lead, or addresses in tables that the parameters lead to.
/// @param constants  of the launch, as constants() makes them
/// @param looked_at  what of them the code looks at; nullptr: all
/// @param device     that the launch runs on
/// @return distinct devices; `device` alone where nothing leads to another.
std::vector<int> gpus_met(std::span<const std::byte> constants, const ReadConstants* looked_at,
                          int device);

}  // namespace phantora::rank
