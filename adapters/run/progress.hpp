#pragma once

#include "run/output.hpp"

#include <phantora/simulation/session.hpp>
#include <phantora/simulation/step_observer.hpp>

#include <chrono>
#include <string>

namespace phantora::run {

/// A line on the terminal that says how far the simulation is. How far it has to go nobody knows:
/// the program does not say how many steps it will make.
class Progress {
 public:
  Progress(const Session& session, const StepObserver& observed, Output& output)
      : session_{session}, observed_{observed}, output_{output} {}
  /// Shows it anew if some time has passed. @param processes  that have not ended.
  void update(std::size_t processes);

 private:
  using Clock = std::chrono::steady_clock;
  const Session& session_;
  const StepObserver& observed_;
  Output& output_;
  Clock::time_point began_ = Clock::now();
  Clock::time_point next_ = began_ + std::chrono::seconds{1};
  Clock::time_point next_steps_ = began_;
  std::string steps_{};
};

}  // namespace phantora::run
