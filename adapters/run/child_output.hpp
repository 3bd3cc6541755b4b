#pragma once

#include <map>
#include <string>
#include <vector>

namespace phantora::run {

/// How a program ended that was run for what it prints.
struct ChildOutput {
  int status = 0;      ///< as waitpid() has it
  std::string text{};  ///< both of its outputs
  bool in_time = true;
};

/// Runs a program to its end, with these variables besides, and nothing to read.
/// @param seconds  after which it is ended.
/// @throws Error if it cannot be started.
ChildOutput output_of(std::vector<std::string> command,
                      const std::map<std::string, std::string>& environment, int seconds);

}  // namespace phantora::run
