#pragma once

#include "run/findings.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace phantora::run {

/// Whether the libraries that a run preloads lie beside the program and can be loaded.
Findings check_stand_ins();

/// Whether a library of this name has a stand-in that belongs to this program.
bool has_stand_in(std::string_view name);

}  // namespace phantora::run
