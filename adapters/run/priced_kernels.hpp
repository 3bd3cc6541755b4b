#pragma once

#include <phantora/kernels/kernel_cost_model.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

/// What the kernels of a run took, and who said so.
namespace phantora::run {

struct PricedKernel {
  std::string name{}, source{};
  std::optional<KernelQuery> query{};  ///< a report does not tell it
  std::uint64_t count = 0;
  double total_s = 0;
  double stddev_s = -1;  ///< of one; below 0: not told
};

/// How much of their time came from where, as a line.
void print_sources(const std::vector<PricedKernel>& kernels, std::ostream& out);
/// As a table.
/// @param kernels  longest first.
/// @param top  how many are shown; 0: all.
void print_kernels(const std::vector<PricedKernel>& kernels, std::size_t top, std::ostream& out);

/// At most `width` characters of it.
std::string shortened(const std::string& text, std::size_t width);

}  // namespace phantora::run
