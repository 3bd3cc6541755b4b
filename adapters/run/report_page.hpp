#pragma once

#include "run/report.hpp"

#include <string>

namespace phantora::run {

/// A report as one page of HTML that needs nothing else: styles and plots are within it.
std::string page_of(const Report& report);

}  // namespace phantora::run
