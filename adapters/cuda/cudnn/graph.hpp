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

/// What runs a graph. cuDNN has tens of engines for a convolution; ours stand for what a program
/// can tell of them.
struct Engine {
  /// Single-precision convolutions may use TF32 tensor cores or not, which programs tell apart by
  /// the engine's numerical notes.
  bool tensor_cores = false;
  /// Needs most workspace of all, and transforms its operands first, so that nobody keeps it. Who
  /// makes a plan of it tries all engines, and runs the fastest from then on.
  bool widest = false;
};
/// Engines that the heuristics offer, best first as far as these know.
std::vector<Engine> engines(const Descriptor& graph);

std::size_t workspace_bytes(const Descriptor& graph, Engine engine);

struct Execution {
  std::vector<KernelQuery> queries{};
  std::vector<library::Output> outputs{};
  std::vector<library::Input> inputs{};
};
/// @param pointers  device addresses by the tensors' unique ids.
Execution execution(const Descriptor& graph, Engine engine,
                    const std::map<std::int64_t, void*>& pointers);

}  // namespace phantora::cudnn
