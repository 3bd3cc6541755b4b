#pragma once

#include <phantora/simulation/observer.hpp>
#include <phantora/simulation/steps.hpp>

#include <string_view>

/// What work says about steps. Private to StepObserver.
namespace phantora::detail {

/// What a kernel's name says about steps: whether it updates parameters, as optimizers do, or may
/// stand between such updates.
StepRole step_role(Span::Kind kind, std::string_view name);

/// The same where the user said that work whose name contains `marker` ends a step.
StepRole step_role(Span::Kind kind, std::string_view name, std::string_view marker);

}  // namespace phantora::detail
