#include "run/convert_command.hpp"

#include <phantora/error.hpp>
#include <phantora/format.hpp>
#include <phantora/kernels/builtin_cost_model.hpp>
#include <phantora/kernels/gpu_model.hpp>
#include <phantora/simulation/traces.hpp>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <string_view>

namespace phantora::run {
namespace {

/// "PREFIX" of "PREFIX.et".
std::optional<std::string> trace_prefix(const std::string& path) {
  constexpr std::string_view suffix = ".et";
  if (path.size() <= suffix.size() || path.substr(path.size() - suffix.size()) != suffix)
    return std::nullopt;
  return path.substr(0, path.size() - suffix.size());
}

/// Whether a file is one of our workloads, by its beginning.
bool is_workload(const std::string& path) {
  std::array<char, 256> bytes{};
  std::ifstream file{path, std::ios::binary};
  if (!file)
    throw ConfigError{path + ": expected a profile, a trace or a workload, cannot be read"};
  file.read(bytes.data(), bytes.size());
  const std::string_view begin{bytes.data(), static_cast<std::size_t>(file.gcount())};
  if (begin.substr(0, 2) == "\x1f\x8b")
    throw ConfigError{path + ": expected an unpacked file, this is gzip's (gunzip " + path + ")"};
  return begin.substr(0, 17) == "PHANTORA-WORKLOAD" ||
         begin.find("\"phantora_workload\"") != begin.npos;
}

TraceWorkload read(const std::vector<std::string>& paths) {
  if (paths.size() == 1) {
    if (const auto prefix = trace_prefix(paths.front())) return read_chakra(*prefix);
    if (is_workload(paths.front())) return {.workload = Workload::load(paths.front())};
  }
  for (const std::string& path : paths)
    if (trace_prefix(path) || is_workload(path))
      throw ConfigError{path + ": expected PyTorch's profiles where there are several files"};
  return read_kineto(paths);
}

}  // namespace

void convert(const ConvertOptions& options, std::ostream& out) {
  const std::string& to = options.paths.back();
  const TraceWorkload trace = read({options.paths.begin(), options.paths.end() - 1});
  for (const std::string& note : trace.notes) out << note << '\n';
  if (const auto prefix = trace_prefix(to)) {
    write_chakra(trace.workload, builtin_cost_model(gpu_model(options.gpu)), *prefix);
  } else {
    trace.workload.save(to);
  }
  out << fmt::format("{}: {} ranks, {} operations", to, trace.workload.rank_count(),
                     trace.workload.operation_count());
  const auto longest = std::max_element(trace.recorded.begin(), trace.recorded.end());
  if (longest != trace.recorded.end() && *longest > Duration{})
    out << fmt::format(", {} as recorded", *longest);
  out << '\n';
}

}  // namespace phantora::run
