#pragma once

#include <phantora/simulation/transformer.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

/// The fields of a training step by name, for those who read them from a text or another language.
///
///     for_each_field(way, [&](const char* name, auto& value, const auto&... choices) { ... });
///
/// calls the function for each, in order: a choice comes with the names of its values.
namespace phantora {

/// Names of a choice's values, where they are text.
template <class Choice, std::size_t count>
using ChoiceNames = std::array<std::pair<std::string_view, Choice>, count>;

/// Of Parallelism::schedule.
inline constexpr ChoiceNames<PipelineSchedule, 3> schedules{
    {{"gpipe", PipelineSchedule::gpipe},
     {"1f1b", PipelineSchedule::one_forward_one_backward},
     {"zero_bubble", PipelineSchedule::zero_bubble}}};
/// Of Parallelism::sharding.
inline constexpr ChoiceNames<Sharding, 4> shardings{{{"none", Sharding::none},
                                                     {"optimizer", Sharding::optimizer},
                                                     {"gradients", Sharding::gradients},
                                                     {"parameters", Sharding::parameters}}};
/// Of Parallelism::recompute.
inline constexpr ChoiceNames<Recompute, 3> recomputations{
    {{"none", Recompute::none}, {"selective", Recompute::selective}, {"full", Recompute::full}}};
/// Of Parallelism::exchange.
inline constexpr ChoiceNames<ContextExchange, 2> exchanges{
    {{"ring", ContextExchange::ring}, {"all_gather", ContextExchange::all_gather}}};
/// Of TrainingRecipe::attention.
inline constexpr ChoiceNames<AttentionKernels, 3> attentions{
    {{"pytorch", AttentionKernels::pytorch},
     {"cudnn", AttentionKernels::cudnn},
     {"flash_attention_2", AttentionKernels::flash_attention_2}}};

/// The value of that name, if there is one.
template <class Choice, std::size_t count>
std::optional<Choice> choice_of(const ChoiceNames<Choice, count>& names, std::string_view text) {
  for (const auto& [name, choice] : names)
    if (name == text) return choice;
  return {};
}

/// The name of a value.
template <class Choice, std::size_t count>
std::string_view name_of(const ChoiceNames<Choice, count>& names, Choice choice) {
  for (const auto& [name, one] : names)
    if (one == choice) return name;
  return "unknown";
}

/// "one of gpipe, 1f1b, zero_bubble"
template <class Choice, std::size_t count>
std::string one_of(const ChoiceNames<Choice, count>& names) {
  std::string text;
  for (const auto& [name, choice] : names)
    text += (text.empty() ? "one of " : ", ") + std::string{name};
  return text;
}

/// @{ All fields of a struct, which may be const.
template <class Shape, class Visit>
requires std::same_as<std::remove_const_t<Shape>, TransformerShape>
constexpr void for_each_field(Shape& shape, Visit visit) {
  visit("layers", shape.layers);
  visit("hidden", shape.hidden);
  visit("heads", shape.heads);
  visit("key_heads", shape.key_heads);
  visit("mlp", shape.mlp);
  visit("vocabulary", shape.vocabulary);
  visit("sequence", shape.sequence);
  visit("experts", shape.experts);
  visit("experts_of_token", shape.experts_of_token);
  visit("gated", shape.gated);
  visit("rotary", shape.rotary);
  visit("biases", shape.biases);
  visit("tied", shape.tied);
}
template <class Way, class Visit>
requires std::same_as<std::remove_const_t<Way>, Parallelism>
constexpr void for_each_field(Way& way, Visit visit) {
  visit("tensor", way.tensor);
  visit("pipeline", way.pipeline);
  visit("data", way.data);
  visit("batch", way.batch);
  visit("micro_batch", way.micro_batch);
  visit("context", way.context);
  visit("expert", way.expert);
  visit("chunks", way.chunks);
  visit("schedule", way.schedule, schedules);
  visit("sharding", way.sharding, shardings);
  visit("bucket", way.bucket);
  visit("recompute", way.recompute, recomputations);
  visit("recompute_every", way.recompute_every);
  visit("exchange", way.exchange, exchanges);
  visit("sequence_parallel", way.sequence_parallel);
  visit("keep_gathered", way.keep_gathered);
  visit("overlap_tensor", way.overlap_tensor);
}
template <class Recipe, class Visit>
requires std::same_as<std::remove_const_t<Recipe>, TrainingRecipe>
constexpr void for_each_field(Recipe& recipe, Visit visit) {
  visit("gradient", recipe.gradient);
  visit("optimizer", recipe.optimizer);
  visit("fused", recipe.fused);
  visit("fp8", recipe.fp8);
  visit("attention", recipe.attention, attentions);
  visit("fused_norms", recipe.fused_norms);
}
/// @}

/// How many fields a struct has.
template <class Fields>
constexpr std::size_t field_count() {
  Fields fields{};
  std::size_t count = 0;
  for_each_field(fields, [&](const char*, const auto&, const auto&...) { ++count; });
  return count;
}

}  // namespace phantora
