#include "run/priced_kernels.hpp"

#include <phantora/format.hpp>

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace phantora::run {

void print_sources(const std::vector<PricedKernel>& kernels, std::ostream& out) {
  double all = 0;
  std::map<std::string, double> by_source;
  for (const PricedKernel& kernel : kernels) {
    all += kernel.total_s;
    by_source[kernel.source] += kernel.total_s;
  }
  const auto percent = [&](double part) { return all > 0 ? 100 * part / all : 0.0; };
  std::vector<std::pair<std::string, double>> sources{by_source.begin(), by_source.end()};
  std::stable_sort(sources.begin(), sources.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> parts;
  for (const auto& [name, time] : sources)
    parts.push_back(fmt::format("{} {:.1f} %", name, percent(time)));
  out << fmt::format("{} of kernels and copies: {}\n", duration_from_seconds(all),
                     fmt::join(parts, ", "));
}

void print_kernels(const std::vector<PricedKernel>& kernels, std::size_t top, std::ostream& out) {
  double all = 0;
  for (const PricedKernel& kernel : kernels) all += kernel.total_s;
  out << fmt::format("{:>11} {:>6} {:>8} {:>11} {:>9} {:>9}  {}\n", "total", "share", "count",
                     "each", "+-", "source", "kernel");
  for (std::size_t i = 0; i < (top == 0 ? kernels.size() : std::min(top, kernels.size())); ++i) {
    const PricedKernel& it = kernels[i];
    const double each = it.count > 0 ? it.total_s / static_cast<double>(it.count) : 0.0;
    out << fmt::format(
        "{:>11} {:>5.1f}% {:>8} {:>11} {:>9} {:>9}  {}\n",
        fmt::format("{}", duration_from_seconds(it.total_s)),
        all > 0 ? 100 * it.total_s / all : 0.0, it.count,
        fmt::format("{}", duration_from_seconds(each)),
        it.stddev_s < 0 || each <= 0 ? "-" : fmt::format("{:.1f}%", 100 * it.stddev_s / each),
        it.source, shortened(it.name, 100));
  }
}

std::string shortened(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 3) + "...";
}

}  // namespace phantora::run
