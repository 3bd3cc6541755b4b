#pragma once

#include <phantora/cluster/cluster.hpp>
#include <phantora/simulation/report.hpp>
#include <phantora/units.hpp>

#include <optional>
#include <string>
#include <string_view>

/// A simulation in one call, and reports, as JSON: README.md has the fields.
namespace phantora::bindings {

/// All of a report. Times are whole picoseconds.
/// @param cluster  that it ran on.
std::string to_json(const Report& report, const Cluster& cluster);

/// Runs what a JSON object asks for. @return the report.
/// @throws ConfigError naming the field and what was expected there; what Simulation throws.
std::string simulate(std::string_view request);

/// A cluster by its spec.
/// @param memory  of every GPU, in place of what the cluster says.
Cluster make_cluster(std::string_view spec, std::optional<Bytes> memory = {});

}  // namespace phantora::bindings
