#include <phantora/steps.hpp>

#include <algorithm>
#include <unordered_map>

namespace phantora {

Duration Steps::median() const {
  if (count() == 0) return {};
  std::vector<Duration> lengths;
  for (std::size_t i = 1; i < starts.size(); ++i) lengths.push_back(starts[i] - starts[i - 1]);
  const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
  std::nth_element(lengths.begin(), middle, lengths.end());
  return *middle;
}

Steps find_steps(std::span<const WorkItem> work) {
  // An item that occurs once per step occurs as often as there are steps. So the distances between
  // successive occurrences of each kind of work are the candidates for the period: take those that
  // most items agree on.
  std::unordered_map<std::uint64_t, std::size_t> last;
  std::unordered_map<std::size_t, std::size_t> votes;
  for (std::size_t i = 0; i < work.size(); ++i) {
    const auto [seen, first] = last.try_emplace(work[i].identity, i);
    if (!first) {
      ++votes[i - seen->second];
      seen->second = i;
    }
  }
  std::vector<std::pair<std::size_t, std::size_t>> candidates;  // votes x distance, distance
  for (const auto& [distance, count] : votes) candidates.emplace_back(count * distance, distance);
  constexpr std::size_t considered = 64;
  const std::size_t kept = std::min(considered, candidates.size());
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(kept),
                    candidates.end(), std::greater<>{});
  candidates.resize(kept);

  std::size_t best_begin = 0, best_length = 0, best_period = 0;
  for (const auto& [weight, period] : candidates) {
    for (std::size_t begin = 0, i = 0; i + period <= work.size(); ++i) {
      const bool repeats =
          i + period < work.size() && work[i].identity == work[i + period].identity;
      if (repeats) continue;
      // work[begin, i + period) repeats with this period.
      const std::size_t length = i + period - begin;
      if (length >= 2 * period &&
          (length > best_length || (length == best_length && period < best_period))) {
        best_begin = begin;
        best_length = length;
        best_period = period;
      }
      begin = i + 1;
    }
  }
  Steps steps;
  if (best_period == 0) return steps;
  steps.items = best_period;
  for (std::size_t i = best_begin; i < best_begin + best_length; i += best_period) {
    steps.starts.push_back(work[i].start);
  }
  return steps;
}

}  // namespace phantora
