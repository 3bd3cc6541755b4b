#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace phantora::run {

struct ReportOptions {
  std::vector<std::string> files{};  ///< one to show, or two to compare
  std::string html{};                ///< where the page goes; empty: there is none
};

/// `phantora report`: what a run has written with --report, as text or as a page; two beside each
/// other.
/// @throws ConfigError, Error if the page cannot be written.
void show_report(const ReportOptions& options, std::ostream& out);

}  // namespace phantora::run
