#include "values.hpp"

#include <phantora/simulation/transformer.hpp>

namespace phantora::python {

void define_transformer(nb::module_& m) {
  const TransformerShape shape;
  nb::class_<TransformerShape>(m, "TransformerShape",
                               "A decoder: RMS norms, attention with grouped keys, a gated MLP.")
      .def(
          "__init__",
          [](TransformerShape* place, int layers, int hidden, int heads, int key_heads, int mlp,
             int vocabulary, int sequence) {
            new (place) TransformerShape{.layers = layers,
                                         .hidden = hidden,
                                         .heads = heads,
                                         .key_heads = key_heads,
                                         .mlp = mlp,
                                         .vocabulary = vocabulary,
                                         .sequence = sequence};
          },
          nb::kw_only(), "layers"_a = shape.layers, "hidden"_a = shape.hidden,
          "heads"_a = shape.heads, "key_heads"_a = shape.key_heads, "mlp"_a = shape.mlp,
          "vocabulary"_a = shape.vocabulary, "sequence"_a = shape.sequence,
          "sequence: tokens of one. mlp: width of the MLP.")
      .def_ro("layers", &TransformerShape::layers)
      .def_ro("hidden", &TransformerShape::hidden)
      .def_ro("heads", &TransformerShape::heads)
      .def_ro("key_heads", &TransformerShape::key_heads)
      .def_ro("mlp", &TransformerShape::mlp)
      .def_ro("vocabulary", &TransformerShape::vocabulary)
      .def_ro("sequence", &TransformerShape::sequence)
      .def_prop_ro(
          "parameters", [](const TransformerShape& it) { return parameters(it); },
          "Weights of all layers, the embedding and the head.")
      .def_prop_ro(
          "flops_per_sequence", [](const TransformerShape& it) { return flops_per_sequence(it); },
          "FLOP that a training step needs for each of its sequences.");

  const Parallelism way;
  nb::class_<Parallelism>(m, "Parallelism",
                          "How a step is divided: rank = (stage * data + replica) * tensor + part.")
      .def(
          "__init__",
          [](Parallelism* place, int tensor, int pipeline, int data, int batch, int micro_batch) {
            new (place) Parallelism{.tensor = tensor,
                                    .pipeline = pipeline,
                                    .data = data,
                                    .batch = batch,
                                    .micro_batch = micro_batch};
          },
          nb::kw_only(), "tensor"_a = way.tensor, "pipeline"_a = way.pipeline, "data"_a = way.data,
          "batch"_a = way.batch, "micro_batch"_a = way.micro_batch,
          R"(tensor: parts of each layer. pipeline: stages (1F1B). data: replicas, with ZeRO-1.
batch: sequences of a step, of all replicas together. micro_batch: sequences of a replica that go
through the stages at a time.)")
      .def_ro("tensor", &Parallelism::tensor)
      .def_ro("pipeline", &Parallelism::pipeline)
      .def_ro("data", &Parallelism::data)
      .def_ro("batch", &Parallelism::batch)
      .def_ro("micro_batch", &Parallelism::micro_batch)
      .def_prop_ro("ranks", &Parallelism::ranks);

  m.def("training_steps", &training_steps, "shape"_a, "parallelism"_a, "steps"_a = 1,
        nb::call_guard<nb::gil_scoped_release>(),
        R"(Training steps in mixed precision as a workload, with their memory; each step is marked.

Raises ArgumentError if a size does not divide what it has to: heads, key heads, MLP, vocabulary and
sequence by tensor, layers by pipeline, the batch by data times micro_batch.)");
}

}  // namespace phantora::python
