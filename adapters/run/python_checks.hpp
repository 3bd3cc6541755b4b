#pragma once

#include "run/findings.hpp"

#include <string>
#include <vector>

namespace phantora::run {

/// Whether an environment of Python has what simulated programs use: PyTorch for CUDA, of a
/// supported version, Triton, and compilers for torch.compile.
/// @param python  the interpreter.
Findings check_python(const std::string& python);

/// The interpreter that runs COMMAND, as it is called; of none, the one in PATH. Empty if there is
/// none.
std::string python_of(const std::vector<std::string>& command);

}  // namespace phantora::run
