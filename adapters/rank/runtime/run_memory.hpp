#pragma once

#include "channel/wire.hpp"

#include <string>

namespace phantora::rank {

/// The memory of the run under a path (channel::Settings::run_memory), mapped for good; nullptr if
/// that cannot be opened.
channel::RunShared* run_memory_at(const std::string& path) noexcept;

}  // namespace phantora::rank
