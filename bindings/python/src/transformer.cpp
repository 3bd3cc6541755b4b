#include "values.hpp"

#include <phantora/error.hpp>
#include <phantora/simulation/transformer_fields.hpp>

#include <string>
#include <string_view>
#include <type_traits>

#include <nanobind/stl/string.h>

// The classes have the fields of for_each_field().
namespace phantora::python {
namespace {

// A field as Python has it, and which types it takes.
nb::object shown(int value) { return nb::int_(value); }
nb::object shown(double value) { return nb::float_(value); }
nb::object shown(bool value) { return nb::bool_(value); }
nb::object shown(Bytes value) { return nb::int_(to_python(value)); }
template <class Choice, std::size_t count>
nb::object shown(Choice value, const ChoiceNames<Choice, count>& names) {
  const std::string_view name = name_of(names, value);
  return nb::str(name.data(), name.size());
}
template <class Value>
std::string type_of() {
  if constexpr (std::is_same_v<Value, bool>) return "bool";
  if constexpr (std::is_same_v<Value, double>) return "float";
  return std::is_same_v<Value, int> || std::is_same_v<Value, Bytes> ? "int" : "str";
}

template <class Value>
Value cast(nb::handle given, const char* name, const char* expected) {
  Value value{};
  if (!nb::try_cast(given, value))
    throw nb::type_error((std::string{name} + ": expected " + expected).c_str());
  return value;
}
void take(int& field, nb::handle given, const char* name) {
  field = cast<int>(given, name, "a whole number");
}
void take(double& field, nb::handle given, const char* name) {
  field = cast<double>(given, name, "a number");
}
void take(bool& field, nb::handle given, const char* name) {
  field = cast<bool>(given, name, "True or False");
}
void take(Bytes& field, nb::handle given, const char* name) {
  field = to_bytes(cast<Size>(given, name, "bytes"));
}
template <class Choice, std::size_t count>
void take(Choice& field, nb::handle given, const char* name,
          const ChoiceNames<Choice, count>& names) {
  const auto text = cast<std::string>(given, name, "text");
  const std::optional<Choice> choice = choice_of(names, text);
  PHANTORA_EXPECTS(choice.has_value(),
                   std::string{name} + " is " + text + ", not " + one_of(names));
  field = *choice;
}

/// Texts that the module's functions are described by, as long as it lives.
const char* kept(std::string text) {
  static auto& texts = *new std::vector<std::unique_ptr<std::string>>;
  return texts.emplace_back(std::make_unique<std::string>(std::move(text)))->c_str();
}

/// A class with the fields of a struct, which its constructor takes by name.
template <class Fields>
nb::class_<Fields> define_fields(nb::module_& m, const char* name, const char* description,
                                 const char* fields_description) {
  nb::class_<Fields> defined{m, name, description};
  Fields defaults{};
  std::string signature = "def __init__(self, *";
  for_each_field(defaults, [&](const char* field, const auto& value, const auto&... names) {
    using Value = std::decay_t<decltype(value)>;
    const std::string type = std::is_same_v<Value, Bytes> ? "int | float | str" : type_of<Value>();
    signature += std::string{", "} + field + ": " + type + " = " +
                 nb::cast<std::string>(nb::repr(shown(value, names...)));
    defined.def_prop_ro(
        field,
        [field](const Fields& it) {
          nb::object found;
          for_each_field(it, [&](const char* one, const auto& of, const auto&... choices) {
            if (one == std::string_view{field}) found = shown(of, choices...);
          });
          return found;
        },
        nb::sig(kept(std::string{"def "} + field + "(self) -> " + type_of<Value>())));
  });
  defined.def(
      "__init__",
      [](Fields* place, const nb::kwargs& given) {
        Fields taken{};
        std::size_t known = 0;
        for_each_field(taken, [&](const char* field, auto& value, const auto&... names) {
          if (!given.contains(field)) return;
          take(value, given[field], field, names...);
          ++known;
        });
        if (known < given.size())
          for (const auto& [key, _] : given) {
            bool found = false;
            const auto text = nb::cast<std::string>(key);
            for_each_field(taken, [&](const char* field, const auto&, const auto&...) {
              found = found || text == field;
            });
            if (!found) throw nb::type_error(("there is no field " + text).c_str());
          }
        new (place) Fields{taken};
      },
      nb::sig(kept(signature + ") -> None")), fields_description);
  return defined;
}

}  // namespace

void define_transformer(nb::module_& m) {
  define_fields<TransformerShape>(
      m, "TransformerShape", "A decoder: norms, attention with grouped keys, an MLP or experts.",
      R"(mlp: width of the MLP, or of an expert. sequence: tokens of one.
experts: of each layer; 0: a plain MLP. experts_of_token: those that each token goes to.
gated: three matrices in the MLP (SwiGLU); else two. rotary: positions are rotations; else learned.
biases: of all linear layers, and layer norms in place of RMS norms. tied: the head's weights are
the embedding's.)")
      .def_prop_ro(
          "parameters", [](const TransformerShape& it) { return parameters(it); },
          "Weights of all layers, the embedding and the head.")
      .def_prop_ro(
          "active_parameters", [](const TransformerShape& it) { return active_parameters(it); },
          "Those that a token meets: of the experts, its own.")
      .def_prop_ro(
          "flops_per_sequence", [](const TransformerShape& it) { return flops_per_sequence(it); },
          "FLOP that a training step needs for each of its sequences.");
  define_fields<Parallelism>(
      m, "Parallelism",
      R"(How a step is divided: rank = ((stage * data + replica) * context + slice) * tensor + part.)",
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
functions) or "full" (all of a layer); recompute_every: of so many layers of a stage in one.
exchange: how keys and values get to the ranks that share a sequence: "ring" or "all_gather".
sequence_parallel: norms are divided among the tensor group too. keep_gathered: what that gathers is
kept for the backward pass, as PyTorch does; else gathered again, as Megatron does. overlap_tensor:
what tensor groups exchange passes beside products, as with Transformer Engine's user buffers.)")
      .def_prop_ro("ranks", &Parallelism::ranks);
  define_fields<TrainingRecipe>(
      m, "TrainingRecipe", "How numbers are kept, and what kernels pass over them.",
      R"(gradient, optimizer: bytes for each parameter; the defaults are mixed precision: fp32
gradients, fp32 weights and both moments of Adam.
fused: activation functions, rotary embeddings and the accumulation of gradients are a pass each or
a part of a product, as torch.compile or Megatron have them; else the passes that PyTorch makes.
fp8: products of layers take 8-bit floats with a scale for each tensor, which are converted before.
attention: whose kernels compute it: "pytorch" (what PyTorch 2.11 takes on the GPU: cuDNN's on
compute capability 9 and 10, else FlashAttention 2), "cudnn" or "flash_attention_2".
fused_norms: RMS norms are kernels, as those of PyTorch 2.11; else passes in fp32, as Transformers'.)");
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
