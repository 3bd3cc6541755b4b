#include <phantora/error.hpp>
#include <phantora/simulation/transformer.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace phantora {
namespace {

// Bytes of an element.
constexpr double weight_bytes = 2, gradient_bytes = 4;
constexpr double optimizer_bytes = 12;  // fp32 weights and both moments of Adam
constexpr double activation_bytes = 34;

/// Of one layer.
double layer_parameters(const TransformerShape& s) {
  const double h = s.hidden, keys = h / s.heads * s.key_heads;
  return h * (2 * h + 2 * keys) + 3 * h * s.mlp + 2 * h;
}

Bytes bytes(double count) { return Bytes{static_cast<std::int64_t>(count)}; }

class Steps {
 public:
  Steps(const TransformerShape& shape, const Parallelism& parallelism)
      : shape_{shape}, p_{parallelism}, tokens_{std::int64_t{shape.sequence} * p_.micro_batch} {
    check();
    make_kernels();
  }

  Workload make(int steps) {
    for (int stage = 0; stage < p_.pipeline; ++stage)
      for (int replica = 0; replica < p_.data; ++replica)
        for (int part = 0; part < p_.tensor; ++part) hold_weights(at(stage, replica, part));
    for (int step = 0; step < steps; ++step) {
      for (int stage = 0; stage < p_.pipeline; ++stage)
        for (int replica = 0; replica < p_.data; ++replica)
          for (int part = 0; part < p_.tensor; ++part) one_step(at(stage, replica, part));
      w_.end_step(compute);
    }
    return std::move(w_);
  }

 private:
  enum Stream : StreamNumber { compute, gradients, from_before, to_next, from_next, to_before };
  struct Place {
    int stage = 0;
    Rank rank = 0, before = 0, next = 0;  ///< its own, and those of the neighbouring stages
    std::vector<Rank> tensor_group{}, data_group{};
    double parameters = 0;
    std::vector<Workload::Block> activations{};  ///< of micro-batches whose backward is to come
  };
  using Kernels = std::vector<Workload::KernelNumber>;

  void check() const {
    const auto divides = [](const char* what, int whole, const char* by, int part) {
      PHANTORA_EXPECTS(part > 0 && whole > 0 && whole % part == 0,
                       std::string{what} + ", " + std::to_string(whole) + ", is a multiple of " +
                           by + ", " + std::to_string(part));
    };
    divides("hidden", shape_.hidden, "heads", shape_.heads);
    divides("heads", shape_.heads, "key_heads", shape_.key_heads);
    for (const auto& [what, size] : {std::pair{"heads", shape_.heads},
                                     {"key_heads", shape_.key_heads},
                                     {"mlp", shape_.mlp},
                                     {"vocabulary", shape_.vocabulary},
                                     {"sequence", shape_.sequence}})
      divides(what, size, "tensor", p_.tensor);
    divides("layers", shape_.layers, "pipeline", p_.pipeline);
    divides("batch", p_.batch, "data * micro_batch", p_.data * p_.micro_batch);
  }

  Kernels kernels(std::initializer_list<KernelQuery> queries) {
    Kernels numbers;
    for (const KernelQuery& query : queries) numbers.push_back(w_.kernel(query));
    return numbers;
  }
  void make_kernels() {
    const std::int64_t t = tokens_, mine = t / p_.tensor;  // of which the norms have a part
    const std::int64_t h = shape_.hidden, depth = h / shape_.heads;
    const std::int64_t heads = shape_.heads / p_.tensor, keys = shape_.key_heads / p_.tensor;
    const std::int64_t q = heads * depth, qkv = (heads + 2 * keys) * depth;
    const std::int64_t f = shape_.mlp / p_.tensor, words = shape_.vocabulary / p_.tensor;
    const AttentionShape attention{.batch = p_.micro_batch,
                                   .heads = heads,
                                   .key_heads = keys,
                                   .queries = shape_.sequence,
                                   .depth = depth};
    // Rotary embeddings pass over queries and keys, the gate over the MLP's two halves.
    const KernelQuery rotary = elementwise(t * (heads + keys) * depth, 2);
    norm_ = kernels({rms_norm_forward(mine, h)});
    attention_ = kernels(
        {linear_forward(t, h, qkv), rotary, attention_forward(attention), linear_forward(t, q, h)});
    mlp_ = kernels({linear_forward(t, h, 2 * f), elementwise(t * f, 2), linear_forward(t, f, h)});
    residual_ = kernels({elementwise(mine * h, 2)});
    norm_back_ = kernels({rms_norm_backward_input(mine, h), rms_norm_backward_weight(mine, h)});
    attention_back_ =
        kernels({linear_backward_input(t, q, h), linear_backward_weight(t, q, h),
                 attention_backward(attention), rotary, linear_backward_input(t, h, qkv),
                 linear_backward_weight(t, h, qkv)});
    mlp_back_ = kernels({linear_backward_input(t, f, h), linear_backward_weight(t, f, h),
                         elementwise(t * f, 4), linear_backward_input(t, h, 2 * f),
                         linear_backward_weight(t, h, 2 * f)});
    embed_ = kernels({embedding(mine, h)});
    // The loss passes over the logits twice forward and once backward.
    head_ = kernels({rms_norm_forward(mine, h), linear_forward(t, h, words),
                     elementwise(t * words, 1), elementwise(t * words, 1)});
    head_back_ = kernels({elementwise(t * words, 1), linear_backward_input(t, h, words),
                          linear_backward_weight(t, h, words), rms_norm_backward_input(mine, h)});
  }

  [[nodiscard]] Place at(int stage, int replica, int part) const {
    const auto rank = [&](int s, int r, int t) {
      return static_cast<Rank>((s * p_.data + r) * p_.tensor + t);
    };
    Place place{.stage = stage, .rank = rank(stage, replica, part)};
    if (stage > 0) place.before = rank(stage - 1, replica, part);
    if (!last(place)) place.next = rank(stage + 1, replica, part);
    for (int t = 0; t < p_.tensor; ++t) place.tensor_group.push_back(rank(stage, replica, t));
    for (int r = 0; r < p_.data; ++r) place.data_group.push_back(rank(stage, r, part));
    place.parameters = layer_parameters(shape_) * shape_.layers / p_.pipeline;
    const double table = double{1} * shape_.vocabulary * shape_.hidden;
    if (stage == 0) place.parameters += table;
    if (last(place)) place.parameters += table;
    place.parameters /= p_.tensor;
    return place;
  }
  [[nodiscard]] bool last(const Place& it) const { return it.stage + 1 == p_.pipeline; }

  void hold_weights(const Place& it) {
    w_.allocate(it.rank, bytes(it.parameters * weight_bytes), "weights");
    w_.allocate(it.rank, bytes(it.parameters * gradient_bytes), "gradients");
    w_.allocate(it.rank, bytes(it.parameters * optimizer_bytes / p_.data), "optimizer");
  }

  void launch(const Place& it, const Kernels& kernels) {
    for (const auto kernel : kernels) w_.launch(it.rank, kernel, compute);
  }
  /// Of the hidden state, within the tensor group.
  void tensor(const Place& it, CollectiveOp op) {
    if (p_.tensor > 1) w_.collective(it.rank, it.tensor_group, op, hidden_state(), compute);
  }
  [[nodiscard]] Bytes hidden_state() const {
    return bytes(static_cast<double>(tokens_) * shape_.hidden * weight_bytes);
  }
  void half_layer(const Place& it, const Kernels& before, const Kernels& body,
                  const Kernels& after) {
    launch(it, before);
    tensor(it, CollectiveOp::all_gather);
    launch(it, body);
    tensor(it, CollectiveOp::reduce_scatter);
    launch(it, after);
  }

  // A communication's stream waits for the computing one, as PyTorch has it: a receive holds no SMs
  // while there still is something to compute before it.
  void receive(const Place& it, Rank from, Stream stream) {
    w_.order(it.rank, compute, stream).receive(it.rank, from, hidden_state() / p_.tensor, stream);
    w_.order(it.rank, stream, compute);
  }
  void send(const Place& it, Rank to, Stream stream) {
    w_.order(it.rank, compute, stream).send(it.rank, to, hidden_state() / p_.tensor, stream);
  }

  void forward(Place& it) {
    const int layers = shape_.layers / p_.pipeline;
    if (it.stage == 0) {
      launch(it, embed_);
    } else {
      receive(it, it.before, from_before);
    }
    it.activations.push_back(w_.allocate(
        it.rank,
        bytes(activation_bytes * static_cast<double>(tokens_) * shape_.hidden * layers / p_.tensor),
        "activations"));
    for (int layer = 0; layer < layers; ++layer) {
      half_layer(it, norm_, attention_, residual_);
      half_layer(it, norm_, mlp_, residual_);
    }
    if (last(it)) {
      launch(it, head_);
    } else {
      send(it, it.next, to_next);
    }
  }

  void backward(Place& it) {
    if (last(it)) {
      launch(it, head_back_);
    } else {
      receive(it, it.next, from_next);
    }
    for (int layer = 0; layer < shape_.layers / p_.pipeline; ++layer) {
      half_layer(it, {}, mlp_back_, norm_back_);
      half_layer(it, {}, attention_back_, norm_back_);
    }
    w_.free(it.activations.front());
    it.activations.erase(it.activations.begin());
    if (it.stage > 0) {
      send(it, it.before, to_before);
    }
  }

  void one_step(Place it) {
    const int micro_batches = p_.batch / (p_.data * p_.micro_batch);
    const int warm_up = std::min(micro_batches, p_.pipeline - it.stage - 1);
    for (int i = 0; i < warm_up; ++i) forward(it);
    for (int i = warm_up; i < micro_batches; ++i) {
      forward(it);
      backward(it);
    }
    for (int i = 0; i < warm_up; ++i) backward(it);
    update(it);
  }

  void update(const Place& it) {
    if (p_.data > 1) {
      w_.order(it.rank, compute, gradients);
      w_.collective(it.rank, it.data_group, CollectiveOp::reduce_scatter,
                    bytes(it.parameters * gradient_bytes), gradients);
      w_.order(it.rank, gradients, compute);
    }
    w_.launch(it.rank, adam(static_cast<std::int64_t>(it.parameters) / p_.data), compute);
    if (p_.data > 1) {
      w_.order(it.rank, compute, gradients);
      w_.collective(it.rank, it.data_group, CollectiveOp::all_gather,
                    bytes(it.parameters * weight_bytes), gradients);
      w_.order(it.rank, gradients, compute);
    }
  }

  TransformerShape shape_;
  Parallelism p_;
  std::int64_t tokens_;  ///< of a micro-batch
  Workload w_{};
  Kernels norm_{}, attention_{}, mlp_{}, residual_{}, norm_back_{}, attention_back_{}, mlp_back_{},
      embed_{}, head_{}, head_back_{};
};

}  // namespace

double parameters(const TransformerShape& shape) {
  return layer_parameters(shape) * shape.layers + 2.0 * shape.vocabulary * shape.hidden;
}

double flops_per_sequence(const TransformerShape& shape) {
  const double embedding = double{1} * shape.vocabulary * shape.hidden;
  // Two products of s x s x hidden forward and four backward, of which the mask leaves half.
  const double attention =
      6.0 * shape.layers * shape.hidden * double{1} * shape.sequence * shape.sequence;
  return 6.0 * (parameters(shape) - embedding) * shape.sequence + attention;
}

Workload training_steps(const TransformerShape& shape, const Parallelism& parallelism, int steps) {
  PHANTORA_EXPECTS(steps >= 1, "there is a step, not " + std::to_string(steps));
  return Steps{shape, parallelism}.make(steps);
}

}  // namespace phantora
