#include "simulation/transformer_kernels.hpp"
#include "simulation/transformer_places.hpp"
#include "simulation/transformer_sizes.hpp"
#include "simulation/transformer_turns.hpp"

#include <phantora/error.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace phantora {

using namespace detail::transformer;

namespace {

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
  dividing,   // what tensor groups exchange beside products
  keys,       // of context groups
  key_gradients,
  from_before,
  to_next,
  from_next,
  to_before,
  of_turns  // messages
};

class Steps {
 public:
  Steps(const TransformerShape& shape, const Parallelism& parallelism, const TrainingRecipe& recipe)
      : z_{shape, parallelism, recipe}, turns_{z_}, k_{step_kernels(w_, z_)} {}

  Workload make(int steps) {
    std::vector<Place> places;
    for (int rank = 0; rank < p_.ranks(); ++rank) places.push_back(place_of(rank, p_));
    for (const Place& it : places) hold(it);
    for (int step = 0; step < steps; ++step) {
      for (Place& it : places) one_step(it);
      w_.end_step(compute);
    }
    return std::move(w_);
  }

 private:
  // --- Ranks and what they hold ---

  [[nodiscard]] bool embeds(const Place& it, int chunk) const { return it.stage + chunk == 0; }
  [[nodiscard]] bool ends(const Place& it, int chunk) const {
    return it.stage == p_.pipeline - 1 && chunk == p_.chunks - 1;
  }
  [[nodiscard]] std::vector<Weights> weights(const Place& it) const {
    const int layers = z_.layers * p_.chunks;
    std::vector<Weights> all{{z_.dense_layer() * layers + z_.ends_weights(it.stage), &it.replicas}};
    if (s_.experts > 0) all.push_back({z_.expert_layer() * layers, &it.expert_replicas});
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
    if (z_.buffers()) {
      const int ends = (it.stage == 0 ? 1 : 0) + (it.stage == p_.pipeline - 1 ? 1 : 0);
      w_.allocate(it.rank,
                  bytes((2 * p_.chunks - ends) * z_.micro_batches() * z_.hidden_state_part()),
                  "receive buffers");
    }
    w_.allocate(it.rank, bytes(optimizer), "optimizer");
  }

  // --- Passes ---

  void launch(const Place& it, const Kernels& kernels) {
    for (const auto kernel : kernels) w_.launch(it.rank, kernel, compute);
  }
  void collective(const Place& it, const std::vector<Rank>& group, CollectiveOp op, double size,
                  StreamNumber stream = compute) {
    if (group.size() > 1) w_.collective(it.rank, group, op, bytes(size), stream);
  }
  /// Between what is divided by tokens and what by heads or the MLP's width; `into` the latter.
  void tensor(const Place& it, bool into) {
    if (p_.tensor > 1 && p_.sequence_parallel) {
      if (!into) launch(it, k_.rearrange);
      collective(it, it.tensor, into ? CollectiveOp::all_gather : CollectiveOp::reduce_scatter,
                 z_.hidden_state());
      if (into) launch(it, k_.rearrange);
    } else if (!into) {
      collective(it, it.tensor, CollectiveOp::all_reduce, z_.hidden_state());
    }
  }

  /// Products that are divided among the tensor group, after what it gathers for them and before
  /// what it scatters of them.
  template <class Products>
  void divided(const Place& it, bool gathers, bool scatters, Products launch_products) {
    const bool beside = p_.overlap_tensor && p_.sequence_parallel && p_.tensor > 1;
    if (!beside || (!gathers && !scatters)) {
      if (gathers) tensor(it, true);
      launch_products();
      if (scatters) tensor(it, false);
      return;
    }
    // A rank's own part is there from the start; its last one is sent when all is computed.
    const double last = z_.hidden_state() / p_.tensor;
    w_.order(it.rank, compute, dividing);
    if (gathers) collective(it, it.tensor, CollectiveOp::all_gather, z_.hidden_state(), dividing);
    if (scatters)
      collective(it, it.tensor, CollectiveOp::reduce_scatter, z_.hidden_state() - last, dividing);
    launch_products();
    w_.order(it.rank, dividing, compute);
    if (scatters) collective(it, it.tensor, CollectiveOp::reduce_scatter, last);
  }

  /// Attention over the blocks of the context group.
  void attend(const Place& it, bool forward) {
    const double block = static_cast<double>(z_.tokens) * 2 * hidden_of_keys(s_) / p_.tensor;
    const bool ring = p_.exchange == ContextExchange::ring;
    launch(it, forward ? k_.own_block.forward : k_.own_block.input);
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
      launch(it, forward ? k_.other_block.forward : k_.other_block.input);
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
    collective(it, it.experts, CollectiveOp::all_to_all, z_.hidden_state() * s_.experts_of_token);
  }

  void attention_forward_pass(const Place& it) {
    launch(it, k_.norm.forward);
    divided(it, true, false, [&] { launch(it, k_.qkv.forward); });
    begin_exchange(it);
    attend(it, true);
    divided(it, false, true, [&] { launch(it, k_.project.forward); });
    launch(it, k_.residual);
  }
  void mlp_forward_pass(const Place& it) {
    launch(it, k_.norm.forward);
    divided(it, true, true, [&] {
      if (s_.experts == 0) return launch(it, k_.mlp.forward);
      launch(it, k_.router.forward);
      launch(it, k_.permute);
      dispatch(it);
      launch(it, k_.mlp.forward);
      dispatch(it);
      launch(it, k_.permute);
    });
    launch(it, k_.residual);
  }
  void layer_forward(const Place& it) {
    attention_forward_pass(it);
    mlp_forward_pass(it);
  }

  void layer_backward_input(const Place& it) {
    divided(it, true, true, [&] {
      if (s_.experts == 0) return launch(it, k_.mlp.input);
      launch(it, k_.permute);
      dispatch(it);
      launch(it, k_.mlp.input);
      dispatch(it);
      launch(it, k_.permute);
      launch(it, k_.router.input);
    });
    launch(it, k_.norm.input);
    launch(it, k_.residual);

    divided(it, true, false, [&] { launch(it, k_.project.input); });
    begin_exchange(it);
    attend(it, false);
    divided(it, false, true, [&] { launch(it, k_.qkv.input); });
    launch(it, k_.norm.input);
    launch(it, k_.residual);
  }
  void layer_backward_weight(const Place& it) {
    const bool gathers = !p_.keep_gathered && p_.sequence_parallel;
    if (gathers && !p_.overlap_tensor) {
      tensor(it, true);
      tensor(it, true);
    }
    const bool beside = gathers && p_.overlap_tensor;
    divided(it, beside, false, [&] { launch(it, k_.mlp.weight); });
    if (s_.experts > 0) launch(it, k_.router.weight);
    norm_backward_weight(it);
    divided(it, beside, false, [&] {
      launch(it, k_.project.weight);
      launch(it, k_.qkv.weight);
    });
    norm_backward_weight(it);
    launch(it, k_.accumulate);
  }
  /// Of a norm that sees a part of the sequence the gradients are a part of the sum.
  void norm_backward_weight(const Place& it) {
    launch(it, k_.norm.weight);
    if (p_.sequence_parallel && !r_.fused) reduce_norms(it, 1);
  }
  void reduce_norms(const Place& it, int norms) {
    collective(it, it.tensor, CollectiveOp::all_reduce, norms * norm_parameters(s_) * r_.gradient);
  }

  void head_forward_pass(const Place& it) {
    launch(it, k_.norm.forward);
    tensor(it, true);
    launch(it, k_.logits.forward);
    launch(it, k_.loss.forward);
    // The greatest logit of each token, that of its word, and the sum, where words are divided.
    for (int i = 0; i < 3; ++i)
      collective(it, it.tensor, CollectiveOp::all_reduce, 4 * static_cast<double>(z_.tokens));
  }
  void head_backward_input(const Place& it) {
    launch(it, k_.loss.input);
    launch(it, k_.logits.input);
    tensor(it, false);
    launch(it, k_.norm.input);
  }
  void head_backward_weight(const Place& it) {
    launch(it, k_.logits.weight);
    norm_backward_weight(it);
  }
  /// What of a layer of a stage is computed again.
  [[nodiscard]] Recompute recompute_of(int layer) const {
    return (layer + 1) % p_.recompute_every == 0 ? p_.recompute : Recompute::none;
  }
  void compute_again(const Place& it, Recompute what) {
    if (what == Recompute::full) layer_forward(it);
    if (what != Recompute::selective) return;
    launch(it, k_.norm.again);
    launch(it, k_.norm.again);
    launch(it, k_.mlp.again);
  }

  // --- Weights that are gathered, gradients that are reduced ---

  [[nodiscard]] bool sharded() const { return p_.sharding == Sharding::parameters; }
  /// Begins to gather a layer's weights while what was issued before computes.
  void gather(Place& it) {
    if (!sharded()) return;
    const std::pair<double, const std::vector<Rank>*> parts[] = {
        {z_.dense_layer(), &it.replicas}, {z_.expert_layer(), &it.expert_replicas}};
    w_.order(it.rank, compute, gathering);
    for (const auto& [count, group] : parts) {
      if (count == 0) continue;
      const double share = count / static_cast<double>(group->size());
      w_.launch(it.rank, pass(share, 1, ElementType::fp32), gathering);  // to bf16
      collective(it, *group, CollectiveOp::all_gather, count * element, gathering);
    }
    it.gathered.push_back(
        w_.allocate(it.rank, bytes(z_.layer_weights() * element), "gathered weights"));
  }
  /// What is issued from now on has the weights that were gathered, from where they arrived.
  void use_gathered(const Place& it) {
    if (!sharded()) return;
    w_.order(it.rank, gathering, compute);
    if (it.replicas.size() > 1)
      w_.launch(it.rank, copy(bytes(z_.layer_weights() * element)), compute);
  }
  void drop_gathered(Place& it) {
    if (!sharded()) return;
    w_.free(it.gathered.front());
    it.gathered.erase(it.gathered.begin());
  }

  /// The embedding and the head stay whole from the first forward pass to the last backward one.
  Workload::Block gather_ends(const Place& it) {
    const double count = sharded() ? z_.ends_weights(it.stage) : 0;
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
    const std::vector<SendRecv> parts{{from, 1 - from, bytes(z_.hidden_state_part())}};
    w_.order(it.rank, compute, stream).exchange(it.rank, group, parts, stream);
    if (!sends) w_.order(it.rank, stream, compute);
  }
  void send(const Place& it, Rank forward_from, Rank forward_to, Stream stream) {
    if (p_.chunks == 1) message(it, forward_from, forward_to, true, stream);
  }
  void receive(const Place& it, Rank forward_from, Rank forward_to, Stream stream) {
    if (p_.chunks == 1) message(it, forward_from, forward_to, false, stream);
  }
  void end_turn(const Place& it, const std::vector<SendRecv>& messages) {
    w_.order(it.rank, compute, of_turns).exchange(it.rank, it.stages, messages, of_turns);
    w_.order(it.rank, of_turns, compute);
  }

  void forward(Place& it, const PipelinePass& pass) {
    auto& kept = it.activations[{pass.chunk, pass.micro_batch}];
    if (embeds(it, pass.chunk)) {
      launch(it, k_.embed.forward);
      tensor(it, false);
    } else {
      receive(it, it.before, it.rank, from_before);
    }
    gather(it);
    for (int layer = 0; layer < z_.layers; ++layer) {
      use_gathered(it);
      if (layer + 1 < z_.layers) gather(it);
      // What a buffer received is the first layer's input.
      const bool received = layer == 0 && z_.buffers() && !embeds(it, pass.chunk);
      kept.push_back(w_.allocate(it.rank,
                                 bytes(z_.layer_activations(recompute_of(layer)) -
                                       (received ? z_.hidden_state_part() : 0)),
                                 "activations"));
      layer_forward(it);
      drop_gathered(it);
    }
    if (ends(it, pass.chunk)) {
      head_forward_pass(it);
      // The norm's input and output; log_softmax. In passing, logits in bf16 and fp32, and in steps
      // their exponentials.
      kept.push_back(w_.allocate(
          it.rank, bytes(z_.hidden_state_part() + z_.hidden_state() + 4 * z_.logits()), "loss"));
      w_.free(w_.allocate(it.rank, bytes((z_.loss_in_steps() ? 10 : 6) * z_.logits()), "logits"));
    } else {
      send(it, it.rank, it.next, to_next);
    }
    if (z_.buffers())
      it.outputs[{pass.chunk, pass.micro_batch}] = w_.allocate(
          it.rank, bytes(ends(it, pass.chunk) ? element * z_.logits() : z_.hidden_state_part()),
          "outputs");
  }

  /// @param last  whether no other micro-batch adds to the gradients of these weights.
  void backward(Place& it, const PipelinePass& pass, bool last) {
    const auto key = std::pair{pass.chunk, pass.micro_batch};
    auto& kept = it.activations[key];
    const bool input = pass.kind != PipelinePass::backward_weight;
    const bool weight = pass.kind != PipelinePass::backward_input;
    if (ends(it, pass.chunk)) {
      if (input) {
        head_backward_input(it);
        // The gradient of log_softmax's output and of its input, in fp32, and in steps one more.
        w_.free(w_.allocate(it.rank, bytes((z_.loss_in_steps() ? 12 : 8) * z_.logits()), "logits"));
        w_.free(kept.back());
        kept.pop_back();
      }
      if (weight) head_backward_weight(it);
    } else if (input) {
      receive(it, it.rank, it.next, from_next);
    }
    if (input && z_.buffers()) w_.free(it.outputs.extract(key).mapped());
    if (input && !weight) it.gradients[key] = keep_gradients(it, pass.chunk);
    gather(it);
    for (int layer = z_.layers - 1; layer >= 0; --layer) {
      use_gathered(it);
      if (layer > 0) gather(it);
      const Recompute what = recompute_of(layer);
      const Workload::Block again = w_.allocate(
          it.rank, bytes(z_.layer_activations(Recompute::none) - z_.layer_activations(what)),
          "recomputed activations");
      // Gradients of the layer's output and input; of the largest matrix before it is added.
      const Workload::Block passing = w_.allocate(
          it.rank,
          bytes(2 * z_.hidden_state_part() +
                (r_.fused ? 0 : element * s_.hidden * std::max(s_.hidden, s_.mlp / p_.tensor))),
          "gradients in passing");
      if (input) compute_again(it, what);
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
      if (embeds(it, pass.chunk)) {
        tensor(it, true);
        launch(it, k_.embed.weight);
      }
      it.activations.erase(key);
      if (!input) w_.free(it.gradients.extract(key).mapped());
    }
    if (input && !embeds(it, pass.chunk)) send(it, it.before, it.rank, to_before);
  }
  Workload::Block keep_gradients(const Place& it, int chunk) {
    double size = z_.layers * z_.layer_gradients();
    if (ends(it, chunk)) size += element * z_.logits() + z_.hidden_state_part();
    if (embeds(it, chunk)) size += z_.hidden_state_part();
    return w_.allocate(it.rank, bytes(size), "gradients for weights");
  }
  void scatter_gradients(Place& it, bool last) {
    if (p_.sharding >= Sharding::gradients) {
      // Whole before they are scattered.
      w_.free(w_.allocate(it.rank, bytes(z_.layer_weights() * (element + r_.gradient)),
                          "whole gradients"));
      if (it.replicas.size() > 1)
        w_.launch(it.rank, pass(z_.layer_weights(), 1, ElementType::fp32), compute);
    }
    reduce_when_full(it, z_.dense_layer(), z_.expert_layer(), last, false);
  }

  void one_step(Place& it) {
    const Workload::Block ends = gather_ends(it);
    std::vector<int> left(static_cast<std::size_t>(p_.chunks), z_.micro_batches());
    std::map<int, std::vector<SendRecv>> messages;
    if (p_.chunks > 1) messages = turns_.messages(it.stage);
    const auto end_turns = [&](int before) {
      while (!messages.empty() && messages.begin()->first < before)
        end_turn(it, messages.extract(messages.begin()).mapped());
    };
    const std::vector<PipelinePass>& order = turns_.order(it.stage);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const PipelinePass& pass = order[i];
      if (p_.chunks > 1) end_turns(turns_.turns(it.stage)[i]);
      if (pass.kind == PipelinePass::forward) {
        forward(it, pass);
        continue;
      }
      int& to_come = left[static_cast<std::size_t>(pass.chunk)];
      if (pass.kind != PipelinePass::backward_input) --to_come;
      backward(it, pass, to_come == 0);
    }
    end_turns(std::numeric_limits<int>::max());
    if (p_.sequence_parallel && r_.fused)
      reduce_norms(it, 2 * z_.layers * p_.chunks + (it.stage == p_.pipeline - 1 ? 1 : 0));
    reduce_when_full(it, z_.ends_weights(it.stage), 0, true, true);
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
      if (sharded()) continue;
      // Those who share the optimizer's state, and not the weights, tell one another the weights.
      if (of.group->size() > 1 && p_.sharding != Sharding::none) {
        w_.order(it.rank, compute, reducing);
        collective(it, *of.group, CollectiveOp::all_gather, of.count * element, reducing);
        w_.order(it.rank, reducing, compute);
      }
      // Looked through, and converted along both dimensions.
      if (r_.fp8)
        w_.launch(it.rank,
                  custom({.name = "conversion of weights to 8 bits", .bytes = 6 * of.count}),
                  compute);
    }
  }

  Sizes z_;
  const TransformerShape& s_ = z_.s;
  const Parallelism& p_ = z_.p;
  const TrainingRecipe& r_ = z_.r;
  Turns turns_;
  Workload w_{};
  StepKernels k_;
};

}  // namespace

Workload training_steps(const TransformerShape& shape, const Parallelism& parallelism, int steps,
                        const TrainingRecipe& recipe) {
  PHANTORA_EXPECTS(steps >= 1, "there is a step, not " + std::to_string(steps));
  return Steps{shape, parallelism, recipe}.make(steps);
}

}  // namespace phantora
