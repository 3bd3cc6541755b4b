#pragma once

#include "run/findings.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace phantora::run {

/// Whether a program can be simulated: of this processor, linked to the C library that the hooks
/// take the place of, and to libraries of NVIDIA's that have a stand-in.
/// @param program  as COMMAND names it. Of a script, what runs it is looked at.
Findings check_program_file(const std::string& program);

/// What execvp runs for a program: itself, or the interpreter of a script.
/// @throws CommandError if it cannot be run.
std::filesystem::path executable_of(const std::string& program);

}  // namespace phantora::run
