#include "run/smi_command.hpp"

#include "channel/handshake.hpp"
#include "run/launcher.hpp"
#include "run/look_server.hpp"
#include "run/unique_fd.hpp"

#include <phantora/format.hpp>

#include <nlohmann/json.hpp>

#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/socket.h>
#include <sys/time.h>

namespace phantora::run {
namespace {

using Json = nlohmann::ordered_json;

/// The process that was started as `phantora run`: parent of the one whose socket it is.
int run_of(int engine) {
  std::ifstream status{"/proc/" + std::to_string(engine) + "/status"};
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("PPid:")) return std::atoi(line.c_str() + 5);
  return 0;
}

/// The sockets of runs that can be looked at, by pid. The kernel lists abstract names with "@".
std::map<int, std::string> sockets() {
  constexpr std::string_view prefix = " @phantora-";
  std::map<int, std::string> found;
  std::ifstream list{"/proc/net/unix"};
  for (std::string line; std::getline(list, line);) {
    const std::size_t at = line.find(prefix);
    if (at == std::string::npos || !line.ends_with(channel::look_suffix)) continue;
    const int run = run_of(std::atoi(line.c_str() + at + prefix.size()));
    if (run != 0) found.emplace(run, line.substr(at + 2));
  }
  return found;
}

/// What a run says; null if it has ended meanwhile.
Json look(const std::string& name) {
  const UniqueFd socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const channel::Address address{name};
  const timeval patience{.tv_sec = 10, .tv_usec = 0};
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (connect(socket.get(), address.get(), address.length) != 0) return nullptr;
  std::string text;
  std::array<char, 1 << 16> part{};
  for (ssize_t got = 0; (got = recv(socket.get(), part.data(), part.size(), 0)) > 0;)
    text.append(part.data(), static_cast<std::size_t>(got));
  return Json::parse(text, nullptr, false).is_discarded() ? Json{} : Json::parse(text);
}

std::string mebibytes(const Json& bytes) {
  return fmt::format("{} MiB", bytes.get<std::uint64_t>() >> 20U);
}

void print(std::ostream& out, int pid, const Json& run) {
  out << fmt::format("phantora run {}: {}\n", pid,
                     fmt::join(run["command"].get<std::vector<std::string>>(), " "));
  out << fmt::format("{}, {:.6f} s simulated\n\n", run["cluster"].get<std::string>(),
                     run["simulated_s"].get<double>());
  constexpr std::string_view columns = "{:<12} {:>3}  {:<22} {:>25} {:>8}\n";
  out << fmt::format(columns, "host", "GPU", "name", "memory", "GPU-Util");
  for (const Json& gpu : run["gpus"]) {
    const Json& utilization = gpu["utilization"];
    out << fmt::format(
        columns, gpu["host"].get<std::string>(), gpu["index"].get<int>(),
        gpu["name"].get<std::string>(),
        mebibytes(gpu["memory_used"]) + " / " + mebibytes(gpu["memory_total"]),
        utilization.is_null() ? "-" : fmt::format("{:.0f} %", 100 * utilization.get<double>()));
  }
  out << '\n';
  constexpr std::string_view processes = "{:<12} {:>3} {:>10} {:>6} {:>14}\n";
  out << fmt::format(processes, "host", "GPU", "PID", "rank", "GPU memory");
  for (const Json& gpu : run["gpus"]) {
    for (const Json& process : gpu["processes"]) {
      out << fmt::format(processes, gpu["host"].get<std::string>(), gpu["index"].get<int>(),
                         process["pid"].get<int>(), process["rank"].get<int>(),
                         mebibytes(process["memory_used"]));
    }
  }
}

/// How two neighbours on a host reach each other, in nvidia-smi's words. Every PCIe switch is a
/// port of its own of the host's CPU.
std::string joined(const Json& gpu, const Json& switch_of_other) {
  return gpu["pcie_switch"] == switch_of_other ? "PIX" : "NODE";
}
std::string joined(const Json& gpu, const Json& other, const std::string& index_of_other) {
  const Json& links = gpu["nvlinks"];
  for (const std::string& where : {std::string{"nvswitch"}, index_of_other})
    if (links.contains(where)) return fmt::format("NV{}", links[where].get<int>());
  return joined(gpu, other["pcie_switch"]);
}

/// A matrix for each host, as `nvidia-smi topo -m` prints it of one.
void print_topology(std::ostream& out, const Json& run) {
  std::map<std::string, std::vector<Json>> hosts;
  std::vector<std::string> order;
  for (const Json& gpu : run["gpus"]) {
    const auto host = gpu["host"].get<std::string>();
    if (!hosts.contains(host)) order.push_back(host);
    hosts[host].push_back(gpu);
  }
  for (const std::string& host : order) {
    const std::vector<Json>& gpus = hosts[host];
    std::vector<std::pair<std::string, Json>> nics;  // with their PCIe switches
    for (const Json& gpu : gpus) {
      if (gpu["nic"].is_null()) continue;
      const auto nic = gpu["nic"].get<std::string>();
      if (nics.empty() || nics.back().first != nic) nics.emplace_back(nic, gpu["pcie_switch"]);
    }
    const auto cell = [&](const std::string& text) { out << fmt::format("{:<6}", text); };
    out << host << "\n";
    cell("");
    for (std::size_t i = 0; i < gpus.size(); ++i) cell(fmt::format("GPU{}", i));
    for (std::size_t i = 0; i < nics.size(); ++i) cell(fmt::format("NIC{}", i));
    out << '\n';
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      cell(fmt::format("GPU{}", i));
      for (std::size_t j = 0; j < gpus.size(); ++j)
        cell(i == j ? "X" : joined(gpus[i], gpus[j], std::to_string(j)));
      for (const auto& nic : nics) cell(joined(gpus[i], nic.second));
      out << '\n';
    }
    out << '\n';
  }
  out << "NV#   # NVLinks\nPIX   one PCIe switch\nNODE  PCIe switches of one CPU\n";
}

}  // namespace

void show_gpus(const SmiOptions& options, std::ostream& out) {
  std::map<int, Json> runs;
  for (const auto& [pid, name] : sockets()) {
    if (options.run != 0 && options.run != pid) continue;
    Json run = look(name);
    if (!run.is_null()) runs.emplace(pid, std::move(run));
  }
  if (runs.empty()) {
    constexpr int nothing_there = 6;  // as nvidia-smi ends where a query finds nothing
    throw CommandError{options.run == 0 ? "no simulation is running"
                                        : fmt::format("no simulation runs as {}", options.run),
                       nothing_there};
  }
  if (options.format == "json") {
    Json all = Json::array();
    for (auto& [pid, run] : runs) {
      Json with_pid{{"pid", pid}};
      with_pid.update(run);
      all.push_back(std::move(with_pid));
    }
    out << all.dump(2) << '\n';
    return;
  }
  const char* between = "";
  for (const auto& [pid, run] : runs) {
    out << std::exchange(between, "\n");
    options.topology ? print_topology(out, run) : print(out, pid, run);
  }
}

}  // namespace phantora::run
