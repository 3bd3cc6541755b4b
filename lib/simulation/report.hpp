#pragma once

#include "simulation/execution.hpp"

#include <phantora/kernels/gpu_model.hpp>
#include <phantora/simulation/device_timing.hpp>
#include <phantora/simulation/report.hpp>

#include <functional>
#include <optional>
#include <vector>

/// Reports made of what a job's operations did. Private to Simulation and Jobs.
namespace phantora::detail {

/// The link that would hold a communication if it were alone.
using LinkOf = std::function<std::optional<LinkId>(const Workload::Operation&)>;

/// @param models  by JobRecord::kinds.
Report report_of(const JobRecord& job, const std::vector<GpuModel>& models,
                 const DeviceTiming& timing, const LinkOf& link_of);

/// What the makespan consists of (Report::critical_path), and its error bar.
void find_critical_path(const JobRecord& job, const DeviceTiming& timing, const LinkOf& link_of,
                        Report& report);

}  // namespace phantora::detail
