#include "rank/kernels/warp.hpp"

#include <cmath>
#include <utility>

/// Of Warp: the way of a warp: branches, loops, where threads meet.
namespace phantora::rank::code {

bool Warp::run() {
  while (alive_ != 0) {
    if (++walk_.steps > most_steps) return false;
    // Those that are behind go first, so that threads meet again after a branch.
    std::size_t at = std::numeric_limits<std::size_t>::max();
    for (int lane = 0; lane < lanes; ++lane) {
      if ((alive_ >> lane & 1) != 0) at = std::min(at, pc_[static_cast<std::size_t>(lane)]);
    }
    if (at >= program_.code.size()) return true;
    Mask active = 0;
    for (int lane = 0; lane < lanes; ++lane) {
      if ((alive_ >> lane & 1) != 0 && pc_[static_cast<std::size_t>(lane)] == at)
        active |= Mask{1} << lane;
    }
    execute(at, active);
  }
  return true;
}

void Warp::execute(std::size_t at, Mask active) {
  const Instruction& i = program_.code[at];
  const unsigned operation = i.operation();
  count(Counts::instructions);
  counts_.way += (at + 1) * 0x9e3779b97f4a7c15ULL;
  if (in_guessed_loop(at)) count(Counts::guessed);
  // Waits for what it needs, as the compiler says.
  const unsigned waits = i.field(116, 6);
  for (std::size_t s = 0; s < scoreboard_.size(); ++s) {
    if ((waits >> s & 1) != 0) counts_.clock = std::max(counts_.clock, scoreboard_[s]);
  }
  Truth guard = registers_.predicates[(is_of_warp(i) ? 8 : 0) + i.field(12, 3)];
  if (i.bit(15)) guard.value = ~guard.value;
  // Memory is accessed, and arithmetic done, where that is not known.
  const Mask mask = active & (guard.value | ~guard.known);
  double latency = 0;
  if (operation == op_bra || operation == op_exit || operation == op_call || operation == op_ret) {
    transfer(at, active, guard);
  } else {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      if ((active >> lane & 1) != 0) pc_[lane] = at + 1;
    }
    if (mask != 0) latency = perform(at, i, operation, mask);
    // A result under a guard that is not known is not known.
    const Mask unsure = active & ~guard.known;
    if (unsure != 0 && !is_access(operation)) forget(register_of(i, 16), 1, unsure);
  }
  if (latency > 0) {
    const unsigned writes = i.field(110, 3);
    if (writes < scoreboard_.size()) scoreboard_[writes] = counts_.clock + latency;
    // Operands are read long before the result is there.
    const unsigned reads = i.field(113, 3);
    if (reads < scoreboard_.size())
      scoreboard_[reads] = std::max(scoreboard_[reads], counts_.clock + special_latency);
  }
  counts_.clock += std::max(1U, i.field(105, 4));
}

Mask Warp::unknown_takers(std::size_t at, std::int64_t to, Mask unsure) {
  const bool backward = to <= static_cast<std::int64_t>(at);
  if (backward || program_.leaves(at, to)) {
    const int visit = ++visits_[at];
    if (unsure != 0) {
      for (const Program::Loop& loop : program_.loops) {
        if (loop.first <= at && at <= loop.last && backward && loop.last == at &&
            !in_guessed_loop(at)) {
          guessed_loops_.push_back(loop);
        }
      }
    }
    // Loops that end by what data say in the middle mostly end otherwise.
    if (backward) return visit % unknown_trips == 0 ? 0 : unsure;
    return visit % most_unknown_trips == 0 ? unsure : 0;
  }
  // The compiler puts what is hardly ever needed into functions: denormals in divisions.
  if (program_.jumps_over_call(at, to)) return unsure;
  constexpr Mask half = 0x55555555;
  return unsure & half;
}

void Warp::transfer(std::size_t at, Mask active, Truth guard) {
  const Instruction& i = program_.code[at];
  const unsigned operation = i.operation();
  count(Counts::alu);
  Truth condition = guard;
  if (operation == op_bra) condition = combined(guard, predicate(i, 87), 0);
  const Mask unsure = active & ~condition.known;
  if (operation == op_exit) {
    // Not the whole warp ends by a chance.
    const Mask ends = (active & condition.known & condition.value);
    alive_ &= ~ends;
    advance(at + 1, active & ~ends);
    return;
  }
  if (operation == op_ret) {
    Mask done = active;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      if ((active >> lane & 1) == 0) continue;
      if (returns_[lane].empty()) continue;
      pc_[lane] = returns_[lane].back();
      returns_[lane].pop_back();
      done &= ~(Mask{1} << lane);
    }
    alive_ &= ~done;
    return;
  }
  const std::int64_t to = program_.target(at);
  Mask takes = active & condition.known & condition.value;
  if (unsure != 0) takes |= unknown_takers(at, to, unsure);
  const Mask stays = active & ~takes;
  advance(at + 1, stays);
  if (takes == 0) return;
  if (to < 0 || static_cast<std::size_t>(to) >= program_.code.size() ||
      (operation == op_bra && to == static_cast<std::int64_t>(at))) {
    alive_ &= ~takes;
    return;
  }
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    if ((takes >> lane & 1) != 0 && operation == op_call) returns_[lane].push_back(at + 1);
  }
  advance(static_cast<std::size_t>(to), takes);
  if (operation == op_bra && to < static_cast<std::int64_t>(at) && stays == 0 && active == alive_)
    count_through(at, static_cast<std::size_t>(to));
}

double Warp::trips_left(const Comparison& c0, const Comparison& c1, const Comparison& c2,
                        Mask active) {
  double least = std::numeric_limits<double>::infinity();
  if (c0.kind == Comparison::Kind::none) return least;
  const Mask known = c0.known & c1.known & c2.known & active;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    if ((known >> lane & 1) == 0) continue;
    const std::int64_t x = c0.difference[lane];
    const std::int64_t step = x - c1.difference[lane];
    if (step != c1.difference[lane] - c2.difference[lane]) return 0;
    if (step == 0) continue;
    if (c0.kind == Comparison::Kind::exact) return 0;
    // Where the sign that the relation asks for changes: x < 0, x == 0, x > 0.
    const bool upwards = step > 0;
    double left = std::numeric_limits<double>::infinity();
    const auto until = [&](std::int64_t bound) {  // first trip with x beyond `bound`
      const std::int64_t way = upwards ? bound - x : x - bound;
      if (way >= 0)
        left = std::min(left,
                        std::floor(static_cast<double>(way) / static_cast<double>(std::abs(step))));
    };
    switch (c0.relation) {
      case 1:  // <
      case 6:  // >=
        until(upwards ? -1 : 0);
        break;
      case 3:  // <=
      case 4:  // >
        until(upwards ? 0 : 1);
        break;
      default:  // equal or not: just before, and on it
        until(upwards ? -1 : 1);
        if (x == 0) left = 0;
        break;
    }
    least = std::min(least, left);
  }
  return least;
}

void Warp::count_through(std::size_t branch, std::size_t first) {
  // What lies inside was entered anew.
  std::erase_if(passages_, [&](const auto& p) { return p.first >= first && p.first < branch; });
  std::vector<Passage>& past = passages_[branch];
  past.insert(past.begin(), Passage{registers_, counts_});
  if (past.size() < 3) return;
  past.resize(3);
  const Counts &now = past[0].counts, &before = past[1].counts, &long_before = past[2].counts;
  if (now.way - before.way != before.way - long_before.way) return;
  double trips = std::numeric_limits<double>::infinity();
  for (std::size_t i = first; i <= branch; ++i) {
    if (!is_comparison(program_.code[i].operation())) continue;
    const auto n = static_cast<std::size_t>(program_.number[i]);
    trips = std::min(trips,
                     trips_left(past[0].registers.comparisons[n], past[1].registers.comparisons[n],
                                past[2].registers.comparisons[n], alive_));
    if (trips < 1) return;
  }
  if (!std::isfinite(trips)) return;
  trips = std::floor(trips);
  const double clock = counts_.clock;
  counts_.repeat(before, trips);
  for (double& ready : scoreboard_) ready += counts_.clock - clock;
  const auto times = static_cast<std::uint32_t>(static_cast<std::uint64_t>(trips));
  for (std::size_t r = 0; r < registers_.general.size(); ++r) {
    Lanes& value = registers_.general[r];
    const Lanes &v1 = past[1].registers.general[r], &v2 = past[2].registers.general[r];
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const std::uint32_t step = value.value[lane] - v1.value[lane];
      if (step != v1.value[lane] - v2.value[lane]) value.known &= ~(Mask{1} << lane);
      value.value[lane] += times * step;
    }
    value.known &= v1.known & v2.known;
  }
  for (const std::size_t zero : {std::size_t{255}, std::size_t{256 + 63}})
    registers_.general[zero].known = all_lanes;
  past.clear();
}

}  // namespace phantora::rank::code
