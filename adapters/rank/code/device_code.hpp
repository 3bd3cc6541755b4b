#pragma once

#include "rank/code/code_walk.hpp"
#include "rank/kernels/kernel_effect.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

/// What a kernel moves, from its machine code: for kernels of which no signature tells (Triton's,
/// those of torch.compile, extern "C").
namespace phantora::rank {

/// Counts the accesses to global memory in a kernel's machine code.
Accesses accesses(std::span<const std::byte> code, int architecture);

/// Bytes that a launch reads and writes; nullopt where its code and its parameters do not tell.
///
/// Code without loops tells it: each thread executes each access once. How often loops run lies in
/// values that only execution knows: there the launch's elements count, which are told by
/// its integers and its grid. No launch moves more than what its pointers reach, read and written.
std::optional<double> moved_bytes(const Arguments& arguments, const KernelResources& resources);

/// Constant bank 0 of a launch; empty where it is not known how the code finds its parameters.
std::vector<std::byte> constants(const Arguments& arguments, const KernelResources& resources);

/// What the launch's warps do, unit by unit, as a walk of their code tells. `looked_at` gets what
/// of the constants that hangs on, `tables` the pointers to what is accessed at unknown places.
/// @param constants  of the launch, as constants() makes them
/// @param known      what is known of what the launch reads; nullptr: nothing is
std::optional<CodeWork> code_work(std::span<const std::byte> code, const LaunchShape& shape,
                                  std::span<const std::byte> constants,
                                  const KernelResources& resources, ReadConstants& looked_at,
                                  ReadConstants& tables, LaunchMemory* known = nullptr);

/// Whether a kernel's code waits for other GPUs, and tells them something.
bool meets_others(std::span<const std::byte> code, int architecture);

/// What that hangs on of the parameters' values, of which walks look at `of_interest`: all but
/// which device memory they lead to, and of `tables` how much of it.
std::uint64_t hash_of_values(const Arguments& arguments, const KernelResources& resources,
                             const ReadConstants& of_interest, const ReadConstants& tables);

/// The same as the cost model's features.
Features features_of(const CodeWork& work, const Arguments& arguments,
                     const KernelResources& resources);

/// The number of elements that a launch's integers and grid tell of: a grid of blocks of a power of
/// two elements covers an integer of them along each axis, and the largest integer that is left is
/// what each of them goes through. nullopt without integers.
std::optional<double> elements(const Arguments& arguments);

}  // namespace phantora::rank
