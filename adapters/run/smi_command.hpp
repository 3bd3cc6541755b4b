#pragma once

#include <ostream>
#include <string>

namespace phantora::run {

struct SmiOptions {
  int run = 0;                   ///< its pid; 0: all that can be looked at
  std::string format = "table";  ///< table or json
  bool topology = false;         ///< how GPUs and NICs are joined, in place of what they do
};

/// `phantora smi`: what the GPUs of running simulations do.
/// @throws CommandError if there is none, or none of that pid.
void show_gpus(const SmiOptions& options, std::ostream& out);

}  // namespace phantora::run
