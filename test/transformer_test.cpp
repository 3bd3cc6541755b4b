#include <phantora/error.hpp>
#include <phantora/simulation/simulation.hpp>
#include <phantora/simulation/transformer.hpp>

#include <gtest/gtest.h>

namespace phantora {
namespace {

constexpr TransformerShape llama70{.layers = 80, .hidden = 8192, .heads = 64, .mlp = 28672};
constexpr TransformerShape small{.layers = 4,
                                 .hidden = 1024,
                                 .heads = 16,
                                 .key_heads = 8,
                                 .mlp = 4096,
                                 .vocabulary = 32000,
                                 .sequence = 1024};

template <class T>
int count(const Workload& w, Rank rank) {
  int n = 0;
  for (const auto& operation : w.operations(rank)) n += std::holds_alternative<T>(operation);
  return n;
}

TEST(Transformer, ParametersAreThoseThatAreBeingPublished) {
  // Touvron et al., "Llama 2"; "The Llama 3 Herd of Models"; the numbers of elements in the
  // checkpoints that Meta and Mistral published. All weights, to the last norm.
  const TransformerShape llama2_7b{.key_heads = 32, .mlp = 11008, .vocabulary = 32000};
  EXPECT_EQ(parameters(llama2_7b), 6'738'415'616);
  const TransformerShape llama2_70b{
      .layers = 80, .hidden = 8192, .heads = 64, .mlp = 28672, .vocabulary = 32000};
  EXPECT_EQ(parameters(llama2_70b), 68'976'648'192);
  EXPECT_EQ(parameters(TransformerShape{}), 8'030'261'248);           // Llama 3 8B
  EXPECT_EQ(parameters(llama70), 70'553'706'496);                     // Llama 3 70B
  const TransformerShape mixtral{.vocabulary = 32000, .experts = 8};  // 8x7B
  EXPECT_EQ(parameters(mixtral), 46'702'792'704);
  EXPECT_NEAR(active_parameters(mixtral), 12.9e9, 0.05e9);
  // Brown et al., "Language Models are Few-Shot Learners", table 2.1: 175.0B, 96 layers of 12288.
  const TransformerShape gpt3{.layers = 96,
                              .hidden = 12288,
                              .heads = 96,
                              .key_heads = 96,
                              .mlp = 49152,
                              .vocabulary = 50257,
                              .sequence = 2048,
                              .gated = false,
                              .rotary = false,
                              .biases = true,
                              .tied = true};
  EXPECT_NEAR(parameters(gpt3), 175e9, 0.5e9);
  // GPT-2, whose checkpoint has 124,439,808.
  const TransformerShape gpt2{.layers = 12,
                              .hidden = 768,
                              .heads = 12,
                              .key_heads = 12,
                              .mlp = 3072,
                              .vocabulary = 50257,
                              .sequence = 1024,
                              .gated = false,
                              .rotary = false,
                              .biases = true,
                              .tied = true};
  EXPECT_EQ(parameters(gpt2), 124'439'808);
  // 6 per parameter and token, and 12 * layers * hidden * s^2 / 2 of causal attention.
  EXPECT_NEAR(flops_per_sequence(llama70),
              6 * (parameters(llama70) - 128256.0 * 8192) * 4096 + 6.0 * 80 * 8192 * 4096 * 4096,
              1e6);
}

TEST(Transformer, ARankRunsItsLayersAndMeetsItsGroups) {
  // One stage, 4 layers, 2 micro-batches. Of each half layer and direction an all_gather and a
  // reduce_scatter: 4 * 2 * 2 * 2 * 2. Of each micro-batch in both directions one after the
  // embedding and one before the head, and three of the loss. The norms' gradients, and two
  // collectives of the optimizer.
  const Workload w = training_steps(small, {.tensor = 2, .data = 2, .batch = 4});
  EXPECT_EQ(w.rank_count(), 4U);
  for (Rank rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(count<Workload::Collective>(w, rank), 4 * 2 * 2 * 2 * 2 + 2 * (4 + 3) + 1 + 2);
    EXPECT_EQ(count<Workload::Exchange>(w, rank), 0);
    EXPECT_EQ(count<Workload::StepEnd>(w, rank), 1);
  }
  // Alike on all ranks: only the groups differ.
  EXPECT_EQ(w.operations(0).size(), w.operations(3).size());
}

TEST(Transformer, StagesPassEachMicroBatchOnAndBack) {
  const Workload w = training_steps(small, {.pipeline = 4, .batch = 8}, 2);
  for (const auto& [rank, messages] : {std::pair{0U, 16}, {1U, 32}, {2U, 32}, {3U, 16}}) {
    EXPECT_EQ(count<Workload::Exchange>(w, rank), 2 * messages);
    EXPECT_EQ(count<Workload::Collective>(w, rank), 0);
  }
}

/// Bytes of `small`'s layer and token with everything kept, but the head's: two norms' inputs and
/// outputs, queries, keys and values, attention's output and its sums, both halves of the MLP and
/// their product.
constexpr std::int64_t kept = 2 * (4 * 1024 + (1024 + 2 * 512) + 1024 + 3 * 4096) + 4 * 16;
constexpr double layer = 1024.0 * (2 * 1024 + 2 * 512) + 3.0 * 1024 * 4096 + 2 * 1024;
constexpr double table = 32000.0 * 1024;

Bytes peak(const Parallelism& p, Rank rank, const TrainingRecipe& recipe = {}) {
  const Report report =
      Simulation{parse_cluster("h200:1x8")}.run(training_steps(small, p, 2, recipe));
  return report.ranks[rank].peak_memory - gpu_model("h200").context_memory;
}

TEST(Transformer, MemoryIsThatOfItsParts) {
  // The first of 4 stages keeps as many micro-batches as there are stages behind it and itself.
  const Parallelism p{.pipeline = 4, .data = 2, .batch = 16};
  const auto held = [&](double weights, int micro_batches) {
    return Bytes{static_cast<std::int64_t>(weights * (2 + 4 + 12.0 / 2))} +
           Bytes{kept * 1024} * micro_batches;
  };
  // In a layer's backward pass also the gradients of its output and input.
  const Bytes passing{2 * 1024 * 1024 * 2};
  EXPECT_EQ(peak(p, 0), held(layer + table, 4) + passing);
  EXPECT_EQ(peak(p, 2), held(layer, 3) + passing);
  EXPECT_EQ(peak(p, 4), held(layer, 2) + passing);
  // The loss: its norm's input and output, log_softmax and two gradients of it in fp32.
  EXPECT_EQ(peak(p, 6), held(layer + table + 1024, 1) + Bytes{1024 * (2 * 2 * 1024 + 12 * 32000)});
}

TEST(Transformer, SchedulesDifferInWhatTheyKeep) {
  Parallelism p{.pipeline = 4, .batch = 8};
  const Bytes taking_turns = peak(p, 0);
  // Between the halves of the first stage's backward pass also the gradients of queries, keys and
  // values, of both products' outputs, of both halves of the MLP, of two norms and the embedding.
  p.schedule = PipelineSchedule::zero_bubble;
  EXPECT_EQ(peak(p, 0), taking_turns + Bytes{1024 * 2 * (2048 + 1024 + 8192 + 1024 + 2048 + 1024)});
  p.schedule = PipelineSchedule::gpipe;
  EXPECT_EQ(peak(p, 0), taking_turns + 4 * Bytes{kept * 1024});
}

TEST(Transformer, InterleavedStagesGoInTurns) {
  TransformerShape deep = small;
  deep.layers = 8;
  const Workload w = training_steps(deep, {.pipeline = 4, .batch = 8, .chunks = 2});
  // What each stage passes on: two chunks of 8 micro-batches both ways, but for the ends' own.
  for (const Rank rank : {0U, 1U, 2U, 3U}) {
    int sent = 0, received = 0;
    for (const Workload::Operation& operation : w.operations(rank)) {
      const auto* exchange = std::get_if<Workload::Exchange>(&operation);
      if (exchange == nullptr) continue;
      for (const SendRecv& part : w.messages()[exchange->messages].parts)
        ++(part.src_rank == static_cast<int>(rank) ? sent : received);
    }
    const int all = rank == 0 || rank == 3 ? 24 : 32;
    EXPECT_EQ(sent, all) << rank;
    EXPECT_EQ(received, all) << rank;
  }
  // In a turn a stage sends and receives at once: there are fewer groups than messages.
  EXPECT_LT(count<Workload::Exchange>(w, 1), 64);
  (void)Simulation{parse_cluster("h200:1x4")}.run(w);
}

TEST(Transformer, PyTorchCopiesAndKeepsBuffers) {
  const TrainingRecipe fused{.gradient = 2, .optimizer = 4};
  TrainingRecipe plain = fused;
  plain.fused = false;
  // Around each collective of a sequence, and an all_reduce for each norm.
  const Parallelism tensor{.tensor = 2, .batch = 1};
  const Workload with = training_steps(small, tensor, 1, fused),
                 without = training_steps(small, tensor, 1, plain);
  EXPECT_EQ(count<Workload::Collective>(without, 0) - count<Workload::Collective>(with, 0),
            2 * 4 + 1 - 1);
  Parallelism whole = tensor;
  whole.sequence_parallel = false;
  EXPECT_EQ(count<Workload::Launch>(without, 0) -
                count<Workload::Launch>(training_steps(small, whole, 1, plain), 0),
            4 * 2 * 2 * 2 + 4);
  // The second of 4 stages has buffers of 8 micro-batches both ways, which hold the inputs of the
  // three that it keeps, and of two of these what it passed on.
  const Parallelism stages{.pipeline = 4, .batch = 8, .sharding = Sharding::none};
  const std::int64_t state = 1024 * 1024 * 2;
  const Bytes more = peak(stages, 1, plain) - peak(stages, 1, fused);
  const std::int64_t product = 4096 * 1024 * 2;  // kept by three micro-batches
  const std::int64_t largest = 1024 * 4096 * 2;  // gradient before it is added
  EXPECT_EQ(more, Bytes{(2 * 8 - 3 + 2) * state + 3 * product + largest});
}

TEST(Transformer, ShardingDividesWhatItSays) {
  Parallelism p{.data = 4, .batch = 4, .sharding = Sharding::none};
  const double all = parameters(small);
  const Bytes none = peak(p, 0);
  p.sharding = Sharding::optimizer;
  EXPECT_EQ(none - peak(p, 0), Bytes{static_cast<std::int64_t>(12 * all * 3 / 4)});
  p.sharding = Sharding::gradients;
  EXPECT_EQ(none - peak(p, 0), Bytes{static_cast<std::int64_t>(16 * all * 3 / 4)});
  // Weights too, but both ends of the model, which stay whole.
  p.sharding = Sharding::parameters;
  EXPECT_EQ(none - peak(p, 0),
            Bytes{static_cast<std::int64_t>(16 * all * 3 / 4 + 2 * (all - 2 * table - 1024))});
}

TEST(Transformer, WhatIsRecomputedIsNotKept) {
  // In the peak, at the loss, no layer is being recomputed.
  Parallelism p{.batch = 1};
  const Bytes all = peak(p, 0);
  p.recompute = Recompute::selective;  // the norms' outputs and the product of the MLP's halves
  EXPECT_EQ(all - peak(p, 0), Bytes{4 * 1024 * 2 * (2 * 1024 + 4096)});
  p.recompute = Recompute::full;  // all but a layer's input
  EXPECT_EQ(all - peak(p, 0), Bytes{4 * 1024 * (kept - 2 * 1024)});
}

TEST(Transformer, EverySecondLayerIsRecomputed) {
  Parallelism p{.batch = 1};
  const Bytes none = peak(p, 0);
  p.recompute = Recompute::full;
  const Bytes full = peak(p, 0);
  p.recompute_every = 2;  // two of the four
  EXPECT_EQ(2 * (none - peak(p, 0)), none - full);
  p.recompute_every = 3;  // the third
  EXPECT_EQ(4 * (none - peak(p, 0)), none - full);
  p.recompute_every = 5;
  EXPECT_EQ(peak(p, 0), none);
  p.recompute_every = 0;
  EXPECT_THROW((void)training_steps(small, p), ArgumentError);
}

/// Throughput of llm-foundry's MPT models on eight A100s, of those rows of
/// bench/accuracy/published_steps.tsv that are hits there and where attention, which was another
/// one, has the least part.
TEST(Transformer, PublishedStepsOnA100) {
  struct Row {
    int layers, hidden, heads, sequence, micro_batch, accumulated;
    double tokens;  ///< per second and GPU
  };
  for (const Row& row :
       {Row{48, 7168, 56, 1024, 6, 21, 946}, Row{48, 7168, 56, 2048, 3, 21, 916},
        Row{40, 5120, 40, 1024, 40, 3, 2330}, Row{32, 4096, 32, 1024, 64, 2, 4357}}) {
    const TransformerShape mpt{.layers = row.layers,
                               .hidden = row.hidden,
                               .heads = row.heads,
                               .key_heads = row.heads,
                               .mlp = 4 * row.hidden,
                               .vocabulary = 50368,
                               .sequence = row.sequence,
                               .gated = false,
                               .rotary = false,
                               .biases = true,
                               .tied = true};
    const Parallelism way{.data = 8,
                          .batch = 8 * row.micro_batch * row.accumulated,
                          .micro_batch = row.micro_batch,
                          .sharding = Sharding::parameters,
                          .recompute = Recompute::full};
    const Report report =
        Simulation{parse_cluster("a100:1x8")}.run(training_steps(mpt, way, 2, {.fused = false}));
    const double tokens =
        row.micro_batch * row.accumulated * row.sequence / to_seconds(report.step());
    EXPECT_NEAR(tokens / row.tokens, 1.0, 0.05) << row.layers << " layers, " << row.sequence;
  }
}

double step(const TransformerShape& shape, const Parallelism& p,
            const TrainingRecipe& recipe = {}) {
  const Simulation simulation{parse_cluster("h200:1x8")};
  return to_seconds(simulation.run(training_steps(shape, p, 3, recipe)).step());
}
/// Large enough that the GPU's products decide.
constexpr TransformerShape wide{.layers = 8, .hidden = 4096, .vocabulary = 32000, .sequence = 2048};

TEST(Transformer, TensorGroupsExchangeBesideProducts) {
  Parallelism p{.tensor = 4, .batch = 4, .micro_batch = 4};
  for (const bool keep : {true, false}) {
    p.keep_gathered = keep;
    p.overlap_tensor = false;
    const double apart = step(wide, p);
    p.overlap_tensor = true;
    const double beside = step(wide, p);
    // Of what is exchanged at most all is hidden.
    Parallelism alone = p;
    alone.tensor = 1;
    EXPECT_LT(beside, 0.95 * apart);
    EXPECT_GT(beside, step(wide, alone) / 4);
  }
  p.sequence_parallel = false;  // all_reduces stay where they are
  const double with = step(wide, p);
  p.overlap_tensor = false;
  EXPECT_EQ(with, step(wide, p));
}

TEST(Transformer, ProductsOf8BitsTakeLessAndConversionsSome) {
  for (const Sharding sharding : {Sharding::optimizer, Sharding::parameters}) {
    const Parallelism p{.data = 8, .batch = 32, .micro_batch = 4, .sharding = sharding};
    const double bf16 = step(wide, p), fp8 = step(wide, p, {.fp8 = true});
    EXPECT_LT(fp8, 0.9 * bf16);
    EXPECT_GT(fp8, 0.5 * bf16);  // what twice the tensor cores' rate allows
  }
}

TEST(Transformer, AttentionIsWhoseTheRecipeSays) {
  const auto took = [](const char* cluster, AttentionKernels attention, int context = 1) {
    const Parallelism way{.data = 4 / context, .batch = 8, .context = context};
    const Workload steps = training_steps(small, way, 2, {.attention = attention});
    return Simulation{parse_cluster(cluster)}.run(steps).step();
  };
  // PyTorch's on a Hopper GPU is cuDNN's, and faster there than FlashAttention 2; blocks of a
  // context group alike.
  for (const int context : {1, 2}) {
    EXPECT_EQ(took("h200:1x4", AttentionKernels::pytorch, context),
              took("h200:1x4", AttentionKernels::cudnn, context));
    EXPECT_LT(took("h200:1x4", AttentionKernels::cudnn, context),
              took("h200:1x4", AttentionKernels::flash_attention_2, context));
  }
  // On an A100 it is FlashAttention 2, as one call that holds the gaps between its kernels.
  const Duration chosen = took("a100:1x4", AttentionKernels::pytorch);
  const Duration named = took("a100:1x4", AttentionKernels::flash_attention_2);
  EXPECT_NEAR(to_seconds(chosen) / to_seconds(named), 1.0, 0.005);
  EXPECT_NE(chosen, took("a100:1x4", AttentionKernels::cudnn));
}

TEST(Transformer, NormsOfPassesTakeTheirBytes) {
  const TransformerShape one{.layers = 2, .vocabulary = 4096, .sequence = 8192};
  const Parallelism alone{.batch = 1};
  const auto run = [&](bool fused) {
    return Simulation{parse_cluster("h200:1x1")}.run(
        training_steps(one, alone, 1, {.fused_norms = fused}));
  };
  const Report kernels = run(true), passes = run(false);
  // Bytes of an element that is read and written by a pass over one or two operands in fp32 (8,
  // 12), of bf16 (6, and a conversion's), and read by a sum (4, 2); kernels move 4 forward, and
  // backward at most 6 for the input's gradient and 4 for the weights'. Five norms of 8192 x 4096.
  constexpr double forward = 3 * 12 + 8 + 4 + 6, input = 7 * 12 + 8 + 4 + 6, weight = 6 + 2;
  constexpr double kernels_bytes = 4 + 6 + 4;
  const double least = 5.0 * 8192 * 4096 * (forward + input + weight - kernels_bytes) / 4.8e12;
  EXPECT_GT(to_seconds(passes.step() - kernels.step()), least);
  EXPECT_LT(to_seconds(passes.step() - kernels.step()), 1.5 * least);
  // Kept for each of a layer's two norms: 4 bytes of its input in fp32 and 2 of the rows before the
  // weights, where kernels keep 2 of its input.
  EXPECT_EQ(passes.ranks[0].peak_memory - kernels.ranks[0].peak_memory,
            Bytes{std::int64_t{2} * 2 * 4 * 8192 * 4096});
  // Layer norms are kernels anyway.
  TransformerShape with_biases = one;
  with_biases.biases = true;
  EXPECT_EQ(step(with_biases, alone), step(with_biases, alone, {.fused_norms = false}));
}

TEST(Transformer, RecomputationCostsAForwardPass) {
  Parallelism p{.batch = 2, .micro_batch = 2};
  const double none = step(wide, p);
  p.recompute = Recompute::selective;
  const double selective = step(wide, p);
  p.recompute = Recompute::full;
  const double full = step(wide, p);
  EXPECT_GT(selective, none);
  EXPECT_LT(selective, 1.05 * none);
  // A third of a step's products, less the head's and the optimizer.
  EXPECT_GT(full, 1.2 * none);
  EXPECT_LT(full, 1.33 * none);
}

TEST(Transformer, BucketsHideTheReduction) {
  Parallelism p{.data = 8, .batch = 16, .micro_batch = 2, .sharding = Sharding::none};
  const double after = step(wide, p);
  p.bucket = 100_MiB;
  EXPECT_LT(step(wide, p), after);
  const Workload w = training_steps(wide, p);
  // A layer's gradients, 872 MB, fill a bucket each; what is left is the embedding's and the
  // head's.
  EXPECT_EQ(count<Workload::Collective>(w, 0), 8 + 1);
}

TEST(Transformer, GathersLayersBeforeBothPasses) {
  // Each layer twice and both ends once; a reduce_scatter of each layer, and of the ends.
  const Workload w =
      training_steps(small, {.data = 2, .batch = 2, .sharding = Sharding::parameters});
  EXPECT_EQ(count<Workload::Collective>(w, 0), 4 * 2 + 1 + 4 + 1);
  // ZeRO-2 scatters each micro-batch's; then the ends' gradients and the weights.
  const Workload zero2 = training_steps(
      small, {.data = 2, .batch = 4, .sharding = Sharding::gradients, .bucket = 1_B});
  EXPECT_EQ(count<Workload::Collective>(zero2, 0), 2 * 4 + 1 + 1);
}

TEST(Transformer, ExpertsMeetTheirTokens) {
  constexpr TransformerShape mixture{.layers = 2,
                                     .hidden = 1024,
                                     .heads = 16,
                                     .mlp = 2048,
                                     .vocabulary = 32000,
                                     .sequence = 1024,
                                     .experts = 8};
  const Workload w =
      training_steps(mixture, {.data = 4, .batch = 4, .expert = 2, .sharding = Sharding::none});
  // Two all_to_alls in each layer and direction, the gradients of what all replicas have and of the
  // experts, which two groups have.
  EXPECT_EQ(count<Workload::Collective>(w, 0), 2 * 2 * 2 + 2);
  bool experts = false;
  for (const auto& call : w.calls()) {
    const auto& [op, total, root, type] = call.operations.front();
    if (op == CollectiveOp::all_to_all) {
      EXPECT_EQ(w.groups()[call.group].size(), 2U);
      EXPECT_EQ(total, Bytes{1024 * 2 * 1024 * 2});  // tokens, experts of each, their hidden state
    } else if (w.groups()[call.group].size() == 2) {
      experts = true;
      EXPECT_EQ(total, Bytes{2 * 4 * 3 * 1024 * 2048 * 4});  // layers, experts, weights, fp32
    }
  }
  EXPECT_TRUE(experts);
}

TEST(Transformer, EndsOfAPipelineAddTheGradientsOfATiedTable) {
  TransformerShape tied = small;
  tied.tied = true;
  const Parallelism way{.tensor = 2, .pipeline = 4, .batch = 4};
  const Workload apart = training_steps(small, way), together = training_steps(tied, way);
  for (Rank rank = 0; rank < 8; ++rank) {
    const bool middle = rank >= 2 && rank < 6;
    EXPECT_EQ(count<Workload::Collective>(together, rank),
              count<Workload::Collective>(apart, rank) + (middle ? 0 : 1));
  }
  // fp32 gradients of half the table, by the ranks that have that half.
  int found = 0;
  for (const Workload::Call& call : together.calls()) {
    if (together.groups()[call.group] != std::vector<Rank>{1, 7}) continue;
    ++found;
    ASSERT_EQ(call.operations.size(), 1U);
    EXPECT_EQ(call.operations[0].op, CollectiveOp::all_reduce);
    EXPECT_EQ(call.operations[0].total, Bytes{32000 * 1024 / 2 * 4});
  }
  EXPECT_EQ(found, 1);
  (void)Simulation{parse_cluster("h200:1x8")}.run(together);
}

TEST(Transformer, SlicesOfASequenceExchangeKeys) {
  Parallelism p{.batch = 1, .context = 4, .sharding = Sharding::none};
  const Workload ring = training_steps(small, p);
  EXPECT_EQ(ring.rank_count(), 4U);
  // In each layer keys pass to three other slices in both directions, their gradients back home.
  EXPECT_EQ(count<Workload::Exchange>(ring, 0), 4 * (3 + 3 + 4));
  EXPECT_EQ(count<Workload::Collective>(ring, 0), 1);  // gradients: slices are replicas
  // Keys and values of 256 tokens.
  EXPECT_EQ(ring.messages().front().parts.front().size, Bytes{256 * 2 * 512 * 2});
  p.exchange = ContextExchange::all_gather;
  const Workload gather = training_steps(small, p);
  EXPECT_EQ(count<Workload::Exchange>(gather, 0), 0);
  EXPECT_EQ(count<Workload::Collective>(gather, 0), 4 * 3 + 1);
  for (const Workload* w : {&ring, &gather})
    EXPECT_GT(Simulation{parse_cluster("h200:1x4")}.run(*w).makespan, Duration{});
}

TEST(Transformer, WithoutSequenceParallelismATensorGroupReduces) {
  const Workload w = training_steps(small, {.tensor = 2, .batch = 1, .sequence_parallel = false});
  // And after the embedding, in the head's backward pass, and three of the loss.
  EXPECT_EQ(count<Workload::Collective>(w, 0), 4 * 2 * 2 + 2 + 3);
  for (const auto& call : w.calls())
    EXPECT_EQ(call.operations.front().op, CollectiveOp::all_reduce);
  // What is gathered twice need not be kept.
  Parallelism p{.tensor = 2, .batch = 1};
  const Bytes kept_gathered = peak(p, 0);
  p.keep_gathered = false;
  EXPECT_EQ(kept_gathered - peak(p, 0), Bytes{4 * 2 * 1024 * 1024 / 2 * 2});
}

TEST(Transformer, EveryWayRunsToItsEnd) {
  const Simulation simulation{parse_cluster("h200:2x8")};
  for (const auto schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_forward_one_backward,
                              PipelineSchedule::zero_bubble})
    for (const int chunks : {1, 2})
      for (const auto sharding :
           {Sharding::none, Sharding::optimizer, Sharding::gradients, Sharding::parameters})
        for (const auto recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
          const Report report = simulation.run(training_steps(small, {.tensor = 2,
                                                                      .pipeline = 2,
                                                                      .data = 2,
                                                                      .batch = 8,
                                                                      .context = 2,
                                                                      .chunks = chunks,
                                                                      .schedule = schedule,
                                                                      .sharding = sharding,
                                                                      .bucket = 10_MiB,
                                                                      .recompute = recompute}));
          EXPECT_EQ(report.steps.size(), 1U);
        }
}

TEST(Transformer, PipelinesWaitAndTensorGroupsTalk) {
  const Simulation simulation{parse_cluster("h200:1x8")};
  const Report tensor = simulation.run(training_steps(small, {.tensor = 8, .batch = 8}));
  const Report pipeline = simulation.run(training_steps(small, {.pipeline = 4, .batch = 8}));
  EXPECT_EQ(tensor.waiting(), Duration{});  // all parts are alike
  EXPECT_GT(tensor.exposed(), tensor.makespan / 10);
  EXPECT_GT(pipeline.waiting(), pipeline.exposed());
  // 8 micro-batches over 4 stages: at least 3 / 11 of the time is the bubble.
  EXPECT_GT(pipeline.waiting() + pipeline.idle(), pipeline.makespan * 3 / 11);
}

TEST(Transformer, StepsAreAlike) {
  const Simulation simulation{parse_cluster("h200:1x8")};
  const Report report =
      simulation.run(training_steps(small, {.tensor = 2, .pipeline = 2, .data = 2, .batch = 8}, 4));
  ASSERT_EQ(report.steps.size(), 4U);
  EXPECT_NEAR(to_seconds(report.steps[3] - report.steps[2]), to_seconds(report.step()),
              1e-3 * to_seconds(report.step()));
}

TEST(Transformer, RefusesWhatDoesNotDivide) {
  EXPECT_THROW((void)training_steps(small, {.tensor = 3, .batch = 1}), ArgumentError);
  EXPECT_THROW((void)training_steps(small, {.pipeline = 3, .batch = 1}), ArgumentError);
  EXPECT_THROW((void)training_steps(small, {.data = 2, .batch = 3}), ArgumentError);
  EXPECT_THROW((void)training_steps(small, {.batch = 1}, 0), ArgumentError);
  EXPECT_THROW((void)training_steps({.layers = 0}, {}), ArgumentError);
  EXPECT_THROW((void)training_steps(small, {.batch = 1, .context = 3}), ArgumentError);
  EXPECT_THROW((void)training_steps(small, {.batch = 1, .chunks = 2}), ArgumentError);
  EXPECT_THROW((void)training_steps(small, {.data = 2, .batch = 2, .expert = 2}), ArgumentError);
  EXPECT_THROW((void)training_steps(small, {.pipeline = 2, .batch = 3, .chunks = 2}),
               ArgumentError);
}

}  // namespace
}  // namespace phantora
