#include "simulation/transformer_sizes.hpp"

#include <phantora/error.hpp>

#include <string>
#include <utility>

namespace phantora::detail::transformer {

double hidden_of_keys(const TransformerShape& s) {
  return static_cast<double>(s.hidden) / s.heads * s.key_heads;
}
double table_parameters(const TransformerShape& s) { return double{1} * s.vocabulary * s.hidden; }
double norm_parameters(const TransformerShape& s) { return (s.biases ? 2.0 : 1.0) * s.hidden; }

namespace {

/// Of one MLP, or one expert.
double mlp_parameters(const TransformerShape& s) {
  const double h = s.hidden, f = s.mlp;
  return (s.gated ? 3 : 2) * h * f + (s.biases ? (s.gated ? 2 : 1) * f + h : 0);
}
/// Of one layer but its experts.
double dense_parameters(const TransformerShape& s) {
  const double h = s.hidden, keys = hidden_of_keys(s);
  const double attention = h * (2 * h + 2 * keys) + (s.biases ? 2 * h + 2 * keys : 0);
  return attention + 2 * norm_parameters(s) + (s.experts > 0 ? h * s.experts : mlp_parameters(s));
}
double expert_parameters(const TransformerShape& s, double experts) {
  return s.experts > 0 ? experts * mlp_parameters(s) : 0;
}
/// Of the embedding, with positions where they are learned.
double embedding_parameters(const TransformerShape& s) {
  return table_parameters(s) + (s.rotary ? 0 : double{1} * s.sequence * s.hidden);
}
double head_parameters(const TransformerShape& s) {
  return norm_parameters(s) + (s.tied ? 0 : table_parameters(s));
}

}  // namespace

Sizes::Sizes(const TransformerShape& shape, const Parallelism& parallelism,
             const TrainingRecipe& recipe)
    : s{shape}, p{parallelism}, r{recipe} {
  check();
  tokens = std::int64_t{s.sequence} / p.context * p.micro_batch;
  divided = p.sequence_parallel ? tokens / p.tensor : tokens;
  layers = s.layers / (p.pipeline * p.chunks);
}

void Sizes::check() const {
  const auto divides = [](const char* what, int whole, const char* by, int part) {
    PHANTORA_EXPECTS(part > 0 && whole > 0 && whole % part == 0,
                     std::string{what} + ", " + std::to_string(whole) + ", is a multiple of " + by +
                         ", " + std::to_string(part));
  };
  divides("hidden", s.hidden, "heads", s.heads);
  divides("heads", s.heads, "key_heads", s.key_heads);
  for (const auto& [what, size] : {std::pair{"heads", s.heads},
                                   {"key_heads", s.key_heads},
                                   {"mlp", s.mlp},
                                   {"vocabulary", s.vocabulary},
                                   {"sequence", s.sequence}})
    divides(what, size, "tensor", p.tensor);
  divides("layers", s.layers, "pipeline * chunks", p.pipeline * p.chunks);
  divides("batch", p.batch, "data * micro_batch", p.data * p.micro_batch);
  divides("sequence", s.sequence, "context * tensor", p.context * p.tensor);
  divides("data", p.data, "expert", p.expert);
  PHANTORA_EXPECTS(s.experts >= 0, "experts is not negative: " + std::to_string(s.experts));
  if (s.experts > 0 || p.expert > 1) {
    divides("experts", s.experts, "expert", p.expert);
    PHANTORA_EXPECTS(s.experts_of_token > 0 && s.experts_of_token <= s.experts,
                     "experts_of_token, " + std::to_string(s.experts_of_token) +
                         ", is at most experts, " + std::to_string(s.experts));
  }
  PHANTORA_EXPECTS(p.pipeline > 1 || p.chunks == 1,
                   "chunks, " + std::to_string(p.chunks) + ", is 1 where there is one stage");
  PHANTORA_EXPECTS(p.recompute_every > 0,
                   "recompute_every is positive, not " + std::to_string(p.recompute_every));
  PHANTORA_EXPECTS(p.bucket >= Bytes{},
                   "bucket is not negative: " + std::to_string(p.bucket.count()));
  PHANTORA_EXPECTS(r.gradient > 0 && r.optimizer >= 0,
                   "a recipe's gradient is positive and its optimizer not negative, not " +
                       std::to_string(r.gradient) + ", " + std::to_string(r.optimizer));
}

double Sizes::dense_layer() const { return dense_parameters(s) / p.tensor; }
double Sizes::expert_layer() const {
  return expert_parameters(s, static_cast<double>(s.experts) / p.expert) / p.tensor;
}
double Sizes::ends_weights(int stage) const {
  double count = 0;
  if (stage == 0) count += embedding_parameters(s);
  if (stage == p.pipeline - 1) {
    count += head_parameters(s);
    // Both ends of a pipeline need the table.
    if (s.tied && p.pipeline > 1) count += table_parameters(s);
  }
  return count / p.tensor;
}
double Sizes::layer_activations(Recompute recompute) const {
  const auto t = static_cast<double>(tokens), part = static_cast<double>(divided);
  const double h = s.hidden, tensor = p.tensor;
  const double inputs = 2 * part * h;  // of the norms
  if (recompute == Recompute::full) return element * part * h;
  const double normed = 2 * h * (p.keep_gathered ? t : part);
  // With the logarithm of each row's sum, in fp32.
  const double qkv = t * (h + 2 * hidden_of_keys(s)) / tensor;
  const double attention = t * h / tensor, sums = 4 * t * s.heads / tensor;
  const double rows = s.experts > 0 ? t * s.experts_of_token : t, f = s.mlp / tensor;
  const double products = (s.gated ? 2 : 1) * rows * f;
  const double passes = (s.gated && !r.fused ? 2 : 1) * rows * f;
  // Experts' inputs and outputs, which are those of the all_to_alls.
  const double moved = s.experts > 0 ? 2 * rows * h : 0;
  double elements = inputs + qkv + attention + products + moved;
  if (recompute == Recompute::none) elements += normed + passes;
  // Passes of a norm keep its input in fp32 and its rows before the weights, in place of its input.
  if (recompute == Recompute::none && norms_in_passes()) elements += 2 * inputs;
  return element * elements + sums;
}
double Sizes::layer_gradients() const {
  const auto t = static_cast<double>(tokens), part = static_cast<double>(divided);
  const double h = s.hidden, whole = p.keep_gathered ? t : part;
  const double qkv = t * (h + 2 * hidden_of_keys(s)) / p.tensor;
  const double rows = s.experts > 0 ? t * s.experts_of_token : t;
  const double f = static_cast<double>(s.mlp) / p.tensor;
  const double down = s.experts > 0 ? rows : whole;
  return element * (qkv + whole * h + (s.gated ? 2 : 1) * rows * f + down * h + 2 * part * h);
}

}  // namespace phantora::detail::transformer

namespace phantora {

using namespace detail::transformer;

double parameters(const TransformerShape& shape) {
  return (dense_parameters(shape) + expert_parameters(shape, shape.experts)) * shape.layers +
         embedding_parameters(shape) + head_parameters(shape);
}

double active_parameters(const TransformerShape& shape) {
  const double idle = shape.experts > 0 ? shape.experts - shape.experts_of_token : 0;
  return parameters(shape) - expert_parameters(shape, idle) * shape.layers;
}

double flops_per_sequence(const TransformerShape& shape) {
  // A head that has the embedding's weights multiplies with them.
  const double embedding = embedding_parameters(shape) - (shape.tied ? table_parameters(shape) : 0);
  // Two products of s x s x hidden forward and four backward, of which the mask leaves half.
  const double attention =
      6.0 * shape.layers * shape.hidden * double{1} * shape.sequence * shape.sequence;
  return 6.0 * (active_parameters(shape) - embedding) * shape.sequence + attention;
}

}  // namespace phantora
