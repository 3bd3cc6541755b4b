#pragma once

#include <phantora/simulation/host_time.hpp>

#include <optional>
#include <span>
#include <string>
#include <string_view>

/// What a machine is as a host of GPUs: how fast it does its own work.
namespace phantora {

/// A host's speed by the CPU time of fixed pieces of work, each of a kind that frameworks do
/// between two kernels. `phantora host` measures one; host_presets() are built in.
struct HostProfile {
  std::string name{};       ///< as reports call it
  std::string processor{};  ///< as the machine says
  unsigned sockets = 1;     ///< of processors
  unsigned cores = 1;       ///< of all sockets
  unsigned threads = 1;     ///< hardware threads of all cores
  std::string measured{};   ///< when, and of what; for people

  // In nanoseconds, as often as not (the median), over all cores.
  double interpreter_ns = 0;  ///< names looked up, calls through pointers, references counted
  double allocation_ns = 0;   ///< blocks of all sizes taken, written to and given back
  double memory_ns = 0;       ///< dependent loads from more memory than the caches hold
  /// Calls of CUDA's driver in a loop; nothing where no GPU was at hand.
  std::optional<double> calls_ns{};

  bool operator==(const HostProfile&) const = default;
};

/// Of `host` beside `other`: work by the interpreter-like piece and, to a quarter, by memory, since
/// programs find their code and data in the caches or not; calls by themselves, or as the work
/// where a host's are not known. Allocations are told for people to compare.
HostSlowness slowness(const HostProfile& host, const HostProfile& other);

/// Built in. The first is the host of the built-in data: what host_cost.hpp says is of it, and it
/// is what jobs run on where nobody says otherwise.
std::span<const HostProfile> host_presets();

/// @param spec  a preset's name, or the path of a file with what to_json() writes.
/// @throws ConfigError that names file and field, and what was expected there.
HostProfile host_profile(std::string_view spec);

/// The same of a text.
///
///     {"phantora_host": 1, "name": "node7", "processor": "...", "sockets": 2, "cores": 64,
///      "threads": 128, "measured": "2026-11-22",
///      "work_ns": {"interpreter": 15000, "allocation": 9000, "memory": 80000},
///      "calls_ns": 8000}
///
/// @param source  what errors call the text, such as its path.
/// @throws ConfigError
HostProfile parse_host_profile(std::string_view json, std::string_view source = "host");
/// What parse_host_profile() reads, a field on each line.
std::string to_json(const HostProfile& host);

}  // namespace phantora
