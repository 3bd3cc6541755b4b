#pragma once

#include "run/findings.hpp"

namespace phantora::run {

/// What kernel, limits and hardware of this machine let a run do.
Findings check_machine();

/// Variables of the environment that a run takes over.
Findings check_environment();

}  // namespace phantora::run
