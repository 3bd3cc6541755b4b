#include "run/turns.hpp"

#include <algorithm>

namespace phantora::run {

bool uses_turn(const TurnUse& use) {
  // Who goes on for so long without a call may spin until another rank has come: that one gets a
  // turn too. Other ranks come to their next call within some milliseconds.
  constexpr std::chrono::milliseconds long_without_a_call{250};
  if (use.idle || use.silent_for > long_without_a_call) return false;
  return use.thread_runs || !use.has_threads;
}

std::optional<Contender> next_turn(std::span<const Contender> all, int runnable) {
  const auto used = std::count_if(all.begin(), all.end(),
                                  [](const Contender& contender) { return contender.uses_turn; });
  if (used >= runnable) return std::nullopt;
  std::optional<Contender> first;
  for (const Contender& contender : all) {
    if (contender.next && (!first || contender.next->clock_ps < first->next->clock_ps)) {
      first = contender;
    }
  }
  return first;
}

}  // namespace phantora::run
