#pragma once

#include <phantora/simulation/host_profile.hpp>

#include <string>

namespace phantora::run {

/// What this machine is as a host. Takes some seconds of CPU time on one core; what else runs on
/// the machine is not counted, as far as it leaves a core alone now and then.
/// @param name  what reports call it.
HostProfile measure_host(const std::string& name);

}  // namespace phantora::run
