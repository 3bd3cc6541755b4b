#pragma once

#include "cuda/cudnn/backend.hpp"
#include "cuda/library/operation.hpp"

#include <phantora/kernels/kernel_cost_model.hpp>

#include <cstddef>
#include <map>
#include <vector>

/// What an operation graph of the backend API means.
namespace phantora::cudnn {

/// Whether one of our engines runs the graph: it must hold operations that we know.
bool supported(const Descriptor& graph);

/// Engines that the heuristics offer: single-precision convolutions may use TF32 tensor cores or
/// not, which programs tell apart by the engine's numerical notes.
int engine_count(const Descriptor& graph);
bool uses_tensor_cores(const Descriptor& graph, std::int64_t engine);

std::size_t workspace_bytes(const Descriptor& graph, std::int64_t engine);

struct Execution {
  std::vector<KernelQuery> queries{};
  std::vector<library::Output> outputs{};
  std::vector<library::Input> inputs{};
};
/// @param pointers  device addresses by the tensors' unique ids.
Execution execution(const Descriptor& graph, std::int64_t engine,
                    const std::map<std::int64_t, void*>& pointers);

}  // namespace phantora::cudnn
