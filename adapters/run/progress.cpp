#include "run/progress.hpp"

#include <fmt/format.h>

namespace phantora::run {

void Progress::update(std::size_t processes) {
  if (!output_.has_status()) return;
  const auto now = Clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds{500};
  if (now >= next_steps_) {
    const Steps steps = observed_.steps(0);
    steps_ = steps.count() == 0 ? ""
                                : fmt::format(", {} steps of {:.1f} ms", steps.count(),
                                              to_seconds(steps.median()) * 1e3);
    // Finding them takes longer the more work there was: it may take a twentieth of the time.
    next_steps_ = Clock::now() + 20 * (Clock::now() - now);
  }
  const double simulated = to_seconds(session_.now().time_since_epoch());
  const double wall = std::chrono::duration<double>(now - began_).count();
  output_.show_status(fmt::format(
      "phantora: {:.3f} s simulated in {:.0f} s ({:.2g} of real time)"
      "{}, {} process{} left",
      simulated, wall, simulated / wall, steps_, processes, processes == 1 ? "" : "es"));
}

}  // namespace phantora::run
