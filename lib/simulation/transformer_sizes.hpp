#pragma once

#include <phantora/simulation/transformer.hpp>
#include <phantora/units.hpp>

#include <cstdint>

/// Training steps of transformers, in parts: sizes, places of ranks, kernels; transformer.cpp puts
/// them together.
namespace phantora::detail::transformer {

constexpr double element = 2;  // bytes of weights and activations

inline Bytes bytes(double count) { return Bytes{static_cast<std::int64_t>(count)}; }

double hidden_of_keys(const TransformerShape& shape);
double table_parameters(const TransformerShape& shape);
double norm_parameters(const TransformerShape& shape);

/// What one rank has of a shape, checked to be divisible as it is told. Weights in elements.
struct Sizes {
  Sizes(const TransformerShape& shape, const Parallelism& parallelism,
        const TrainingRecipe& recipe);

  /// Of one layer: without experts, and with its own alone.
  [[nodiscard]] double dense_layer() const;
  [[nodiscard]] double expert_layer() const;
  [[nodiscard]] double layer_weights() const { return dense_layer() + expert_layer(); }
  /// Those of the embedding and the head, where a stage has them.
  [[nodiscard]] double ends_weights(int stage) const;
  /// What one layer keeps of a micro-batch, bytes.
  [[nodiscard]] double layer_activations(Recompute recompute) const;
  /// What one layer keeps of a micro-batch between the halves of a backward pass besides, bytes:
  /// what the gradients of weights are made of, the gradients of what products and norms gave.
  [[nodiscard]] double layer_gradients() const;
  [[nodiscard]] int micro_batches() const { return p.batch / (p.data * p.micro_batch); }
  /// Of a micro-batch, in elements: logits that a rank has.
  [[nodiscard]] double logits() const {
    return static_cast<double>(tokens) * s.vocabulary / p.tensor;
  }
  /// Where words are divided PyTorch's loss_parallel goes in steps, between which the ranks speak.
  [[nodiscard]] bool loss_in_steps() const { return p.tensor > 1 && !r.fused; }
  [[nodiscard]] bool norms_in_passes() const { return !r.fused_norms && !s.biases; }
  /// Whether stages have a buffer for each micro-batch that they receive, and keep what they give
  /// until it is passed back, as torch.distributed.pipelining does.
  [[nodiscard]] bool buffers() const { return p.pipeline > 1 && !r.fused; }
  /// Of a micro-batch, bytes: all its tokens, and those that a rank's norms see.
  [[nodiscard]] double hidden_state() const {
    return static_cast<double>(tokens) * s.hidden * element;
  }
  [[nodiscard]] double hidden_state_part() const {
    return static_cast<double>(divided) * s.hidden * element;
  }

  TransformerShape s;
  Parallelism p;
  TrainingRecipe r;
  std::int64_t tokens;   ///< of a rank's micro-batch
  std::int64_t divided;  ///< those that its norms see
  int layers;            ///< of a chunk

 private:
  void check() const;
};

}  // namespace phantora::detail::transformer
