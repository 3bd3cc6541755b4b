#pragma once

#include <phantora/kernels/kernel_database.hpp>

#include <istream>
#include <ostream>
#include <string>
#include <vector>

/// Kernel databases as CSV (RFC 4180): a line for each time that a kernel took, and how often it
/// took that long.
namespace phantora::run {

struct SourceKernels {
  KernelSource source{};
  std::vector<MeasuredKernel> kernels{};
};

void write_csv(const KernelDatabase& database, std::ostream& out);
/// @param name  of the text, for messages. @throws ConfigError that names the line.
std::vector<SourceKernels> read_csv(std::istream& text, const std::string& name);

}  // namespace phantora::run
