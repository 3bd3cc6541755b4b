#pragma once

#include <phantora/kernels/kernel_cost_model.hpp>

#include <filesystem>
#include <istream>
#include <string>
#include <vector>

namespace phantora {

/// A kernel, or library call, and how long it took.
struct Measurement {
  KernelQuery query{};  ///< what was measured
  Duration duration{};  ///< how long it took
  Duration stddev{};    ///< of a further measurement of it; 0 = not known
};

/// Reads kernel data: tab-separated text, one measurement per line.
///
/// Lines that start with '#' are comments. The first other line names the columns: name, grid,
/// block (each "XxYxZ" or "-"), shared and bytes (bytes), us (microseconds, > 0), features and
/// attributes ("key=value;key=value" or "-"), and if it is known, stddev (microseconds). A name of
/// one quotation mark, ", is that of the line before.
///
/// @param source  what to call the text in messages, usually its path.
/// @throws ConfigError naming source, line and field.
std::vector<Measurement> read_measurements(std::istream& text, const std::string& source);

/// The same, from a file.
/// @throws ConfigError also if `path` cannot be read.
std::vector<Measurement> read_measurements(const std::filesystem::path& path);

}  // namespace phantora
