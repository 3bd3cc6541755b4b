#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace phantora::run {

/// How a process ended that was run for what it tells.
struct ChildOutput {
  int status = 0;      ///< as waitpid() has it
  std::string text{};  ///< both of its outputs
  bool in_time = true;
};

/// Runs `body` in a process of its own, which is given where to write.
/// @param seconds  after which it is ended.
/// @throws Error if it cannot be started.
ChildOutput output_of(const std::function<void(int out)>& body, int seconds);

/// Runs a program to its end, with these variables besides, and nothing to read.
/// @param seconds  after which it is ended.
/// @throws Error if it cannot be started.
ChildOutput output_of(std::vector<std::string> command,
                      const std::map<std::string, std::string>& environment, int seconds);

}  // namespace phantora::run
