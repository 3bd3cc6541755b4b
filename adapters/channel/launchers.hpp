#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace phantora::channel {

/// A program that starts the ranks itself.
struct Launcher {
  std::string_view name;   ///< of the program, or of the Python module
  bool all_hosts = false;  ///< it starts those of all hosts; else those of its own
};
/// What `command` is, if it is one: "torchrun", "python /usr/bin/torchrun", "python -m MODULE",
/// or one of these behind "env NAME=VALUE".
std::optional<Launcher> launcher_of(std::span<const std::string> command);

}  // namespace phantora::channel
