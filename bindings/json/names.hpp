#pragma once

#include <phantora/simulation/transformer.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

/// How the choices of a training step are called where they are text: in JSON and in Python.
namespace phantora::bindings {

template <class Choice, std::size_t count>
using Names = std::array<std::pair<std::string_view, Choice>, count>;

inline constexpr Names<PipelineSchedule, 3> schedules{
    {{"gpipe", PipelineSchedule::gpipe},
     {"1f1b", PipelineSchedule::one_forward_one_backward},
     {"zero_bubble", PipelineSchedule::zero_bubble}}};
inline constexpr Names<Sharding, 4> shardings{{{"none", Sharding::none},
                                               {"optimizer", Sharding::optimizer},
                                               {"gradients", Sharding::gradients},
                                               {"parameters", Sharding::parameters}}};
inline constexpr Names<Recompute, 3> recomputations{
    {{"none", Recompute::none}, {"selective", Recompute::selective}, {"full", Recompute::full}}};
inline constexpr Names<ContextExchange, 2> exchanges{
    {{"ring", ContextExchange::ring}, {"all_gather", ContextExchange::all_gather}}};

template <class Choice, std::size_t count>
std::optional<Choice> choice_of(const Names<Choice, count>& names, std::string_view text) {
  for (const auto& [name, choice] : names)
    if (name == text) return choice;
  return {};
}

template <class Choice, std::size_t count>
std::string_view name_of(const Names<Choice, count>& names, Choice choice) {
  for (const auto& [name, one] : names)
    if (one == choice) return name;
  return "unknown";
}

/// "one of gpipe, 1f1b, zero_bubble"
template <class Choice, std::size_t count>
std::string one_of(const Names<Choice, count>& names) {
  std::string text;
  for (const auto& [name, choice] : names)
    text += (text.empty() ? "one of " : ", ") + std::string{name};
  return text;
}

}  // namespace phantora::bindings
