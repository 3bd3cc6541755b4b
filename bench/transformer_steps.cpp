// What transformer.hpp says of training steps: time, and each rank's peak of what it allocates.
//     transformer_steps CLUSTER [NAME=VALUE...]
// A name is a field of TransformerShape, Parallelism or TrainingRecipe.
#include <phantora/error.hpp>
#include <phantora/format.hpp>
#include <phantora/kernels/gpu_model.hpp>
#include <phantora/simulation/simulation.hpp>
#include <phantora/simulation/transformer_fields.hpp>

#include <charconv>
#include <functional>
#include <map>
#include <string>
#include <string_view>

using namespace phantora;

int main(int argc, char** argv) try {
  TransformerShape shape;
  Parallelism way;
  TrainingRecipe recipe;
  // Enumerations and booleans go by their number, sizes by bytes.
  std::map<std::string_view, std::function<void(int)>> fields;
  const auto field = [&](const char* name, auto& value, const auto&...) {
    fields[name] = [&value](int n) { value = static_cast<std::decay_t<decltype(value)>>(n); };
  };
  for_each_field(shape, field);
  for_each_field(way, field);
  for_each_field(recipe, field);
  fields["bucket_mib"] = [&](int n) { way.bucket = 1_MiB * n; };

  if (argc < 2) throw ConfigError{"usage: transformer_steps CLUSTER [NAME=VALUE...]"};
  for (int i = 2; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto equals = argument.find('=');
    const auto known = fields.find(argument.substr(0, equals));
    int value = 0;
    if (equals == argument.npos || known == fields.end() ||
        std::from_chars(argument.data() + equals + 1, argument.data() + argument.size(), value)
                .ptr != argument.data() + argument.size())
      throw ConfigError{"expected NAME=VALUE, not " + std::string{argument}};
    known->second(value);
  }
  const Simulation simulation{parse_cluster(argv[1])};
  const Report report = simulation.run(training_steps(shape, way, 3, recipe));
  const Bytes context = gpu_model(simulation.cluster().hosts.front()).context_memory;
  fmt::print("{:.6f}", 1e3 * to_seconds(report.step()));
  for (const RankReport& rank : report.ranks)
    fmt::print(" {}", (rank.peak_memory - context).count());
  fmt::print("\n");
  return 0;
} catch (const Error& error) {
  fmt::print(stderr, "transformer_steps: {}\n", error.what());
  return 1;
}
