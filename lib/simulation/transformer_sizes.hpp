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
