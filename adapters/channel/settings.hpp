#pragma once

#include <phantora/kernels/gpu_model.hpp>
#include <phantora/simulation/host_time.hpp>
#include <phantora/units.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What the launcher tells every process of a run.
namespace phantora::channel {

/// One variable has the settings of the run, as to_text() writes them.
inline constexpr const char* settings_variable = "PHANTORA_RUN";
/// The index of the simulated host on which the process runs.
inline constexpr const char* host_variable = "PHANTORA_HOST";

/// Instants of the real clocks that correspond to virtual time zero, in nanoseconds.
struct Epoch {
  std::int64_t realtime_ns = 0, monotonic_ns = 0;
  bool operator==(const Epoch&) const = default;
};

/// What the host reads of floating-point values that are not computed; integers: 0, with `one` 1.
enum class Unknown : std::uint8_t {
  zero,
  one,
  normal  ///< a standard normal number that depends on its address
};
/// As `--unknown` takes them: "0", "1", "normal". nullopt for anything else.
std::optional<Unknown> parse_unknown(std::string_view text);
std::string to_string(Unknown unknown);

/// What routers choose by scores that are not computed.
enum class Choice : std::uint8_t {
  balanced,  ///< every expert as often as any other
  random,    ///< each with the same probability, by fixed draws
  first,     ///< the same ones for all: as uneven as can be
  none       ///< unknown, which the host reads as zeros
};
/// As `--routing` takes them. nullopt for anything else.
std::optional<Choice> parse_choice(std::string_view text);
std::string to_string(Choice choice);

/// What a process can know of a simulated host without taking part in the simulation.
struct HostFacts {
  std::string name{};
  int gpus = 0;  ///< which are alike
  std::string gpu_model{};
  Bytes gpu_memory{};
  bool operator==(const HostFacts&) const = default;
};

struct Settings {
  std::string socket{};  ///< the abstract name of the engine's
  /// Under which path a process of this machine can open the memory of the run (RunShared); empty
  /// if none can.
  std::string run_memory{};
  HostTimePolicy host_time{};
  Epoch epoch{};
  Unknown unknown = Unknown::zero;
  Choice routing = Choice::balanced;
  double selected = 1;  ///< share of elements that pass masks which are not computed, 0 to 1
  /// One process starts the ranks of all hosts (`--per run`): whoever knows its rank among all is
  /// on the host that has the GPU of that number.
  bool host_by_rank = false;
  std::vector<HostFacts> hosts{};  ///< of the run
  std::vector<GpuModel> gpus{};    ///< those that its cluster defines
  bool operator==(const Settings&) const = default;
};

/// A line for each of them, its name first, and for each host.
std::string to_text(const Settings& settings);
/// nullopt for what to_text() does not write: another build's.
std::optional<Settings> parse_settings(std::string_view text);

/// Where the GPU is that the rank of this number has; nothing if there are fewer GPUs.
struct Seat {
  std::size_t host = 0;
  int gpu = 0;  ///< on that host
  bool operator==(const Seat&) const = default;
};
std::optional<Seat> seat_of_rank(const Settings& settings, int rank);

}  // namespace phantora::channel
