#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace phantora::run {

struct DoctorOptions {
  std::vector<std::string> command{};  ///< that is to be run; empty: any program of PyTorch
  std::string format = "table";
};

/// `phantora doctor`: says what a run would lack on this machine, and how to get it.
/// @return the exit status: 0 if a run would work.
int examine(const DoctorOptions& options, std::ostream& out);

}  // namespace phantora::run
