#include "json/names.hpp"
#include "values.hpp"

#include <phantora/error.hpp>
#include <phantora/simulation/transformer.hpp>

namespace phantora::python {
namespace {

template <class Choice, std::size_t count>
Choice choose(const bindings::Names<Choice, count>& names, std::string_view text,
              std::string_view argument) {
  const std::optional<Choice> choice = bindings::choice_of(names, text);
  PHANTORA_EXPECTS(choice.has_value(), std::string{argument} + " is " + std::string{text} +
                                           ", not " + bindings::one_of(names));
  return *choice;
}

void define_shape(nb::module_& m) {
  const TransformerShape shape;
  nb::class_<TransformerShape>(m, "TransformerShape",
                               "A decoder: norms, attention with grouped keys, an MLP or experts.")
      .def(
          "__init__",
          [](TransformerShape* place, int layers, int hidden, int heads, int key_heads, int mlp,
             int vocabulary, int sequence, int experts, int experts_of_token, bool gated,
             bool rotary, bool biases, bool tied) {
            new (place) TransformerShape{.layers = layers,
                                         .hidden = hidden,
                                         .heads = heads,
                                         .key_heads = key_heads,
                                         .mlp = mlp,
                                         .vocabulary = vocabulary,
                                         .sequence = sequence,
                                         .experts = experts,
                                         .experts_of_token = experts_of_token,
                                         .gated = gated,
                                         .rotary = rotary,
                                         .biases = biases,
                                         .tied = tied};
          },
          nb::kw_only(), "layers"_a = shape.layers, "hidden"_a = shape.hidden,
          "heads"_a = shape.heads, "key_heads"_a = shape.key_heads, "mlp"_a = shape.mlp,
          "vocabulary"_a = shape.vocabulary, "sequence"_a = shape.sequence,
          "experts"_a = shape.experts, "experts_of_token"_a = shape.experts_of_token,
          "gated"_a = shape.gated, "rotary"_a = shape.rotary, "biases"_a = shape.biases,
          "tied"_a = shape.tied,
          R"(mlp: width of the MLP, or of an expert. sequence: tokens of one.
experts: of each layer; 0: a plain MLP. experts_of_token: those that each token goes to.
gated: three matrices in the MLP (SwiGLU); else two. rotary: positions are rotations; else learned.
biases: of all linear layers, and layer norms in place of RMS norms. tied: the head's weights are
the embedding's.)")
      .def_ro("layers", &TransformerShape::layers)
      .def_ro("hidden", &TransformerShape::hidden)
      .def_ro("heads", &TransformerShape::heads)
      .def_ro("key_heads", &TransformerShape::key_heads)
      .def_ro("mlp", &TransformerShape::mlp)
      .def_ro("vocabulary", &TransformerShape::vocabulary)
      .def_ro("sequence", &TransformerShape::sequence)
      .def_ro("experts", &TransformerShape::experts)
      .def_ro("experts_of_token", &TransformerShape::experts_of_token)
      .def_ro("gated", &TransformerShape::gated)
      .def_ro("rotary", &TransformerShape::rotary)
      .def_ro("biases", &TransformerShape::biases)
      .def_ro("tied", &TransformerShape::tied)
      .def_prop_ro(
          "parameters", [](const TransformerShape& it) { return parameters(it); },
          "Weights of all layers, the embedding and the head.")
      .def_prop_ro(
          "active_parameters", [](const TransformerShape& it) { return active_parameters(it); },
          "Those that a token meets: of the experts, its own.")
      .def_prop_ro(
          "flops_per_sequence", [](const TransformerShape& it) { return flops_per_sequence(it); },
          "FLOP that a training step needs for each of its sequences.");
}

void define_division(nb::module_& m) {
  using namespace bindings;
  const Parallelism way;
  nb::class_<Parallelism>(
      m, "Parallelism",
      R"(How a step is divided: rank = ((stage * data + replica) * context + slice) * tensor + part.)")
      .def(
          "__init__",
          [](Parallelism* place, int tensor, int pipeline, int data, int batch, int micro_batch,
             int context, int expert, int chunks, std::string_view schedule,
             std::string_view sharding, const Size& bucket, std::string_view recompute,
             std::string_view exchange, bool sequence_parallel, bool keep_gathered) {
            new (place) Parallelism{.tensor = tensor,
                                    .pipeline = pipeline,
                                    .data = data,
                                    .batch = batch,
                                    .micro_batch = micro_batch,
                                    .context = context,
                                    .expert = expert,
                                    .chunks = chunks,
                                    .schedule = choose(schedules, schedule, "schedule"),
                                    .sharding = choose(shardings, sharding, "sharding"),
                                    .bucket = to_bytes(bucket),
                                    .recompute = choose(recomputations, recompute, "recompute"),
                                    .exchange = choose(exchanges, exchange, "exchange"),
                                    .sequence_parallel = sequence_parallel,
                                    .keep_gathered = keep_gathered};
          },
          nb::kw_only(), "tensor"_a = way.tensor, "pipeline"_a = way.pipeline, "data"_a = way.data,
          "batch"_a = way.batch, "micro_batch"_a = way.micro_batch, "context"_a = way.context,
          "expert"_a = way.expert, "chunks"_a = way.chunks,
          "schedule"_a = name_of(schedules, way.schedule),
          "sharding"_a = name_of(shardings, way.sharding), "bucket"_a = to_python(way.bucket),
          "recompute"_a = name_of(recomputations, way.recompute),
          "exchange"_a = name_of(exchanges, way.exchange),
          "sequence_parallel"_a = way.sequence_parallel, "keep_gathered"_a = way.keep_gathered,
          R"(tensor: parts of each layer. pipeline: stages. data: replicas.
batch: sequences of a step, of all replicas together. micro_batch: sequences of a replica that go
through the stages at a time.
context: parts of each sequence; for weights they count as replicas. expert: replicas that share the
experts of a layer. chunks: parts of the model that each stage has (interleaved schedules).
schedule: "gpipe", "1f1b" or "zero_bubble".
sharding: what replicas share instead of having each its own: "none" (DistributedDataParallel),
"optimizer" (ZeRO-1), "gradients" (ZeRO-2) or "parameters" (ZeRO-3, FSDP).
bucket: bytes of gradients that are reduced at a time beside the backward pass of the last
micro-batch; 0: all of them after it.
recompute: what is computed again for the backward pass: "none", "selective" (norms and activation
functions) or "full" (all of a layer).
exchange: how keys and values get to the ranks that share a sequence: "ring" or "all_gather".
sequence_parallel: norms are divided among the tensor group too. keep_gathered: what that gathers is
kept for the backward pass, as PyTorch does; else gathered again, as Megatron does.)")
      .def_ro("tensor", &Parallelism::tensor)
      .def_ro("pipeline", &Parallelism::pipeline)
      .def_ro("data", &Parallelism::data)
      .def_ro("batch", &Parallelism::batch)
      .def_ro("micro_batch", &Parallelism::micro_batch)
      .def_ro("context", &Parallelism::context)
      .def_ro("expert", &Parallelism::expert)
      .def_ro("chunks", &Parallelism::chunks)
      .def_prop_ro("schedule",
                   [](const Parallelism& it) { return name_of(schedules, it.schedule); })
      .def_prop_ro("sharding",
                   [](const Parallelism& it) { return name_of(shardings, it.sharding); })
      .def_prop_ro(
          "bucket", [](const Parallelism& it) { return to_python(it.bucket); }, "Bytes.")
      .def_prop_ro("recompute",
                   [](const Parallelism& it) { return name_of(recomputations, it.recompute); })
      .def_prop_ro("exchange",
                   [](const Parallelism& it) { return name_of(exchanges, it.exchange); })
      .def_ro("sequence_parallel", &Parallelism::sequence_parallel)
      .def_ro("keep_gathered", &Parallelism::keep_gathered)
      .def_prop_ro("ranks", &Parallelism::ranks);
}

void define_recipe(nb::module_& m) {
  const TrainingRecipe recipe;
  nb::class_<TrainingRecipe>(m, "TrainingRecipe",
                             "How numbers are kept, and what kernels pass over them.")
      .def(
          "__init__",
          [](TrainingRecipe* place, double gradient, double optimizer, bool fused) {
            new (place)
                TrainingRecipe{.gradient = gradient, .optimizer = optimizer, .fused = fused};
          },
          nb::kw_only(), "gradient"_a = recipe.gradient, "optimizer"_a = recipe.optimizer,
          "fused"_a = recipe.fused,
          R"(gradient, optimizer: bytes for each parameter; the defaults are mixed precision: fp32
gradients, fp32 weights and both moments of Adam.
fused: activation functions, rotary embeddings and the accumulation of gradients are a pass each or
a part of a product, as torch.compile or Megatron have them; else the passes that PyTorch makes.)")
      .def_ro("gradient", &TrainingRecipe::gradient)
      .def_ro("optimizer", &TrainingRecipe::optimizer)
      .def_ro("fused", &TrainingRecipe::fused);
}

}  // namespace

void define_transformer(nb::module_& m) {
  define_shape(m);
  define_division(m);
  define_recipe(m);
  m.def(
      "training_steps",
      [](const TransformerShape& shape, const Parallelism& parallelism, int steps,
         const std::optional<TrainingRecipe>& recipe) {
        return training_steps(shape, parallelism, steps, recipe.value_or(TrainingRecipe{}));
      },
      "shape"_a, "parallelism"_a, "steps"_a = 1, "recipe"_a = nb::none(),
      nb::call_guard<nb::gil_scoped_release>(),
      R"(Training steps as a workload, with their memory; each step is marked. recipe: None for its defaults.

Raises ArgumentError if a size does not divide what it has to: heads, key heads, MLP, vocabulary and
sequence by tensor, layers by pipeline times chunks, the batch by data times micro_batch, the
sequence by context times tensor, experts and data by expert; or if there are several chunks and one
stage.)");
}

}  // namespace phantora::python
