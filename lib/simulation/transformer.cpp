#include <phantora/error.hpp>
#include <phantora/simulation/transformer.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace phantora {
namespace {

constexpr double element = 2;  // bytes of weights and activations

// --- Parameters ---

double hidden_of_keys(const TransformerShape& s) {
  return static_cast<double>(s.hidden) / s.heads * s.key_heads;
}
/// Of one MLP, or one expert.
double mlp_parameters(const TransformerShape& s) {
  const double h = s.hidden, f = s.mlp;
  return (s.gated ? 3 : 2) * h * f + (s.biases ? (s.gated ? 2 : 1) * f + h : 0);
}
double norm_parameters(const TransformerShape& s) { return (s.biases ? 2.0 : 1.0) * s.hidden; }
/// Of one layer but its experts.
double dense_parameters(const TransformerShape& s) {
  const double h = s.hidden, keys = hidden_of_keys(s);
  const double attention = h * (2 * h + 2 * keys) + (s.biases ? 2 * h + 2 * keys : 0);
  return attention + 2 * norm_parameters(s) + (s.experts > 0 ? h * s.experts : mlp_parameters(s));
}
double expert_parameters(const TransformerShape& s, double experts) {
  return s.experts > 0 ? experts * mlp_parameters(s) : 0;
}
double table_parameters(const TransformerShape& s) { return double{1} * s.vocabulary * s.hidden; }
/// Of the embedding, with positions where they are learned.
double embedding_parameters(const TransformerShape& s) {
  return table_parameters(s) + (s.rotary ? 0 : double{1} * s.sequence * s.hidden);
}
double head_parameters(const TransformerShape& s) {
  return norm_parameters(s) + (s.tied ? 0 : table_parameters(s));
}

Bytes bytes(double count) { return Bytes{static_cast<std::int64_t>(count)}; }

// --- Kernels ---

using Kernels = std::vector<Workload::KernelNumber>;

/// What a part of a layer launches: forward, backward for its input and for its weights, and again
/// before the backward pass where elementwise results were not kept.
struct Part {
  Kernels forward{}, input{}, weight{}, again{};
};

/// Weights that one rank holds, and the ranks that hold the same.
struct Weights {
  double count = 0;
  const std::vector<Rank>* group = nullptr;
  [[nodiscard]] double share() const { return count / static_cast<double>(group->size()); }
};

enum Stream : StreamNumber {
  compute,
  reducing,   // gradients
  gathering,  // weights
  keys,       // of context groups
  key_gradients,
  from_before,
  to_next,
  from_next,
  to_before
};

/// A rank, where it stands, and what it holds at a point of its step.
struct Place {
  int stage = 0;
  Rank rank = 0, before = 0, next = 0;  ///< its own, and those of the neighbouring stages
  std::vector<Rank> tensor{}, context{}, replicas{}, experts{}, expert_replicas{};
  int slice = 0;  ///< in its context group
  /// By chunk and micro-batch: activations whose backward pass is to come, and what the loss left.
  std::map<std::pair<int, int>, std::vector<Workload::Block>> activations{};
  std::vector<Workload::Block> gathered{};      ///< weights, oldest first
  double unreduced = 0, unreduced_experts = 0;  ///< gradients of the last micro-batch, elements
};

class Steps {
 public:
  Steps(const TransformerShape& shape, const Parallelism& parallelism, const TrainingRecipe& recipe)
      : s_{shape}, p_{parallelism}, r_{recipe} {
    check();
    tokens_ = std::int64_t{s_.sequence} / p_.context * p_.micro_batch;
    divided_ = p_.sequence_parallel ? tokens_ / p_.tensor : tokens_;
    layers_ = s_.layers / (p_.pipeline * p_.chunks);
    make_kernels();
  }

  Workload make(int steps) {
    std::vector<Place> places;
    for (int rank = 0; rank < p_.ranks(); ++rank) places.push_back(at(rank));
    for (const Place& it : places) hold(it);
    for (int step = 0; step < steps; ++step) {
      for (Place& it : places) one_step(it);
      w_.end_step(compute);
    }
    return std::move(w_);
  }

 private:
  void check() const {
    const auto divides = [](const char* what, int whole, const char* by, int part) {
      PHANTORA_EXPECTS(part > 0 && whole > 0 && whole % part == 0,
                       std::string{what} + ", " + std::to_string(whole) + ", is a multiple of " +
                           by + ", " + std::to_string(part));
    };
    divides("hidden", s_.hidden, "heads", s_.heads);
    divides("heads", s_.heads, "key_heads", s_.key_heads);
    for (const auto& [what, size] : {std::pair{"heads", s_.heads},
                                     {"key_heads", s_.key_heads},
                                     {"mlp", s_.mlp},
                                     {"vocabulary", s_.vocabulary},
                                     {"sequence", s_.sequence}})
      divides(what, size, "tensor", p_.tensor);
    divides("layers", s_.layers, "pipeline * chunks", p_.pipeline * p_.chunks);
    divides("batch", p_.batch, "data * micro_batch", p_.data * p_.micro_batch);
    divides("sequence", s_.sequence, "context * tensor", p_.context * p_.tensor);
    divides("data", p_.data, "expert", p_.expert);
    PHANTORA_EXPECTS(s_.experts >= 0, "experts is not negative: " + std::to_string(s_.experts));
    if (s_.experts > 0 || p_.expert > 1) {
      divides("experts", s_.experts, "expert", p_.expert);
      PHANTORA_EXPECTS(s_.experts_of_token > 0 && s_.experts_of_token <= s_.experts,
                       "experts_of_token, " + std::to_string(s_.experts_of_token) +
                           ", is at most experts, " + std::to_string(s_.experts));
    }
    PHANTORA_EXPECTS(p_.pipeline > 1 || p_.chunks == 1,
                     "chunks, " + std::to_string(p_.chunks) + ", is 1 where there is one stage");
    PHANTORA_EXPECTS(p_.bucket >= Bytes{},
                     "bucket is not negative: " + std::to_string(p_.bucket.count()));
    PHANTORA_EXPECTS(r_.gradient > 0 && r_.optimizer >= 0,
                     "a recipe's gradient is positive and its optimizer not negative, not " +
                         std::to_string(r_.gradient) + ", " + std::to_string(r_.optimizer));
  }

  // --- What each part launches ---

  void add(Kernels& to, const KernelQuery& query) { to.push_back(w_.kernel(query)); }
  void linear(Part& part, std::int64_t rows, std::int64_t in, std::int64_t out) {
    add(part.forward, linear_forward(rows, in, out));
    // The other way round, since backward passes come in the other order.
    part.input.insert(part.input.begin(), w_.kernel(linear_backward_input(rows, in, out)));
    part.weight.insert(part.weight.begin(), w_.kernel(linear_backward_weight(rows, in, out)));
  }
  /// Of one input, several outputs: one product, or one for each, whose gradients are added up.
  void linears(Part& part, std::int64_t rows, std::int64_t in,
               const std::vector<std::int64_t>& outs) {
    if (r_.fused) return linear(part, rows, in, std::accumulate(outs.begin(), outs.end(), 0L));
    for (const std::int64_t out : outs) linear(part, rows, in, out);
    for (std::size_t i = 1; i < outs.size(); ++i)
      add(part.input, pass(static_cast<double>(rows) * static_cast<double>(in), 2));
  }
  Part norm(std::int64_t rows, std::int64_t cols) {
    Part part;
    add(part.forward, s_.biases ? layer_norm_forward(rows, cols) : rms_norm_forward(rows, cols));
    part.again = part.forward;
    add(part.input,
        s_.biases ? layer_norm_backward_input(rows, cols) : rms_norm_backward_input(rows, cols));
    add(part.weight,
        s_.biases ? layer_norm_backward_weight(rows, cols) : rms_norm_backward_weight(rows, cols));
    return part;
  }
  /// A pass over so many elements.
  KernelQuery pass(double elements, int inputs = 1, ElementType type = ElementType::bf16) {
    return elementwise(std::max<std::int64_t>(1, static_cast<std::int64_t>(elements)), inputs,
                       type);
  }

  /// The MLP, or an expert, on `rows` tokens.
  Part mlp(std::int64_t rows) {
    const std::int64_t h = s_.hidden, f = s_.mlp / p_.tensor;
    const double elements = static_cast<double>(rows) * static_cast<double>(f);
    Part up, down;
    linears(up, rows, h, s_.gated ? std::vector{f, f} : std::vector{f});
    linear(down, rows, f, h);
    Kernels activation, back;
    if (!s_.gated) {
      add(activation, pass(elements));
      add(back, pass(elements, 2));
    } else if (r_.fused) {
      add(activation, pass(elements, 2));
      add(back, pass(elements, 4));
    } else {  // silu and the product; backward two products and silu's
      add(activation, pass(elements));
      add(activation, pass(elements, 2));
      for (int i = 0; i < 3; ++i) add(back, pass(elements, 2));
    }
    return {concat(up.forward, activation, down.forward), concat(down.input, back, up.input),
            concat(down.weight, up.weight), activation};
  }

  static Kernels concat(Kernels a, const Kernels& b, const Kernels& c = {}) {
    a.insert(a.end(), b.begin(), b.end());
    a.insert(a.end(), c.begin(), c.end());
    return a;
  }

  void make_kernels() {
    const std::int64_t t = tokens_, h = s_.hidden, depth = h / s_.heads;
    const std::int64_t heads = s_.heads / p_.tensor, key_heads = s_.key_heads / p_.tensor;
    const std::int64_t q = heads * depth, kv = key_heads * depth;
    const std::int64_t words = s_.vocabulary / p_.tensor;
    const auto hidden_state = static_cast<double>(divided_ * h);
    norm_ = norm(divided_, h);
    add(residual_, pass(hidden_state, 2));

    linears(qkv_, t, h, {q, kv, kv});
    linear(project_, t, q, h);
    if (s_.rotary) {
      // Over queries and keys. Unfused: two products, the sum, and a half turned round.
      const auto turned = static_cast<double>(t * (heads + key_heads) * depth);
      for (int i = 0; i < (r_.fused ? 1 : 4); ++i) {
        add(qkv_.forward, pass(turned, 2));
        qkv_.input.insert(qkv_.input.begin(), w_.kernel(pass(turned, 2)));
      }
    }
    make_attention(heads, key_heads, depth);

    if (s_.experts > 0) {
      const std::int64_t picked = t * s_.experts_of_token, experts = s_.experts / p_.expert;
      linear(router_, t, h, s_.experts);
      add(router_.forward, softmax_forward(t, s_.experts));
      add(permute_, pass(static_cast<double>(picked * h)));
      const Part one = mlp(std::max<std::int64_t>(1, picked / experts));
      for (std::int64_t i = 0; i < experts; ++i) {
        mlp_.forward = concat(mlp_.forward, one.forward);
        mlp_.input = concat(mlp_.input, one.input);
        mlp_.weight = concat(mlp_.weight, one.weight);
        mlp_.again = concat(mlp_.again, one.again);
      }
    } else {
      mlp_ = mlp(t);
    }

    add(embed_.forward, embedding(divided_, h));
    if (!s_.rotary) add(embed_.forward, pass(hidden_state, 2));
    // The gradient of a table is one: zeros, to which the tokens' rows are added.
    const double table = table_parameters(s_) / p_.tensor;
    if (!r_.fused) add(embed_.weight, pass(table));
    add(embed_.weight, pass(hidden_state, 2));
    head_ = norm(divided_, h);
    Part logits;
    linear(logits, t, h, words);
    // The loss in fp32: a copy, log_softmax; backward what is picked, log_softmax, a copy.
    const double all = static_cast<double>(t) * static_cast<double>(words);
    Kernels loss, back;
    add(loss, pass(all, 1, ElementType::fp32));
    add(loss, softmax_forward(t, words, ElementType::fp32));
    add(back, pass(all, 1, ElementType::fp32));
    add(back, softmax_backward(t, words, ElementType::fp32));
    add(back, pass(all, 1, ElementType::fp32));
    head_.forward = concat(head_.forward, logits.forward, loss);
    head_.input = concat(back, logits.input, head_.input);
    head_.weight = concat(logits.weight, head_.weight);

    if (!r_.fused && p_.sharding < Sharding::gradients) {
      add(accumulate_, pass(layer_weights(), 2));
      add(embed_.weight, pass(table, 2));
      add(head_.weight, pass(table, 2));
    }
  }

  /// Blocks of a context group: its own, which the mask cuts in half, then those of each other
  /// rank, of which a balanced division of the sequence leaves half.
  void make_attention(std::int64_t heads, std::int64_t key_heads, std::int64_t depth) {
    const std::int64_t queries = s_.sequence / p_.context;
    AttentionShape block{.batch = p_.micro_batch,
                         .heads = heads,
                         .key_heads = key_heads,
                         .queries = queries,
                         .depth = depth};
    own_block_.forward = {w_.kernel(attention_forward(block))};
    own_block_.input = {w_.kernel(attention_backward(block))};
    if (p_.context == 1) return;
    block.causal = false;
    block.keys = std::max<std::int64_t>(1, queries / 2);
    const auto outputs = static_cast<double>(tokens_ * heads * depth);
    other_block_.forward = {w_.kernel(attention_forward(block)), w_.kernel(pass(outputs, 3))};
    other_block_.input = {w_.kernel(attention_backward(block)), w_.kernel(pass(outputs, 2))};
  }

  // --- Ranks and what they hold ---

  [[nodiscard]] Place at(int number) const {
    const int part = number % p_.tensor, slice = number / p_.tensor % p_.context;
    const int replica = number / (p_.tensor * p_.context) % p_.data;
    const int stage = number / (p_.tensor * p_.context * p_.data);
    const auto rank = [&](int s, int r, int c, int t) {
      return static_cast<Rank>(((s * p_.data + r) * p_.context + c) * p_.tensor + t);
    };
    Place it{.stage = stage, .rank = static_cast<Rank>(number), .slice = slice};
    it.before = rank((stage + p_.pipeline - 1) % p_.pipeline, replica, slice, part);
    it.next = rank((stage + 1) % p_.pipeline, replica, slice, part);
    for (int t = 0; t < p_.tensor; ++t) it.tensor.push_back(rank(stage, replica, slice, t));
    for (int c = 0; c < p_.context; ++c) it.context.push_back(rank(stage, replica, c, part));
    for (int r = 0; r < p_.data; ++r) {
      for (int c = 0; c < p_.context; ++c) {
        it.replicas.push_back(rank(stage, r, c, part));
        if (r % p_.expert == replica % p_.expert)
          it.expert_replicas.push_back(rank(stage, r, c, part));
      }
      if (r / p_.expert == replica / p_.expert) it.experts.push_back(rank(stage, r, slice, part));
    }
    return it;
  }

  [[nodiscard]] bool embeds(const Place& it, int chunk) const { return it.stage + chunk == 0; }
  [[nodiscard]] bool ends(const Place& it, int chunk) const {
    return it.stage == p_.pipeline - 1 && chunk == p_.chunks - 1;
  }
  /// Of a rank, one layer: without experts, and with its own alone.
  [[nodiscard]] double dense_layer() const { return dense_parameters(s_) / p_.tensor; }
  [[nodiscard]] double expert_layer() const {
    return expert_parameters(s_, static_cast<double>(s_.experts) / p_.expert) / p_.tensor;
  }
  [[nodiscard]] double layer_weights() const { return dense_layer() + expert_layer(); }
  /// Those of the embedding and the head, where the rank has them.
  [[nodiscard]] double ends_weights(const Place& it) const {
    double count = 0;
    if (it.stage == 0) count += embedding_parameters(s_);
    if (it.stage == p_.pipeline - 1) {
      count += head_parameters(s_);
      // Both ends of a pipeline need the table.
      if (s_.tied && p_.pipeline > 1) count += table_parameters(s_);
    }
    return count / p_.tensor;
  }
  [[nodiscard]] std::vector<Weights> weights(const Place& it) const {
    const int layers = layers_ * p_.chunks;
    std::vector<Weights> all{{dense_layer() * layers + ends_weights(it), &it.replicas}};
    if (s_.experts > 0) all.push_back({expert_layer() * layers, &it.expert_replicas});
    return all;
  }

  void hold(const Place& it) {
    double weights_held = 0, gradients = 0, optimizer = 0;
    for (const Weights& of : weights(it)) {
      if (p_.sharding != Sharding::parameters) weights_held += of.count * element;
      const bool apart = p_.sharding >= Sharding::gradients;
      gradients += (apart ? of.share() : of.count) * r_.gradient;
      optimizer += (p_.sharding == Sharding::none ? of.count : of.share()) * r_.optimizer;
    }
    // Without a weight of its own a share of the optimizer's state has it.
    w_.allocate(it.rank, bytes(weights_held), "weights");
    w_.allocate(it.rank, bytes(gradients), "gradients");
    w_.allocate(it.rank, bytes(optimizer), "optimizer");
  }

  /// What one layer keeps of a micro-batch, bytes.
  [[nodiscard]] double layer_activations(Recompute recompute) const {
    const auto t = static_cast<double>(tokens_), part = static_cast<double>(divided_);
    const double h = s_.hidden, tensor = p_.tensor;
    const double inputs = 2 * part * h;  // of the norms
    if (recompute == Recompute::full) return element * part * h;
    const double normed = 2 * h * (p_.keep_gathered ? t : part);
    // With the logarithm of each row's sum, in fp32.
    const double qkv = t * (h + 2 * hidden_of_keys(s_)) / tensor;
    const double attention = t * h / tensor, sums = 4 * t * s_.heads / tensor;
    const double rows = s_.experts > 0 ? t * s_.experts_of_token : t, f = s_.mlp / tensor;
    const double products = (s_.gated ? 2 : 1) * rows * f;
    const double passes = (s_.gated && !r_.fused ? 2 : 1) * rows * f;
    // Experts' inputs and outputs, which are those of the all_to_alls.
    const double moved = s_.experts > 0 ? 2 * rows * h : 0;
    double elements = inputs + qkv + attention + products + moved;
    if (recompute == Recompute::none) elements += normed + passes;
    return element * elements + sums;
  }

  // --- Passes ---

  void launch(const Place& it, const Kernels& kernels) {
    for (const auto kernel : kernels) w_.launch(it.rank, kernel, compute);
  }
  void collective(const Place& it, const std::vector<Rank>& group, CollectiveOp op, double size,
                  StreamNumber stream = compute) {
    if (group.size() > 1) w_.collective(it.rank, group, op, bytes(size), stream);
  }
  [[nodiscard]] double hidden_state() const {
    return static_cast<double>(tokens_) * s_.hidden * element;
  }
  /// Between what is divided by tokens and what by heads or the MLP's width; `into` the latter.
  void tensor(const Place& it, bool into) {
    if (p_.sequence_parallel) {
      collective(it, it.tensor, into ? CollectiveOp::all_gather : CollectiveOp::reduce_scatter,
                 hidden_state());
    } else if (!into) {
      collective(it, it.tensor, CollectiveOp::all_reduce, hidden_state());
    }
  }

  /// Attention over the blocks of the context group.
  void attend(const Place& it, bool forward) {
    const double block = static_cast<double>(tokens_) * 2 * hidden_of_keys(s_) / p_.tensor;
    const bool ring = p_.exchange == ContextExchange::ring;
    launch(it, forward ? own_block_.forward : own_block_.input);
    if (p_.context == 1) return;
    if (!ring) {
      w_.order(it.rank, compute, keys);
      collective(it, it.context, CollectiveOp::all_gather, block * element * p_.context, keys);
      w_.order(it.rank, keys, compute);
    }
    for (int i = 1; i < p_.context; ++i) {
      // What has been added up for a block of keys goes on to the next rank that adds to it.
      if (ring && !forward) pass_on(it, block * 4, key_gradients);
      if (ring) pass_on(it, block * element, keys);
      if (ring) w_.order(it.rank, keys, compute);
      launch(it, forward ? other_block_.forward : other_block_.input);
      if (ring && !forward) w_.order(it.rank, key_gradients, compute);
    }
    if (ring && !forward) {  // the last hop, to where the keys came from
      pass_on(it, block * 4, key_gradients);
      w_.order(it.rank, key_gradients, compute);
    }
    if (!ring && !forward)
      collective(it, it.context, CollectiveOp::reduce_scatter, block * element * p_.context);
  }
  /// To the next in the ring. Keys that have come go on at once; gradients, in fp32, wait for what
  /// is computed.
  void pass_on(const Place& it, double size, Stream stream) {
    const int me = it.slice, to = (me + 1) % p_.context, from = (me + p_.context - 1) % p_.context;
    const std::vector<SendRecv> parts{{me, to, bytes(size)}, {from, me, bytes(size)}};
    if (stream == key_gradients) w_.order(it.rank, compute, stream);
    w_.exchange(it.rank, it.context, parts, stream);
  }
  /// What begins an attention's ring: the first block is on its way while its own is computed.
  void begin_exchange(const Place& it) {
    if (p_.context > 1 && p_.exchange == ContextExchange::ring) w_.order(it.rank, compute, keys);
  }

  void dispatch(const Place& it) {
    collective(it, it.experts, CollectiveOp::all_to_all, hidden_state() * s_.experts_of_token);
  }

  void attention_forward_pass(const Place& it) {
    launch(it, norm_.forward);
    tensor(it, true);
    launch(it, qkv_.forward);
    begin_exchange(it);
    attend(it, true);
    launch(it, project_.forward);
    tensor(it, false);
    launch(it, residual_);
  }
  void mlp_forward_pass(const Place& it) {
    launch(it, norm_.forward);
    tensor(it, true);
    if (s_.experts > 0) {
      launch(it, router_.forward);
      launch(it, permute_);
      dispatch(it);
      launch(it, mlp_.forward);
      dispatch(it);
      launch(it, permute_);
    } else {
      launch(it, mlp_.forward);
    }
    tensor(it, false);
    launch(it, residual_);
  }
  void layer_forward(const Place& it) {
    attention_forward_pass(it);
    mlp_forward_pass(it);
  }

  void layer_backward_input(const Place& it) {
    tensor(it, true);
    if (s_.experts > 0) {
      launch(it, permute_);
      dispatch(it);
      launch(it, mlp_.input);
      dispatch(it);
      launch(it, permute_);
      launch(it, router_.input);
    } else {
      launch(it, mlp_.input);
    }
    tensor(it, false);
    launch(it, norm_.input);
    launch(it, residual_);

    tensor(it, true);
    launch(it, project_.input);
    begin_exchange(it);
    attend(it, false);
    launch(it, qkv_.input);
    tensor(it, false);
    launch(it, norm_.input);
    launch(it, residual_);
  }
  void layer_backward_weight(const Place& it) {
    if (!p_.keep_gathered && p_.sequence_parallel) {
      tensor(it, true);
      tensor(it, true);
    }
    launch(it, mlp_.weight);
    if (s_.experts > 0) launch(it, router_.weight);
    launch(it, norm_.weight);
    launch(it, project_.weight);
    launch(it, qkv_.weight);
    launch(it, norm_.weight);
    launch(it, accumulate_);
  }
  void compute_again(const Place& it) {
    if (p_.recompute == Recompute::full) layer_forward(it);
    if (p_.recompute != Recompute::selective) return;
    launch(it, norm_.again);
    launch(it, norm_.again);
    launch(it, mlp_.again);
  }

  // --- Weights that are gathered, gradients that are reduced ---

  [[nodiscard]] bool sharded() const { return p_.sharding == Sharding::parameters; }
  /// Begins to gather a layer's weights while what was issued before computes.
  void gather(Place& it) {
    if (!sharded()) return;
    const std::pair<double, const std::vector<Rank>*> parts[] = {
        {dense_layer(), &it.replicas}, {expert_layer(), &it.expert_replicas}};
    w_.order(it.rank, compute, gathering);
    for (const auto& [count, group] : parts) {
      if (count == 0) continue;
      const double share = count / static_cast<double>(group->size());
      w_.launch(it.rank, pass(share, 1, ElementType::fp32), gathering);  // to bf16
      collective(it, *group, CollectiveOp::all_gather, count * element, gathering);
    }
    it.gathered.push_back(
        w_.allocate(it.rank, bytes(layer_weights() * element), "gathered weights"));
  }
  /// What is issued from now on has the weights that were gathered, from where they arrived.
  void use_gathered(const Place& it) {
    if (!sharded()) return;
    w_.order(it.rank, gathering, compute);
    if (it.replicas.size() > 1) w_.launch(it.rank, copy(bytes(layer_weights() * element)), compute);
  }
  void drop_gathered(Place& it) {
    if (!sharded()) return;
    w_.free(it.gathered.front());
    it.gathered.erase(it.gathered.begin());
  }

  /// The embedding and the head stay whole from the first forward pass to the last backward one.
  Workload::Block gather_ends(const Place& it) {
    const double count = sharded() ? ends_weights(it) : 0;
    if (count > 0) collective(it, it.replicas, CollectiveOp::all_gather, count * element);
    return w_.allocate(it.rank, bytes(count * element), "gathered weights");
  }

  void reduce(const Place& it, double count, const std::vector<Rank>& group) {
    if (group.size() < 2 || count == 0) return;
    const bool all = p_.sharding == Sharding::none;
    w_.order(it.rank, compute, reducing);
    collective(it, group, all ? CollectiveOp::all_reduce : CollectiveOp::reduce_scatter,
               count * r_.gradient, reducing);
  }
  /// Gradients of some weights are there.
  void reduce_when_full(Place& it, double dense, double experts, bool last, bool flush) {
    // Those that no rank keeps whole have to go at once; others when all micro-batches are added.
    const bool at_once = p_.sharding >= Sharding::gradients;
    if (!at_once && !last) return;
    it.unreduced += dense;
    it.unreduced_experts += experts;
    const double full = static_cast<double>(p_.bucket.count()) / r_.gradient;
    if (!flush && !sharded() && (full == 0 || it.unreduced + it.unreduced_experts < full)) return;
    reduce(it, it.unreduced, it.replicas);
    reduce(it, it.unreduced_experts, it.expert_replicas);
    it.unreduced = it.unreduced_experts = 0;
  }

  // --- A stage's passes ---

  // A communication's stream waits for the computing one, since ProcessGroupNCCL lets its stream
  // wait for the caller's before every operation, receives too (pointToPoint: "First let NCCL
  // streams wait for input tensors allocation streams"), and Megatron and torch.distributed's
  // pipelines post a receive when they are about to need it. Messages of one direction between two
  // ranks that are neighbours on both sides are told apart by their communicator: that of the
  // stage that passes forward to the one that it passes to.
  void message(const Place& it, Rank forward_from, Rank forward_to, bool sends, Stream stream) {
    const std::vector<Rank> group{forward_from, forward_to};
    const int me = it.rank == forward_from ? 0 : 1;
    const int from = sends ? me : 1 - me;
    const std::vector<SendRecv> parts{{from, 1 - from, bytes(hidden_state_part())}};
    w_.order(it.rank, compute, stream).exchange(it.rank, group, parts, stream);
    if (!sends) w_.order(it.rank, stream, compute);
  }
  [[nodiscard]] double hidden_state_part() const {
    return static_cast<double>(divided_) * s_.hidden * element;
  }

  void forward(Place& it, const PipelinePass& pass) {
    auto& kept = it.activations[{pass.chunk, pass.micro_batch}];
    if (embeds(it, pass.chunk)) {
      launch(it, embed_.forward);
    } else {
      message(it, it.before, it.rank, false, from_before);
    }
    gather(it);
    for (int layer = 0; layer < layers_; ++layer) {
      use_gathered(it);
      if (layer + 1 < layers_) gather(it);
      kept.push_back(w_.allocate(it.rank, bytes(layer_activations(p_.recompute)), "activations"));
      layer_forward(it);
      drop_gathered(it);
    }
    if (ends(it, pass.chunk)) {
      launch(it, head_.forward);
      // The norm's input and output; log_softmax. In passing, logits in bf16 and fp32.
      const double words = static_cast<double>(tokens_) * s_.vocabulary / p_.tensor;
      kept.push_back(
          w_.allocate(it.rank, bytes(hidden_state_part() + hidden_state() + 4 * words), "loss"));
      w_.free(w_.allocate(it.rank, bytes(6 * words), "logits"));
    } else {
      message(it, it.rank, it.next, true, to_next);
    }
  }

  /// @param last  whether no other micro-batch adds to the gradients of these weights.
  void backward(Place& it, const PipelinePass& pass, bool last) {
    const auto key = std::pair{pass.chunk, pass.micro_batch};
    auto& kept = it.activations[key];
    const bool input = pass.kind != PipelinePass::backward_weight;
    const bool weight = pass.kind != PipelinePass::backward_input;
    if (ends(it, pass.chunk)) {
      if (input) {
        launch(it, head_.input);
        // The gradient of log_softmax's output and of its input, in fp32.
        const double words = static_cast<double>(tokens_) * s_.vocabulary / p_.tensor;
        w_.free(w_.allocate(it.rank, bytes(8 * words), "logits"));
        w_.free(kept.back());
        kept.pop_back();
      }
      if (weight) launch(it, head_.weight);
    } else if (input) {
      message(it, it.rank, it.next, false, from_next);
    }
    gather(it);
    for (int layer = 0; layer < layers_; ++layer) {
      use_gathered(it);
      if (layer + 1 < layers_) gather(it);
      const Workload::Block again = w_.allocate(
          it.rank, bytes(layer_activations(Recompute::none) - layer_activations(p_.recompute)),
          "recomputed activations");
      // Gradients of the layer's output and input; of the largest matrix before it is added.
      const Workload::Block passing = w_.allocate(
          it.rank,
          bytes(2 * hidden_state_part() +
                (r_.fused ? 0 : element * s_.hidden * std::max(s_.hidden, s_.mlp / p_.tensor))),
          "gradients in passing");
      if (input) compute_again(it);
      if (input) layer_backward_input(it);
      if (weight) {
        layer_backward_weight(it);
        w_.free(kept.back());
        kept.pop_back();
        scatter_gradients(it, last);
      }
      w_.free(again).free(passing);
      drop_gathered(it);
    }
    if (weight) {
      if (embeds(it, pass.chunk)) launch(it, embed_.weight);
      it.activations.erase(key);
    }
    if (input && !embeds(it, pass.chunk)) message(it, it.before, it.rank, true, to_before);
  }
  void scatter_gradients(Place& it, bool last) {
    if (p_.sharding >= Sharding::gradients) {
      // Whole before they are scattered.
      w_.free(w_.allocate(it.rank, bytes(layer_weights() * (element + r_.gradient)),
                          "whole gradients"));
      if (it.replicas.size() > 1)
        w_.launch(it.rank, pass(layer_weights(), 1, ElementType::fp32), compute);
    }
    reduce_when_full(it, dense_layer(), expert_layer(), last, false);
  }

  void one_step(Place& it) {
    const int micro_batches = p_.batch / (p_.data * p_.micro_batch);
    const PipelineShape shape{p_.schedule, p_.pipeline, micro_batches, p_.chunks};
    const Workload::Block ends = gather_ends(it);
    std::vector<int> left(static_cast<std::size_t>(p_.chunks), micro_batches);
    for (const PipelinePass& pass : pipeline_order(shape, it.stage)) {
      if (pass.kind == PipelinePass::forward) {
        forward(it, pass);
        continue;
      }
      int& to_come = left[static_cast<std::size_t>(pass.chunk)];
      if (pass.kind != PipelinePass::backward_input) --to_come;
      backward(it, pass, to_come == 0);
    }
    reduce_when_full(it, ends_weights(it), 0, true, true);
    if (it.replicas.size() > 1) w_.order(it.rank, reducing, compute);
    reduce_table(it);
    w_.free(ends);
    update(it);
  }

  /// Both ends of a pipeline have the table where it is tied, and each half of its gradients, which
  /// are added when those of the replicas have been (Megatron-core, finalize_model_grads).
  void reduce_table(const Place& it) {
    const bool at_an_end = it.stage == 0 || it.stage == p_.pipeline - 1;
    if (!s_.tied || p_.pipeline == 1 || !at_an_end) return;
    const auto of_a_stage = static_cast<Rank>(p_.ranks() / p_.pipeline);
    const Rank first = it.rank % of_a_stage;
    const std::vector<Rank> ends{first, first + of_a_stage * static_cast<Rank>(p_.pipeline - 1)};
    double count = table_parameters(s_) / p_.tensor;
    if (p_.sharding >= Sharding::gradients) count /= static_cast<double>(it.replicas.size());
    collective(it, ends, CollectiveOp::all_reduce, count * r_.gradient);
  }

  /// Adam's lists of tensors end where a launch's arguments do: 21 million elements each, as
  /// adam() has them.
  void optimize(const Place& it, double count) {
    // As the recipe's optimizer keeps them.
    const ElementType type = r_.optimizer >= 8 ? ElementType::fp32 : ElementType::bf16;
    const auto launches = static_cast<std::int64_t>(std::ceil(count / 21e6));
    const auto each = static_cast<std::int64_t>(count) / std::max<std::int64_t>(1, launches);
    const auto kernel = w_.kernel(adam(std::max<std::int64_t>(1, each), type));
    for (std::int64_t i = 0; i < launches; ++i) w_.launch(it.rank, kernel, compute);
    // Gradients begin at 0 again.
    w_.launch(it.rank, custom({.name = "zero_gradients", .bytes = count * r_.gradient}), compute);
  }
  void update(const Place& it) {
    for (const Weights& of : weights(it)) {
      const double mine = p_.sharding == Sharding::none ? of.count : of.share();
      optimize(it, mine);
      // Those who share the optimizer's state, and not the weights, tell one another the weights.
      if (of.group->size() < 2 || p_.sharding == Sharding::none || sharded()) continue;
      w_.order(it.rank, compute, reducing);
      collective(it, *of.group, CollectiveOp::all_gather, of.count * element, reducing);
      w_.order(it.rank, reducing, compute);
    }
  }

  TransformerShape s_;
  Parallelism p_;
  TrainingRecipe r_;
  std::int64_t tokens_ = 0;   ///< of a rank's micro-batch
  std::int64_t divided_ = 0;  ///< those that its norms see
  int layers_ = 0;            ///< of a chunk
  Workload w_{};
  Part norm_{}, qkv_{}, project_{}, own_block_{}, other_block_{}, mlp_{}, router_{}, embed_{},
      head_{};
  Kernels residual_{}, permute_{}, accumulate_{};
};

}  // namespace

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

Workload training_steps(const TransformerShape& shape, const Parallelism& parallelism, int steps,
                        const TrainingRecipe& recipe) {
  PHANTORA_EXPECTS(steps >= 1, "there is a step, not " + std::to_string(steps));
  return Steps{shape, parallelism, recipe}.make(steps);
}

}  // namespace phantora
