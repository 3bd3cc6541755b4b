#include <phantora/simulation/steps.hpp>

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace phantora {
namespace {

/// splitmix64's last step: sums and chains of it tell multisets and sequences apart.
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

Duration busy_time(std::span<const WorkItem> work) {
  Duration total{};
  for (const WorkItem& item : work) total += item.end - item.start;
  return total;
}

template <class T>
T median_of(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// --- Steps that something ends ---

/// Work that ends a step, with nothing but what may stand between.
struct Burst {
  std::size_t first = 0, last = 0;
  std::size_t size = 0;         ///< items that end a step
  std::uint64_t signature = 0;  ///< equal for equal sequences of these
};

void append(Burst& burst, std::span<const WorkItem> work, std::size_t i) {
  if (burst.size++ == 0) burst.first = i;
  burst.last = i;
  burst.signature = mixed(burst.signature + work[i].identity);
}

/// All items that end a step, of `parts` and so of one burst.
Burst joined(std::span<const WorkItem> work, std::span<const Burst> parts) {
  Burst all;
  for (std::size_t i = parts.front().first; i <= parts.back().last; ++i)
    if (work[i].role == StepRole::ends_step) append(all, work, i);
  return all;
}

/// How many of the last bursts have as many items together as `whole`, if any do.
std::size_t parts_of(const Burst& whole, std::span<const Burst> bursts) {
  std::size_t size = 0, parts = 0;
  while (size < whole.size && parts < bursts.size()) size += bursts[bursts.size() - ++parts].size;
  return size == whole.size ? parts : 0;
}

/// An optimizer that sets up its state when it first sees a parameter has other work between its
/// updates the first time: what then comes as one burst was one before.
std::vector<Burst> join_first_updates(std::span<const WorkItem> work, std::vector<Burst> bursts) {
  std::vector<Burst> whole;
  std::unordered_set<std::uint64_t> seen;
  for (const Burst& burst : bursts) {
    if (seen.insert(burst.signature).second) {
      const std::size_t parts = parts_of(burst, whole);
      if (parts > 1) {
        const Burst first = joined(work, std::span{whole}.last(parts));
        if (first.signature == burst.signature) {
          whole.resize(whole.size() - parts);
          whole.push_back(first);
        }
      }
    }
    whole.push_back(burst);
  }
  return whole;
}

std::vector<Burst> find_bursts(std::span<const WorkItem> work) {
  std::vector<Burst> bursts;
  bool open = false;
  for (std::size_t i = 0; i < work.size(); ++i) {
    if (work[i].role == StepRole::work) open = false;
    if (work[i].role != StepRole::ends_step) continue;
    if (!std::exchange(open, true)) bursts.emplace_back();
    append(bursts.back(), work, i);
  }
  return join_first_updates(work, std::move(bursts));
}

/// After how many bursts the same come again. The first one is left out: it may initialise.
std::size_t round_of(std::span<const Burst> bursts) {
  if (bursts.size() > 3) bursts = bursts.subspan(1);
  constexpr std::size_t longest = 4096;
  for (std::size_t round = 1; round <= std::min(longest, bursts.size() / 2); ++round) {
    const std::size_t pairs = bursts.size() - round;
    std::size_t different = 0;
    for (std::size_t i = 0; i < pairs && different <= pairs / 10; ++i) {
      if (bursts[i].signature != bursts[i + round].signature) ++different;
    }
    if (different <= pairs / 10) return round;
  }
  return 1;
}

/// Which burst of a round is its last: the one with the most work behind it, since what ends a step
/// lies closer together than what begins one. Counted from the last burst of all if that is equal.
std::size_t end_of_round(const std::vector<Burst>& bursts, std::size_t round) {
  std::size_t best = (bursts.size() - 1) % round, most = 0;
  for (std::size_t turn = 0; turn < round; ++turn) {
    const std::size_t phase = (bursts.size() - 1 + round - turn) % round;
    std::vector<std::size_t> behind;
    for (std::size_t i = phase; i + 1 < bursts.size(); i += round) {
      behind.push_back(bursts[i + 1].first - bursts[i].last);
    }
    if (behind.empty()) continue;
    const std::size_t here = median_of(std::move(behind));
    if (here > most) {
      most = here;
      best = phase;
    }
  }
  return best;
}

// --- Steps that only their repetition shows ---

/// Work that recurs after always the same number of items.
struct Repetition {
  std::uint64_t identity = 0;
  std::size_t period = 0;     ///< in items
  std::size_t count = 0;      ///< periods
  std::size_t first = 0;      ///< its first occurrence
  std::size_t irregular = 0;  ///< distances other than the period
  Duration covered{};         ///< busy time of the periods
  Duration length{};          ///< median
};

std::vector<Repetition> find_repetitions(std::span<const WorkItem> work) {
  std::vector<Duration> busy{{}};  // before each item
  for (const WorkItem& item : work) busy.push_back(busy.back() + (item.end - item.start));
  std::vector<std::pair<std::uint64_t, std::size_t>> places;
  for (std::size_t i = 0; i < work.size(); ++i) places.emplace_back(work[i].identity, i);
  std::sort(places.begin(), places.end());

  std::vector<Repetition> found;
  for (std::size_t begin = 0, end = 0; begin < places.size(); begin = end) {
    while (end < places.size() && places[end].first == places[begin].first) ++end;
    const std::span here{places.data() + begin, end - begin};
    if (here.size() < 3) continue;
    std::vector<std::size_t> gaps;
    for (std::size_t i = 1; i < here.size(); ++i)
      gaps.push_back(here[i].second - here[i - 1].second);
    std::vector<std::size_t> sorted = gaps;
    std::sort(sorted.begin(), sorted.end());
    std::size_t period = 0, regular = 0;
    for (auto gap = sorted.begin(); gap != sorted.end();) {
      const auto next = std::upper_bound(gap, sorted.end(), *gap);
      if (static_cast<std::size_t>(next - gap) > regular) {
        regular = static_cast<std::size_t>(next - gap);
        period = *gap;
      }
      gap = next;
    }
    if (regular < 2 || regular < gaps.size() / 2) continue;
    Repetition repetition{
        .identity = here.front().first, .period = period, .irregular = gaps.size() - regular};
    std::vector<Duration> lengths;
    for (std::size_t i = 0; i < gaps.size(); ++i) {
      if (gaps[i] != period) continue;
      const std::size_t from = here[i].second, to = here[i + 1].second;
      if (lengths.empty()) repetition.first = from;
      lengths.push_back(work[to].start - work[from].start);
      ++repetition.count;
      repetition.covered += busy[to] - busy[from];
      if (i + 1 < gaps.size() && gaps[i + 1] == period) continue;
      // The last one of a run has no successor to show its end.
      const std::size_t next = i + 1 < gaps.size() ? here[i + 2].second : work.size();
      ++repetition.count;
      repetition.covered += busy[std::min(to + period, next)] - busy[to];
    }
    repetition.length = median_of(std::move(lengths));
    found.push_back(repetition);
  }
  return found;
}

/// The longest period among those that cover nearly as much as any does. Nothing if none covers a
/// third of the busy time.
std::optional<Repetition> outermost(const std::vector<Repetition>& all, Duration busy) {
  Duration most{};
  for (const Repetition& one : all) most = std::max(most, one.covered);
  if (most < busy / 3 || most == Duration{}) return std::nullopt;
  std::optional<Repetition> best;
  for (const Repetition& one : all) {
    if (one.covered < most / 5 * 4) continue;
    const auto merit = [](const Repetition& it) {
      return std::tuple{it.period, -static_cast<std::ptrdiff_t>(it.irregular), it.covered,
                        -static_cast<std::ptrdiff_t>(it.first)};
    };
    if (!best || merit(one) > merit(*best)) best = one;
  }
  return best;
}

/// A shorter repetition that leaves next to nothing of the longer one unexplained: whether the rest
/// ends a step or comes after every so many steps, nothing says.
std::optional<Steps::Rival> inner_rival(const std::vector<Repetition>& all,
                                        const Repetition& outer) {
  std::optional<Repetition> best;
  for (const Repetition& one : all) {
    if (one.period * 2 > outer.period || one.covered < outer.covered / 20 * 19) continue;
    if (!best || one.period > best->period) best = one;
  }
  if (!best) return std::nullopt;
  return Steps::Rival{.count = best->count, .length = best->length};
}

/// Groups of equally many repetitions, with other work between: micro-batches of few steps, or
/// steps between checkpoints? Nothing says.
/// @param places  of the repetitions.
std::optional<Steps::Rival> grouped_rival(std::span<const WorkItem> work,
                                          const std::vector<std::size_t>& places,
                                          std::size_t period) {
  std::vector<std::size_t> groups;  // first of each, as indices into places
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (i == 0 || places[i] - places[i - 1] != period) groups.push_back(i);
  }
  if (groups.size() < 3) return std::nullopt;
  const std::size_t size = groups[1];
  std::vector<Duration> lengths;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::size_t next = i + 1 < groups.size() ? groups[i + 1] : places.size();
    if (size < 2 || next - groups[i] != size) return std::nullopt;
    if (i > 0) {
      lengths.push_back(work[places[groups[i]]].start - work[places[groups[i - 1]]].start);
    }
  }
  return Steps::Rival{.count = groups.size(), .length = median_of(std::move(lengths))};
}

// --- Which steps are typical ---

bool contains(std::span<const WorkItem> step,
              const std::unordered_map<std::uint64_t, std::size_t>& counts) {
  std::unordered_map<std::uint64_t, std::size_t> missing = counts;
  std::size_t kinds = missing.size();
  for (const WorkItem& item : step) {
    const auto found = missing.find(item.identity);
    if (found != missing.end() && found->second > 0 && --found->second == 0) --kinds;
  }
  return kinds == 0;
}

/// @param places  where steps begin and end, as indices into `work`.
void choose_typical(Steps& steps, std::span<const WorkItem> work,
                    const std::vector<std::size_t>& places) {
  struct Kind {
    std::size_t count = 0, step = 0, items = 0;
  };
  const auto step = [&](std::size_t i) {
    return work.subspan(places[i], places[i + 1] - places[i]);
  };
  std::unordered_map<std::uint64_t, Kind> kinds;
  std::vector<std::uint64_t> kind_of;
  for (std::size_t i = 0; i < steps.count(); ++i) {
    std::uint64_t hash = 0;
    for (const WorkItem& item : step(i)) hash += mixed(item.identity + 1);
    kind_of.push_back(hash);
    Kind& kind = kinds.try_emplace(hash, Kind{.step = i, .items = step(i).size()}).first->second;
    ++kind.count;
  }
  steps.typical.assign(steps.count(), true);
  if (steps.count() == 0) return;
  std::uint64_t common = kind_of.front();
  const auto rank = [&](std::uint64_t hash) {
    const Kind& kind = kinds.at(hash);
    return std::tuple{-static_cast<std::ptrdiff_t>(kind.count), kind.items, kind.step};
  };
  for (const auto& [hash, kind] : kinds) {
    if (rank(hash) < rank(common)) common = hash;
  }
  const Kind usual = kinds.at(common);
  if (usual.count < 2) {  // every step does other work, as with data of different lengths
    std::vector<std::size_t> sizes;
    for (std::size_t i = 0; i < steps.count(); ++i) sizes.push_back(step(i).size());
    steps.items = median_of(std::move(sizes));
    return;
  }
  steps.items = usual.items;
  if (usual.count * 2 >= steps.count()) {
    for (std::size_t i = 0; i < usual.step; ++i) steps.typical[i] = false;
  }
  std::unordered_map<std::uint64_t, std::size_t> counts;
  for (const WorkItem& item : step(usual.step)) ++counts[item.identity];
  for (std::size_t i = usual.step; i < steps.count(); ++i) {
    if (step(i).size() > usual.items && contains(step(i), counts)) steps.typical[i] = false;
  }
}

}  // namespace

Duration Steps::median() const {
  std::vector<Duration> lengths;
  for (std::size_t i = 0; i < count(); ++i) {
    if (typical[i]) lengths.push_back(bounds[i + 1] - bounds[i]);
  }
  return lengths.empty() ? Duration{} : median_of(std::move(lengths));
}

Steps find_steps(std::span<const WorkItem> work, StepEnds ends) {
  Steps steps;
  std::vector<std::size_t> places;
  const std::vector<Burst> bursts = find_bursts(work);
  if (bursts.size() >= 2) {
    const std::size_t round = ends == StepEnds::given ? 1 : round_of(bursts);
    for (std::size_t i = end_of_round(bursts, round); i < bursts.size(); i += round) {
      places.push_back(bursts[i].last + 1);
      steps.bounds.push_back(work[bursts[i].last].end);
    }
    if (ends == StepEnds::guessed && places.size() >= 2) {
      // What follows may be as long, and as regular: a model that is trained, then asked.
      const Duration here = busy_time(work.subspan(places.front(), places.back() - places.front()));
      const auto rest = work.subspan(places.back());
      const auto other = outermost(find_repetitions(rest), busy_time(rest));
      if (other && other->covered >= here / 5 * 4) {
        steps.rival = Steps::Rival{.count = other->count, .length = other->length};
      }
    }
  } else if (ends == StepEnds::guessed) {
    const std::vector<Repetition> all = find_repetitions(work);
    if (const auto chosen = outermost(all, busy_time(work))) {
      steps.rival = inner_rival(all, *chosen);
      for (std::size_t i = chosen->first; i < work.size(); ++i) {
        if (work[i].identity != chosen->identity) continue;
        places.push_back(i);
        steps.bounds.push_back(work[i].start);
      }
      if (!steps.rival) steps.rival = grouped_rival(work, places, chosen->period);
    }
  }
  choose_typical(steps, work, places);
  return steps;
}

Steps cut_steps(std::span<const WorkItem> work, std::span<const Time> bounds) {
  Steps steps;
  std::vector<std::size_t> places;
  for (const Time bound : bounds) {
    const auto next = std::partition_point(
        work.begin(), work.end(), [&](const WorkItem& item) { return item.start < bound; });
    places.push_back(static_cast<std::size_t>(next - work.begin()));
    steps.bounds.push_back(bound);
  }
  choose_typical(steps, work, places);
  return steps;
}

}  // namespace phantora
