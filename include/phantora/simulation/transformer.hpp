#pragma once

#include <phantora/kernels/kernels.hpp>
#include <phantora/simulation/workload.hpp>

#include <cstdint>

/// Training steps of transformers as workloads, from shapes alone.
namespace phantora {

/// A decoder: RMS norms, attention with grouped keys, a gated MLP.
struct TransformerShape {
  int layers = 32;
  int hidden = 4096;
  int heads = 32;
  int key_heads = 8;
  int mlp = 14336;  ///< width of the MLP
  int vocabulary = 128256;
  int sequence = 4096;  ///< tokens
};
/// Weights of all layers, the embedding and the head.
double parameters(const TransformerShape& shape);
/// Floating-point operations that a step needs for each of its sequences: 6 for each parameter but
/// the embedding's and token, and those of causal attention.
double flops_per_sequence(const TransformerShape& shape);

/// How a step is divided. Ranks of a tensor group are neighbours, then those of a data group, then
/// the stages: rank = (stage * data + replica) * tensor + part.
struct Parallelism {
  int tensor = 1;       ///< parts of each layer, with sequence parallelism between them
  int pipeline = 1;     ///< stages, one forward and one backward in turn (1F1B)
  int data = 1;         ///< replicas, which share the optimizer's state (ZeRO-1)
  int batch = 1;        ///< sequences of a step, of all replicas together
  int micro_batch = 1;  ///< sequences of a replica that go through the stages at a time
  [[nodiscard]] int ranks() const noexcept { return tensor * pipeline * data; }
};

/// Mixed-precision steps: bf16 weights and activations, fp32 gradients and Adam.
///
/// Each step runs the kernels of every layer of every micro-batch, the collectives of the tensor
/// groups (all_gather before each half of a layer and reduce_scatter after it), the messages
/// between stages, and after the last micro-batch reduce_scatter of the gradients, Adam on each
/// rank's share, all_gather of the weights. Memory: weights, gradients, the optimizer's state, and
/// the activations that backward passes need, as Megatron with sequence parallelism and a fused
/// attention keeps them (34 bytes per element of the hidden state, divided by the tensor group:
/// Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", equation 4
/// without the attention's term). Nothing is recomputed. Each step is marked.
///
/// @throws ArgumentError if a size is not positive, or does not divide what it has to: heads, key
///   heads, MLP, vocabulary and sequence by `tensor`, layers by `pipeline`, the batch by data times
///   micro_batch.
Workload training_steps(const TransformerShape& shape, const Parallelism& parallelism,
                        int steps = 1);

}  // namespace phantora
