#pragma once

#include <phantora/kernels/kernels.hpp>
#include <phantora/simulation/pipeline.hpp>
#include <phantora/simulation/workload.hpp>

#include <cstdint>

/// Training steps of transformers as workloads, from shapes alone.
namespace phantora {

/// A decoder: norms, attention with grouped keys, an MLP or experts.
struct TransformerShape {
  int layers = 32;           ///< of attention and MLP each
  int hidden = 4096;         ///< width of a token
  int heads = 32;            ///< of queries
  int key_heads = 8;         ///< of keys and values
  int mlp = 14336;           ///< width of the MLP, or of an expert
  int vocabulary = 128256;   ///< tokens that there are
  int sequence = 4096;       ///< tokens
  int experts = 0;           ///< of each layer; 0: a plain MLP
  int experts_of_token = 2;  ///< those that each token goes to
  bool gated = true;         ///< three matrices in the MLP (SwiGLU); else two
  bool rotary = true;        ///< positions are rotations; else learned, `sequence` of them
  bool biases = false;       ///< of all linear layers, and layer norms in place of RMS norms
  bool tied = false;         ///< the head's weights are the embedding's
};
/// Weights of all layers, the embedding and the head.
double parameters(const TransformerShape& shape);
/// Those that a token meets: of the experts, its own.
double active_parameters(const TransformerShape& shape);
/// Floating-point operations that a step needs for each of its sequences: 6 for each parameter that
/// a token meets but the embedding's, and those of causal attention.
double flops_per_sequence(const TransformerShape& shape);

/// What replicas share instead of having each its own.
enum class Sharding : std::uint8_t {
  none,       ///< all_reduce of gradients (DistributedDataParallel)
  optimizer,  ///< ZeRO-1: reduce_scatter of gradients, all_gather of weights
  gradients,  ///< ZeRO-2: also the gradients, hence a reduce_scatter for each micro-batch
  /// ZeRO-3, FSDP: also the weights. Each layer's are gathered before its forward and its backward
  /// pass, while the layer before it computes, and its gradients scattered while the next one does.
  parameters,
};
/// What is computed a second time instead of being kept for the backward pass.
enum class Recompute : std::uint8_t {
  none,
  selective,  ///< norms and the MLP's activation function, but no matrix product or attention
  full,       ///< all of a layer but its input
};
/// How keys and values get to the ranks that share a sequence.
enum class ContextExchange : std::uint8_t {
  ring,        ///< from neighbour to neighbour, each while the block before it is computed
  all_gather,  ///< all before the first block
};

/// How a step is divided. Ranks of a tensor group are neighbours, then those of a context group, a
/// data group, and the stages: rank = ((stage * data + replica) * context + slice) * tensor + part.
/// Groups of experts are of neighbouring replicas.
struct Parallelism {
  int tensor = 1;       ///< parts of each layer
  int pipeline = 1;     ///< stages
  int data = 1;         ///< replicas
  int batch = 1;        ///< sequences of a step, of all replicas together
  int micro_batch = 1;  ///< sequences of a replica that go through the stages at a time
  int context = 1;      ///< parts of each sequence. For weights they count as replicas
  int expert = 1;       ///< replicas that share the experts of a layer; divides `data`
  int chunks = 1;       ///< parts of the model that each stage has (interleaved schedules)
  /// Order of the pipeline's passes.
  PipelineSchedule schedule = PipelineSchedule::one_forward_one_backward;
  Sharding sharding = Sharding::optimizer;  ///< what replicas share
  /// Gradients of the last micro-batch are reduced as soon as so many are there, beside the
  /// backward pass; 0: all of them after it.
  Bytes bucket{};
  Recompute recompute = Recompute::none;  ///< what is computed again
  int recompute_every =
      1;  ///< of so many layers of a stage one, the last of them, is computed again
  ContextExchange exchange = ContextExchange::ring;  ///< of keys and values, in context groups
  /// Norms are divided too: all_gather before each half of a layer and reduce_scatter after it;
  /// else an all_reduce after it.
  bool sequence_parallel = true;
  /// What those gather is kept for the backward pass, as PyTorch does; else gathered again, as
  /// Megatron does, which takes less memory.
  bool keep_gathered = true;
  /// What tensor groups gather and scatter passes beside the products that take or make it, part by
  /// part, as with Transformer Engine's user buffers or PyTorch's asynchronous tensor parallelism;
  /// what the last part scatters comes after them. Only with `sequence_parallel`.
  bool overlap_tensor = false;
  /// GPUs that it takes.
  [[nodiscard]] int ranks() const noexcept { return tensor * context * pipeline * data; }
};

/// Whose kernels compute attention.
enum class AttentionKernels : std::uint8_t {
  /// What PyTorch 2.11 takes on the GPU: cuDNN's on compute capability 9 and 10, else
  /// FlashAttention 2.
  pytorch,
  cudnn,              ///< as Transformer Engine has it on Hopper
  flash_attention_2,  ///< PyTorch's, which had it on every GPU before it preferred cuDNN
};

/// How numbers are kept, and what kernels pass over them.
struct TrainingRecipe {
  // Bytes for each parameter. Weights and activations are bf16. The defaults are mixed precision:
  // fp32 gradients; fp32 weights and both moments of Adam.
  double gradient = 4;    ///< bytes of each gradient
  double optimizer = 12;  ///< bytes for each parameter beside its bf16 weight
  /// Activation functions, rotary embeddings, the loss, merges of a context group's blocks and the
  /// accumulation of gradients are a pass each or a part of a product, as torch.compile or
  /// Megatron's fused kernels have them; else the passes that PyTorch makes of them, with its
  /// copies around the collectives of sequences, and the buffers of torch.distributed.pipelining.
  bool fused = true;
  /// The products of a layer, but the router's, take 8-bit floats with a scale for each tensor
  /// (current scaling): activations, gradients and, whenever they were gathered, weights are looked
  /// through for their largest value and converted, along both dimensions. What is kept,
  /// sent and gathered counts as bf16. Adam converts weights that are not gathered.
  bool fp8 = false;
  AttentionKernels attention = AttentionKernels::pytorch;  ///< whose kernels compute it
  /// RMS norms are a kernel forward and two backward, as those of PyTorch 2.11 and Transformer
  /// Engine; else PyTorch's passes in fp32, as Transformers' LlamaRMSNorm and, before PyTorch had a
  /// kernel, torch.nn.RMSNorm make them. Layer norms have always been kernels.
  bool fused_norms = true;
};

/// Each step runs the kernels of every layer of every micro-batch and the communication of every
/// group: of tensor groups (the embedding and the head are divided by words), of experts
/// (all_to_all before and after them, loads taken as equal), of context groups, messages between
/// stages, of replicas; then Adam. A norm's weights and a router's, which are divided among no
/// tensor group in truth, count as if they were. Memory: weights, gradients (kept from step to
/// step), the optimizer's state, activations that backward passes need, gradients between the two
/// halves of a backward pass (zero bubble), gathered weights, and what the loss takes. Attention
/// never holds its scores (flash attention). Each step is marked.
///
/// @throws ArgumentError if a size is not positive, or does not divide what it has to: heads, key
///   heads, MLP, vocabulary and sequence by `tensor`, layers by pipeline * chunks, the batch by
///   data * micro_batch, the sequence by context * tensor, experts and data by `expert`; if there
///   are several chunks and one stage.
Workload training_steps(const TransformerShape& shape, const Parallelism& parallelism,
                        int steps = 1, const TrainingRecipe& recipe = {});

}  // namespace phantora
