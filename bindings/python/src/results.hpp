#pragma once

#include "spans.hpp"

#include <phantora/simulation/simulation.hpp>

#include <memory>

namespace phantora::python {

/// A report, and the simulation that has the names of its links; copies of that share one.
struct Result {
  Report report;
  Simulation simulation;
  std::shared_ptr<const Spans> spans{};  ///< if they were asked for
};

}  // namespace phantora::python
