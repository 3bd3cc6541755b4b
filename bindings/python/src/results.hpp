#pragma once

#include <phantora/simulation/simulation.hpp>

namespace phantora::python {

/// A report, and the simulation that has the names of its links; copies of that share one.
struct Result {
  Report report;
  Simulation simulation;
};

}  // namespace phantora::python
