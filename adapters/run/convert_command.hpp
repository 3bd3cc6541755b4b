#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace phantora::run {

struct ConvertOptions {
  std::vector<std::string> paths;  ///< what is read, and last what is written
  std::string gpu = "h200";        ///< whose prices kernels have in an execution trace
};

/// `phantora convert`: PyTorch's profiles (a file for each rank), Chakra's execution traces
/// ("PREFIX.et" stands for PREFIX.0.et, PREFIX.1.et, ...) or a workload, to a workload or an
/// execution trace. What was read is told by what it holds, what is written by its name.
/// @throws Error for what cannot be read or written.
void convert(const ConvertOptions& options, std::ostream& out);

}  // namespace phantora::run
