#pragma once

#include "run/report.hpp"

#include <ostream>
#include <string>

namespace phantora::run {

struct NamedReport {
  std::string name{};  ///< as the comparison calls it
  const Report& report;
};

/// Two runs beside each other, as a table: how much the second takes of what the first does, and
/// the kernels that differ most.
void print_comparison(const NamedReport& first, const NamedReport& second, std::ostream& out);

}  // namespace phantora::run
