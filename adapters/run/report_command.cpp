#include "run/report_command.hpp"

#include "run/output_files.hpp"
#include "run/priced_kernels.hpp"
#include "run/report.hpp"
#include "run/report_comparison.hpp"
#include "run/report_page.hpp"

#include <phantora/error.hpp>
#include <phantora/format.hpp>

#include <algorithm>
#include <fstream>

#include <fmt/format.h>

namespace phantora::run {
namespace {

/// A row for each rank.
void print_ranks(const Report& report, std::ostream& out) {
  const std::vector<GpuReport>& gpus = report.simulated().gpus;
  std::size_t width = 4;
  for (const GpuReport& gpu : gpus) width = std::max(width, gpu.host.size());
  const auto row = [&](const auto& rank, std::string_view host, const auto& steps,
                       const auto&... columns) {
    out << fmt::format("{:>6}  {:<{}} {:>6}", rank, host, width, steps);
    (out << ... << fmt::format(" {:>11}", columns));
    out << '\n';
  };
  row("rank", "host", "steps", "step time", "busy", "exposed", "memory", "capacity", "kernels");
  for (GpuIndex rank = 0; rank < gpus.size(); ++rank) {
    const GpuReport& gpu = gpus[rank];
    const Bytes peak{static_cast<std::int64_t>(report.peak_memory()[rank])};
    row(rank, gpu.host, gpu.steps.count(),
        gpu.steps.count() > 0 ? fmt::format("{}", gpu.steps.median()) : "-",
        fmt::format("{}", gpu.use.busy), fmt::format("{}", gpu.use.exposed),
        fmt::format("{:.2GiB}", peak), fmt::format("{:.2GiB}", report.kind_of(rank).memory),
        fmt::format("{}", gpu.use.kernels));
  }
}

/// What the ranks' steps consist of, where they have any.
void print_parts(const Report& report, std::ostream& out) {
  const std::vector<GpuReport>& gpus = report.simulated().gpus;
  if (report.simulated().most_steps() == nullptr) return;
  constexpr std::string_view columns = "{:>6}  {:>11} {:>11} {:>11}\n";
  out << "\na typical step, on average\n"
      << fmt::format(columns, "rank", "computing", "exposed", "idle");
  for (GpuIndex rank = 0; rank < gpus.size(); ++rank) {
    if (gpus[rank].steps.count() == 0) continue;
    const StepParts& parts = gpus[rank].parts;
    out << fmt::format(columns, rank, fmt::format("{}", parts.computing),
                       fmt::format("{}", parts.exposed), fmt::format("{}", parts.idle));
  }
}

std::vector<PricedKernel> priced(const std::vector<NamedKernel>& kernels) {
  std::vector<PricedKernel> all;
  for (const NamedKernel& it : kernels) {
    PricedKernel kernel{.name = it.name,
                        .source = std::string{to_string(it.source)},
                        .count = it.count,
                        .total_s = to_seconds(it.total)};
    if (it.deviation > Duration{} && it.count > 0)  // else it is not known
      kernel.stddev_s = to_seconds(it.deviation) / static_cast<double>(it.count);
    all.push_back(std::move(kernel));
  }
  return all;
}

void write_page(const Report& report, const std::string& path) {
  std::ofstream file{path};
  file << page_of(report);
  file.close();
  if (!file) throw Error{"cannot write the page " + path};
}

}  // namespace

void show_report(const ReportOptions& options, std::ostream& out) {
  const Report report = Report::read(options.files.front());
  if (options.files.size() == 2) {
    if (!options.html.empty()) throw ConfigError{"--html: expected one report, got two"};
    print_comparison({options.files[0], report}, {options.files[1], Report::read(options.files[1])},
                     out);
    return;
  }
  if (!options.html.empty()) {
    check_writable("page", options.html);
    write_page(report, options.html);
    return;
  }
  report.print(out, report.facts().wall_seconds);
  out << '\n';
  print_ranks(report, out);
  print_parts(report, out);
  out << "\nkernels and copies of all ranks, longest first\n";
  constexpr std::size_t longest = 20;
  print_kernels(priced(report.simulated().kernels), longest, out);
}

}  // namespace phantora::run
