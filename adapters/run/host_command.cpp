#include "run/host_command.hpp"

#include "run/host_measurement.hpp"
#include "run/output_files.hpp"

#include <phantora/error.hpp>
#include <phantora/simulation/host_profile.hpp>

#include <array>
#include <chrono>
#include <fstream>
#include <optional>

#include <fmt/format.h>
#include <unistd.h>

namespace phantora::run {
namespace {

std::string machine_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data()
                                                                           : "this host";
}

std::string counted(unsigned n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

void print(const HostProfile& host, std::ostream& out) {
  const HostProfile& reference = host_presets().front();
  const auto row = [&](std::string_view name, const std::string& value) {
    out << fmt::format("  {:<23} {}\n", name, value);
  };
  const auto kind = [&](std::string_view name, std::optional<double> ns,
                        std::optional<double> there) {
    if (!ns) return row(name, "not measured: taken to follow the work");
    row(name, fmt::format("{:.2f} us{}", *ns / 1e3,
                          there ? fmt::format(", {:.2f} times as long as on {}", *ns / *there,
                                              reference.name)
                                : ""));
  };
  row("processor", fmt::format("{}, {}, {}, {}", host.processor, counted(host.sockets, "socket"),
                               counted(host.cores, "core"), counted(host.threads, "thread")));
  if (!host.measured.empty()) row("measured", host.measured);
  kind("interpreter-like work", host.interpreter_ns, reference.interpreter_ns);
  kind("allocations", host.allocation_ns, reference.allocation_ns);
  kind("memory", host.memory_ns, reference.memory_ns);
  kind("API calls", host.calls_ns, reference.calls_ns);
  const HostSlowness slow = slowness(host, reference);
  row("a step's host work", fmt::format("{:.2f} times as long as on {}, its API calls {:.2f} times",
                                        slow.work, reference.name, slow.calls));
}

}  // namespace

void describe_host(const HostOptions& options, std::ostream& out) {
  if (options.list) {
    for (const HostProfile& preset : host_presets()) {
      out << preset.name << (&preset == &host_presets().front() ? " (default)\n" : "\n");
      print(preset, out);
    }
    return;
  }
  check_writable("host profile", options.output);
  const auto began = std::chrono::steady_clock::now();
  const HostProfile host = measure_host(options.name.empty() ? machine_name() : options.name);
  const double took =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  out << fmt::format("phantora: {} as a host, measured in {:.1f} s\n", host.name, took);
  print(host, out);
  if (options.output.empty()) return;
  std::ofstream file{options.output};
  file << to_json(host);
  file.close();
  if (!file) throw Error{"cannot write the host profile " + options.output};
  out << fmt::format("  --host {:<16} simulates a job as if on it\n", options.output);
}

}  // namespace phantora::run
