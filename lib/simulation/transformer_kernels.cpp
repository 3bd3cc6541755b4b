#include "simulation/transformer_kernels.hpp"

#include <numeric>
#include <utility>

namespace phantora::detail::transformer {
namespace {

class Maker {
 public:
  Maker(Workload& workload, const Sizes& sizes) : w_{workload}, z_{sizes} {}

  StepKernels make() {
    const std::int64_t t = z_.tokens, h = s_.hidden, depth = h / s_.heads;
    const std::int64_t heads = s_.heads / p_.tensor, key_heads = s_.key_heads / p_.tensor;
    const std::int64_t q = heads * depth, kv = key_heads * depth;
    const std::int64_t words = s_.vocabulary / p_.tensor;
    const auto hidden_state = static_cast<double>(z_.divided * h);
    k_.norm = norm(z_.divided, h);
    add(k_.residual, pass(hidden_state, 2));

    linears(k_.qkv, t, h, {q, kv, kv});
    layer_linear(k_.project, t, q, h);
    if (s_.rotary) {
      // Over queries and keys. Unfused: two products, the sum, and a half turned round.
      const auto turned = static_cast<double>(t * (heads + key_heads) * depth);
      for (int i = 0; i < (r_.fused ? 1 : 4); ++i) {
        add(k_.qkv.forward, pass(turned, 2));
        k_.qkv.input.insert(k_.qkv.input.begin(), w_.kernel(pass(turned, 2)));
      }
    }
    make_attention(heads, key_heads, depth);

    if (s_.experts > 0) {
      const std::int64_t picked = t * s_.experts_of_token, experts = s_.experts / p_.expert;
      linear(k_.router, t, h, s_.experts);
      add(k_.router.forward, softmax_forward(t, s_.experts));
      add(k_.permute, pass(static_cast<double>(picked * h)));
      const Part one = mlp(std::max<std::int64_t>(1, picked / experts));
      for (std::int64_t i = 0; i < experts; ++i) {
        k_.mlp.forward = concat(k_.mlp.forward, one.forward);
        k_.mlp.input = concat(k_.mlp.input, one.input);
        k_.mlp.weight = concat(k_.mlp.weight, one.weight);
        k_.mlp.again = concat(k_.mlp.again, one.again);
      }
    } else {
      k_.mlp = mlp(t);
    }

    add(k_.embed.forward, embedding(z_.divided, h));
    if (!s_.rotary) add(k_.embed.forward, pass(hidden_state, 2));
    // The gradient of a table is one: zeros, to which the tokens' rows are added.
    const double table = table_parameters(s_) / p_.tensor;
    if (!r_.fused) add(k_.embed.weight, pass(table));
    add(k_.embed.weight, pass(hidden_state, 2));
    linear(k_.logits, t, h, words);
    make_loss(t, words);
    if (!r_.fused) add(k_.rearrange, pass(static_cast<double>(t * h)));

    if (!r_.fused && p_.sharding < Sharding::gradients) {
      add(k_.accumulate, pass(z_.layer_weights(), 2));
      add(k_.embed.weight, pass(table, 2));
      add(k_.logits.weight, pass(table, 2));
    }
    return std::move(k_);
  }

 private:
  void add(Kernels& to, const KernelQuery& query) { to.push_back(w_.kernel(query)); }
  void linear(Part& part, std::int64_t rows, std::int64_t in, std::int64_t out) {
    add(part.forward, linear_forward(rows, in, out));
    // The other way round, since backward passes come in the other order.
    part.input.insert(part.input.begin(), w_.kernel(linear_backward_input(rows, in, out)));
    part.weight.insert(part.weight.begin(), w_.kernel(linear_backward_weight(rows, in, out)));
  }
  /// The same in 8 bits, if the recipe says so. Tensor cores want both operands along k, so that
  /// each of the three products is a forward one of other sizes, of operands that were turned.
  void layer_linear(Part& part, std::int64_t rows, std::int64_t in, std::int64_t out,
                    bool convert_input = true) {
    if (!r_.fp8) return linear(part, rows, in, out);
    const auto product = [&](std::int64_t m, std::int64_t k, std::int64_t n) {
      return w_.kernel(linear_forward(m, k, n, ElementType::fp8_e4m3));
    };
    if (convert_input) convert(part.forward, rows * in);
    if (p_.sharding == Sharding::parameters) convert(part.forward, in * out);
    part.forward.push_back(product(rows, in, out));
    Kernels input;
    convert(input, rows * out);
    input.push_back(product(rows, out, in));
    part.input.insert(part.input.begin(), input.begin(), input.end());
    part.weight.insert(part.weight.begin(), product(out, rows, in));
  }
  /// Looks for the largest value, and writes the tensor in 8 bits, as it is and turned.
  void convert(Kernels& to, std::int64_t elements) {
    const auto all = static_cast<double>(elements);
    add(to, custom({.name = "largest value of a tensor", .bytes = 2 * all}));
    add(to, custom({.name = "conversion to 8 bits", .bytes = (2 + 1 + 1) * all}));
  }
  /// Of one input, several outputs: one product, or one for each, whose gradients are added up.
  void linears(Part& part, std::int64_t rows, std::int64_t in,
               const std::vector<std::int64_t>& outs) {
    if (r_.fused)
      return layer_linear(part, rows, in, std::accumulate(outs.begin(), outs.end(), 0L));
    for (std::size_t i = 0; i < outs.size(); ++i) layer_linear(part, rows, in, outs[i], i == 0);
    for (std::size_t i = 1; i < outs.size(); ++i)
      add(part.input, pass(static_cast<double>(rows) * static_cast<double>(in), 2));
  }
  Part norm(std::int64_t rows, std::int64_t cols) {
    if (z_.norms_in_passes()) return norm_in_passes(rows, cols);
    Part part;
    add(part.forward, s_.biases ? layer_norm_forward(rows, cols) : rms_norm_forward(rows, cols));
    part.again = part.forward;
    add(part.input,
        s_.biases ? layer_norm_backward_input(rows, cols) : rms_norm_backward_input(rows, cols));
    add(part.weight,
        s_.biases ? layer_norm_backward_weight(rows, cols) : rms_norm_backward_weight(rows, cols));
    return part;
  }
  /// A conversion to fp32, squares, their mean, the factor of each row, the product with it, a
  /// conversion to bf16, the product with the weights; backward what autograd makes of these.
  /// Conversions to fp32 and products with a factor of a row or a column are kernels that do not
  /// load vectors: on an H200, 51.8, 52.5 and 44.9 us for 4096 x 4096 elements, which a pass over
  /// two operands in fp32 takes as well, 48.9 us (bench/accuracy/transformer.py, "norms of
  /// passes").
  Part norm_in_passes(std::int64_t rows, std::int64_t cols) {
    const auto of_rows = static_cast<double>(rows);
    const double all = of_rows * static_cast<double>(cols);
    const KernelQuery one = pass(all, 1, ElementType::fp32), two = pass(all, 2, ElementType::fp32);
    const KernelQuery narrow = pass(all, 2);  // as many bytes as a conversion to bf16
    const KernelQuery small = pass(of_rows, 1, ElementType::fp32);
    const auto sum = [&](double bytes) {
      return custom({.name = "sum of a norm", .bytes = bytes * all});
    };
    Part part;
    for (const auto& kernel : {two, one, sum(4), small, small, two, narrow, two})
      add(part.forward, kernel);
    part.again = part.forward;
    // Of the product with the weights, of the conversion, of the product with the factor: the row's
    // elements and the factor itself, whose gradient goes back through the mean to the squares.
    for (const auto& kernel : {two, two, two, two, sum(4), small, small, small, two, one, two})
      add(part.input, kernel);
    add(part.input, two);  // both gradients of a row
    add(part.input, narrow);
    for (const auto& kernel : {pass(all, 2), sum(2)}) add(part.weight, kernel);
    return part;
  }
  /// The MLP, or an expert, on `rows` tokens.
  Part mlp(std::int64_t rows) {
    const std::int64_t h = s_.hidden, f = s_.mlp / p_.tensor;
    const double elements = static_cast<double>(rows) * static_cast<double>(f);
    Part up, down;
    linears(up, rows, h, s_.gated ? std::vector{f, f} : std::vector{f});
    layer_linear(down, rows, f, h);
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

  /// In fp32: a copy, log_softmax; backward what is picked, log_softmax, a copy.
  void make_loss(std::int64_t rows, std::int64_t words) {
    const double all = static_cast<double>(rows) * static_cast<double>(words);
    const auto of = [&](int inputs) { return pass(all, inputs, ElementType::fp32); };
    add(k_.loss.forward, of(1));
    add(k_.loss.input, of(1));
    if (z_.loss_in_steps()) {
      // The greatest, from which all are taken; their exponentials, whose sum's logarithm is taken.
      const KernelQuery reduction = custom({.name = "reduction of logits", .bytes = 4 * all});
      for (const auto& kernel : {reduction, of(1), of(1), reduction, of(1)})
        add(k_.loss.forward, kernel);
      for (const auto& kernel : {of(1), of(1), of(2)}) add(k_.loss.input, kernel);
    } else {
      add(k_.loss.forward, softmax_forward(rows, words, ElementType::fp32));
      add(k_.loss.input, softmax_backward(rows, words, ElementType::fp32));
    }
    add(k_.loss.input, of(1));
  }

  void add_attention(Part& part, const AttentionShape& block) {
    switch (r_.attention) {
      case AttentionKernels::pytorch:
        add(part.forward, pytorch_attention_forward(block));
        add(part.input, pytorch_attention_backward(block));
        break;
      case AttentionKernels::cudnn:
        add(part.forward, attention_forward(block));
        add(part.input, attention_backward(block));
        break;
      case AttentionKernels::flash_attention_2:
        add(part.forward, flash_attention_forward(block));
        for (const auto& kernel : flash_attention_backward(block)) add(part.input, kernel);
        break;
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
    add_attention(k_.own_block, block);
    if (p_.context == 1) return;
    block.causal = false;
    block.keys = std::max<std::int64_t>(1, queries / 2);
    const auto outputs = static_cast<double>(z_.tokens * heads * depth);
    const auto keys = static_cast<double>(z_.tokens * 2 * key_heads * depth);
    auto& [forward, input, weight, again] = k_.other_block;
    add_attention(k_.other_block, block);
    if (r_.fused) {
      add(forward, pass(outputs, 3));
      add(input, pass(outputs, 2));
      return;
    }
    // PyTorch's (_templated_ring_attention): keys and values become one tensor; outputs are merged
    // in fp32, a copy, two differences and a product. Backward each gradient is copied to fp32 and
    // added, and those of keys and values become one tensor.
    const auto wide = [&](double elements, int inputs) {
      return pass(elements, inputs, ElementType::fp32);
    };
    add(forward, pass(keys));
    for (const int inputs : {1, 2, 2, 2}) add(forward, wide(outputs, inputs));
    add(input, pass(keys));
    for (const int inputs : {1, 2}) {
      add(input, wide(outputs, inputs));
      add(input, wide(keys, inputs));
    }
    add(input, wide(keys, 1));
  }

  Workload& w_;
  const Sizes& z_;
  const TransformerShape& s_ = z_.s;
  const Parallelism& p_ = z_.p;
  const TrainingRecipe& r_ = z_.r;
  StepKernels k_{};
};

}  // namespace

StepKernels step_kernels(Workload& workload, const Sizes& sizes) {
  return Maker{workload, sizes}.make();
}

}  // namespace phantora::detail::transformer
