#pragma once

#include "simulation/transformer_sizes.hpp"

#include <phantora/kernels/kernels.hpp>
#include <phantora/simulation/workload.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace phantora::detail::transformer {

using Kernels = std::vector<Workload::KernelNumber>;

/// What a part of a layer launches: forward, backward for its input and for its weights, and again
/// before the backward pass where elementwise results were not kept.
struct Part {
  Kernels forward{}, input{}, weight{}, again{};
};

/// A pass over so many elements.
inline KernelQuery pass(double elements, int inputs = 1, ElementType type = ElementType::bf16) {
  return elementwise(std::max<std::int64_t>(1, static_cast<std::int64_t>(elements)), inputs, type);
}

/// What a rank launches, by the parts of a step.
struct StepKernels {
  Part norm{}, qkv{}, project{}, own_block{}, other_block{}, mlp{}, router{}, embed{}, logits{},
      loss{};
  Kernels residual{}, permute{}, accumulate{};
  /// PyTorch's collectives gather and scatter the first dimension, which is not the sequence's.
  Kernels rearrange{};
};
StepKernels step_kernels(Workload& workload, const Sizes& sizes);

}  // namespace phantora::detail::transformer
