#include "simulation/step_role.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace phantora::detail {
namespace {

/// Parts of the names of kernels that update parameters, in small letters: the fused optimizers of
/// PyTorch, Apex, DeepSpeed, Transformer Engine, bitsandbytes and llm.c bear the method's name;
/// PyTorch's foreach and plain ones end in param.addcdiv or in a list's param + alpha * gradient;
/// Inductor calls what it makes of foreach operations triton_for_fused.
constexpr std::array<std::string_view, 11> updates = {
    "adam",      "adagrad", "adadelta",          "rmsprop",           "adafactor",       "sgd",
    "lambstage", "addcdiv", "pointwiseopscalar", "binaryoplistalpha", "triton_for_fused"};

/// Of kernels that an optimizer runs between its updates.
constexpr std::array<std::string_view, 2> asides = {"elementwise_kernel", "multi_tensor_apply"};

template <std::size_t N>
bool has_any(std::string_view text, const std::array<std::string_view, N>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return text.find(part) != text.npos; });
}

bool aside(Span::Kind kind, std::string_view name) {
  return kind == Span::Kind::copy || has_any(name, asides);
}

}  // namespace

StepRole step_role(Span::Kind kind, std::string_view name) {
  std::string small{name};
  std::transform(small.begin(), small.end(), small.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (has_any(small, updates)) return StepRole::ends_step;
  return aside(kind, name) ? StepRole::aside : StepRole::work;
}

StepRole step_role(Span::Kind kind, std::string_view name, std::string_view marker) {
  if (name.find(marker) != name.npos) return StepRole::ends_step;
  return aside(kind, name) ? StepRole::aside : StepRole::work;
}

}  // namespace phantora::detail
