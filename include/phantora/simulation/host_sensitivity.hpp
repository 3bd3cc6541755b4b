#pragma once

#include <phantora/simulation/simulation.hpp>
#include <phantora/simulation/workload.hpp>
#include <phantora/units.hpp>

#include <optional>
#include <string>

namespace phantora {

/// A step's time on other hosts: what lies between the operations that hosts issue takes longer or
/// shorter there.
struct HostSensitivity {
  Duration step{};    ///< as it is
  Duration free{};    ///< if the hosts' own work took no time
  Duration faster{};  ///< on hosts that are 20 % faster
  Duration slower{};  ///< on hosts that are 20 % slower

  /// The part of the step that is there because of the host: what it waits for it.
  [[nodiscard]] double share() const noexcept { return 1 - to_seconds(free) / to_seconds(step); }
};

/// Runs a workload, as a Recorder gives it, on hosts of different speed.
/// @param marker  what ends a step: as StepObserver takes it.
/// @return nothing where no work repeats.
/// @throws what Simulation::run() throws.
std::optional<HostSensitivity> host_sensitivity(const Simulation& simulation,
                                                const Workload& workload,
                                                const std::string& marker = {});

}  // namespace phantora
