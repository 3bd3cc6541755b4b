#include "rank/code/warp.hpp"

#include <cmath>
#include <utility>

/// Of Warp: the way of a warp: branches, loops, where threads meet.
namespace phantora::rank::code {

bool Warp::run() {
  waits_ = false;
  while (alive_ != 0 && !waits_) {
    walk_.stop_unless(++walk_.steps <= walk_.limit, Obstacle::length);
    if (walk_.lost()) return false;
    std::size_t at = pc_[static_cast<std::size_t>(std::countr_zero(alive_))];
    Mask active = alive_;
    if (!together_) {
      // Those that are behind go first, so that threads meet again after a branch.
      for (int lane = 0; lane < lanes; ++lane) {
        if ((alive_ >> lane & 1) != 0) at = std::min(at, pc_[static_cast<std::size_t>(lane)]);
      }
      active = 0;
      for (int lane = 0; lane < lanes; ++lane) {
        if ((alive_ >> lane & 1) != 0 && pc_[static_cast<std::size_t>(lane)] == at)
          active |= Mask{1} << lane;
      }
    }
    if (at >= program_.code.size()) {
      walk_.stop_unless(!executes());
      return !walk_.lost();
    }
    together_ = active == alive_;
    execute(at, active);
  }
  return !walk_.lost();
}

bool Warp::is_written_down(const Instruction& i) {
  const unsigned operation = i.operation();
  switch (operation) {
    case op_preexit:
    case op_acqbulk:
    case op_uldc:
    case op_uflo:
    case op_ubrev:
    case op_upopc:
    case op_r2ur:
    case op_s2r:
    case op_s2ur:
    case op_redux:
    case op_flo:
    case op_brev:
    case op_fchk:
    case op_f2f:
    case op_f2i:
    case op_i2f:
    case op_frnd:
    case op_mufu:
    case op_popc:
    case op_f2f_double:
    case op_f2i_double:
    case op_i2f_double:
    case op_frnd_double:
    case op_nop:
    case op_depbar:
    case op_endcollective:
    case op_bar:
    case op_bsync:
    case op_break:
    case op_bssy:
    case op_yield:
    case op_warpsync:
    case op_exit:
    case op_ret:
    case op_ldg:
    case op_ld:
    case op_ldc:
    case op_ldl:
    case op_lds:
    case op_ldsm:
    case op_st:
    case op_stg:
    case op_stl:
    case op_sts:
    case op_stsm:
    case op_atoms:
    case op_shfl:
    case op_atomg:
    case op_red:
    case op_cctl:
    case op_membar:
    case op_errbar:
      return true;
    case op_bra:
    case op_brx:
      return i.form() == 4;  // others ask uniform predicates
    case op_call:
      return i.form() == 4;  // others go to an address
    case op_uiadd3_wide:
      return false;
    default:
      break;
  }
  switch (operation >= 0x100 ? 0U : operation & ~uniform) {
    case op_mov:
    case op_p2r:
    case op_r2p:
    case op_cs2r:
    case op_vote:
    case op_sel:
    case op_fsel:
    case op_fmnmx:
    case op_fsetp:
    case op_isetp:
    case op_iadd3:
    case op_lea:
    case op_lop3:
    case op_iabs:
    case op_prmt:
    case op_imnmx:
    case op_shf:
    case op_sgxt:
    case op_plop3:
    case op_fmul:
    case op_fadd:
    case op_ffma:
    case op_imad:
    case op_imad_wide:
    case op_imad_high:
    case op_dmul:
    case op_dadd:
    case op_dsetp:
    case op_dfma:
    case op_hadd2:
    case op_hfma2:
    case op_hmul2:
    case op_hset2:
    case op_hsetp2:
    case op_hfma2_mma:
    case op_f2fp:
    case op_viadd:
    case op_imma:
    case op_ldsm:
    case op_hmma:
    case op_dmma:
    case op_stsm:
    case op_i2fp:
    case op_viaddmnmx:
    case op_vimnmx:
      return true;
    default:
      return false;
  }
}

void Warp::wait_for_block(const Instruction& i, Mask mask) {
  // BAR.SYNC of all threads, at barrier 0.
  const bool plain = i.form() == 5 && (i.low >> 16) == 0 && i.field(77, 2) == 0;
  walk_.stop_unless(plain, Obstacle::code);
  walk_.stop_unless(mask == alive_);
  waits_ = true;
}

void Warp::execute(std::size_t at, Mask active) {
  const Instruction& i = program_.code[at];
  const unsigned operation = i.operation();
  at_ = at;
  // The threads that a shuffle in between waited for: all of them, or nobody knows where they are.
  if (executes() && operation == op_endcollective) walk_.stop_unless(active == alive_);
  if (executes() ? !is_written_down(i) : walk_.memory != nullptr && stores_elsewhere(operation)) {
    walk_.stop_unless(false, Obstacle::code);
    return;
  }
  count(Counts::instructions);
  counts_.way += (at + 1) * 0x9e3779b97f4a7c15ULL;
  if (in_guessed_loop(at)) count(Counts::guessed);
  // For what it needs, as the compiler says.
  if (const unsigned scoreboards = i.field(116, 6); scoreboards != 0 && !executes())
    for (Timing& timing : timings_) timing.wait(scoreboards);
  Truth guard = registers_.predicates[(is_of_warp(i) ? 8 : 0) + i.field(12, 3)];
  if (i.bit(15)) guard.value = ~guard.value;
  // Memory is accessed, and arithmetic done, where that is not known.
  const Mask mask = active & (guard.value | ~guard.known);
  unsure_ = active & ~guard.known;
  if (unsure_ != 0 && is_access(operation)) walk_.by_data = true;
  Asked asked;
  received_ = 0;
  if (operation == op_bra || operation == op_brx || operation == op_exit || operation == op_call ||
      operation == op_ret) {
    together_ = false;
    transfer(at, active, guard);
  } else {
    if (together_) {
      // That of one counts, until a transfer of control sets those of all.
      pc_[static_cast<std::size_t>(std::countr_zero(alive_))] = at + 1;
    } else {
      advance(at + 1, active);
    }
    if (walk_.memory != nullptr) {
      // What it costs is of no interest where data are followed.
      if (mask != 0) perform(at, i, operation, mask);
    } else {
      const auto before = counts_.sum;
      if (mask != 0) asked.latency = perform(at, i, operation, mask);
      asked.busy = busy(before);
    }
    // A result under a guard that is not known is not known.
    if (unsure_ != 0 && !is_access(operation)) {
      const bool together = names() && (unsure_ & ~guard.alike) == 0;
      if (!gives_nothing(i)) {
        if (together) {
          doubt(register_of(i, 16), unsure_);
        } else {
          forget(register_of(i, 16), executes() ? 4 : 1, unsure_);
        }
      }
      if (executes()) {
        forget_predicate(i, 81, unsure_);
        forget_predicate(i, 84, unsure_);
      }
    }
    if (executes() && operation == op_bar && mask != 0) wait_for_block(i, mask & ~unsure_);
  }
  if (executes()) return;  // nobody asks what that takes
  if (asked.latency > 0) {
    asked.writes = i.field(110, 3);
    asked.reads = i.field(113, 3);
  }
  if (operation == op_ldl) asked.giver = Giver::stack;
  if (asked.latency == memory_latency) asked.giver = Giver::memory;
  // The block's warps ask for as much at the same time.
  asked.received = received_ / l2_bytes_per_cycle * schedulers * walk_.side_by_side;
  asked.copies = operation == op_ldgsts;
  asked.ends_copies = operation == op_ldgdepbar;
  asked.stall = std::max<double>(walk_.side_by_side, i.field(105, 4));
  for (Timing& timing : timings_) timing.issue(asked);
}

std::array<double, Asked::pipes> Warp::busy(const std::array<double, Counts::units>& before) const {
  const auto counted = [&](Counts::Unit unit) { return counts_.sum[unit] - before[unit]; };
  // Cycles of a warp's instruction in a scheduler's part of the SM (CUDA C++ Programming Guide,
  // "Throughput of Native Arithmetic Instructions"); L1 is one for all four parts.
  std::array<double, Asked::pipes> cycles{
      2 * counted(Counts::alu),          counted(Counts::fma),
      2 * counted(Counts::fp64),         8 * counted(Counts::special),
      schedulers * counted(Counts::lsu), 0};
  if (counted(Counts::mma_sync_flops) > 0 || counted(Counts::fp64_flops) > 0) {
    const double of_sm = counted(Counts::half_flops) / half_flops_per_cycle +
                         counted(Counts::tf32_flops) / tf32_flops_per_cycle +
                         counted(Counts::eight_flops) / eight_bit_flops_per_cycle +
                         counted(Counts::fp64_flops) / fp64_flops_per_cycle;
    cycles.back() = schedulers * of_sm / mma_sync_attained;
  }
  for (double& of_pipe : cycles) of_pipe *= walk_.side_by_side;
  return cycles;
}

bool Warp::is_criterion(std::size_t at, Mask unsure, const Truth& condition) {
  if (unsure == 0 || (unsure & ~condition.alike) != 0) return false;
  const auto [last, is_first] = exits_.try_emplace(at, condition.name);
  const bool is_new = !is_first && std::exchange(last->second, condition.name) != condition.name;
  if (!is_new && !program_.is_only_way_out(at)) return false;
  if (std::ranges::find(criteria_, at) != criteria_.end()) return true;
  criteria_.push_back(at);
  if (const Program::Loop* loop = program_.innermost_loop(at)) guessed_loops_.push_back(*loop);
  return true;
}

Mask Warp::unknown_takers(std::size_t at, std::int64_t to, Mask unsure, const Truth& condition) {
  const bool backward = to <= static_cast<std::int64_t>(at);
  if (backward || program_.leaves(at, to)) {
    const int visit = ++visits_[at];
    walk_.by_data = true;
    if (unsure != 0) {
      for (const Program::Loop& loop : program_.loops) {
        if (loop.first <= at && at <= loop.last && backward && loop.last == at &&
            !in_guessed_loop(at)) {
          guessed_loops_.push_back(loop);
          count(Counts::guessed, static_cast<double>(at - loop.first + 1));  // the first trip
        }
      }
    }
    // What others tell has come once, after the time that it takes.
    if (walk_.meets_others && program_.is_in_spinning(at))
      return backward || !program_.is_only_way_out(at) ? 0 : unsure;
    if (backward) {
      const auto loop = std::ranges::find(program_.loops, at, &Program::Loop::last);
      const int trips =
          std::max(1, unknown_trips / (loop != program_.loops.end() ? loop->unrolled : 1));
      return visit % trips == 0 ? 0 : unsure;
    }
    if (is_criterion(at, unsure, condition)) return visit % unknown_trips == 0 ? unsure : 0;
    // Loops that end by what data say in the middle mostly end otherwise.
    return visit % most_unknown_trips == 0 ? unsure : 0;
  }
  // The compiler puts what is hardly ever needed into functions: denormals in divisions.
  if (program_.jumps_over_call(at, to)) return unsure;
  if (walk_.meets_others && program_.jumps_over_spinning(at, to)) return unsure;
  walk_.by_data = true;
  // Threads that all go the same way go the longer one.
  if ((unsure & ~condition.alike) == 0)
    return program_.instead(to) > to - 1 - static_cast<std::int64_t>(at) ? unsure : 0;
  constexpr Mask half = 0x55555555;
  return unsure & half;
}

void Warp::transfer(std::size_t at, Mask active, Truth guard) {
  const Instruction& i = program_.code[at];
  const unsigned operation = i.operation();
  count(Counts::alu);
  const Truth condition = combined(guard, predicate(i, 87), 0);
  const Mask unsure = active & ~condition.known;
  if (executes() && unsure != 0) {
    walk_.stop_unless(false);
    return;
  }
  if (operation == op_exit) {
    // Not the whole warp ends by a chance, but where that ends a loop.
    Mask ends = active & condition.known & condition.value;
    walk_.by_data = walk_.by_data || unsure != 0;
    const auto size = static_cast<std::int64_t>(program_.code.size());
    if (unsure != 0 && program_.leaves(at, size)) {
      const int visit = ++visits_[at];
      const int trips = is_criterion(at, unsure, condition) ? unknown_trips : most_unknown_trips;
      if (visit % trips == 0) ends |= unsure;
    } else if (walk_.meets_others && program_.jumps_over_spinning(at, size)) {
      ends |= unsure;
    }
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
  if (operation == op_brx) {
    follow_switch(at, active & (condition.value | ~condition.known));
    advance(at + 1, active & condition.known & ~condition.value);
    return;
  }
  const std::int64_t to = program_.target(at);
  Mask takes = active & condition.known & condition.value;
  if (unsure != 0) takes |= unknown_takers(at, to, unsure, condition);
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
  if (operation == op_bra && to < static_cast<std::int64_t>(at) && stays == 0 && active == alive_ &&
      !executes())
    count_through(at, static_cast<std::size_t>(to));
}

void Warp::follow_switch(std::size_t at, Mask mask) {
  const Lanes jump = get(program_.code[at].field(24, 8));
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const bool known = (jump.known >> lane & 1) != 0;
    walk_.by_data = walk_.by_data || !known;
    if (executes()) walk_.stop_unless(known);
    // Where only data tell the case, it is the one that the compiler put behind.
    const std::int64_t to =
        known ? program_.switch_target(at, jump.value[lane]) : static_cast<std::int64_t>(at) + 1;
    if (to < 0 || to >= static_cast<std::int64_t>(program_.code.size())) {
      alive_ &= ~(Mask{1} << lane);
    } else {
      pc_[lane] = static_cast<std::size_t>(to);
    }
  }
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

bool Warp::has_passed_its_end(const Passage& last, const Passage& before, std::size_t branch,
                              std::size_t first) const {
  const unsigned predicate = program_.code[branch].field(12, 3);
  constexpr unsigned always = 7, equal = 2, different = 5;
  for (std::size_t i = branch; predicate != always && i-- > first;) {
    const Instruction& decides = program_.code[i];
    if (!is_comparison(decides.operation()) || decides.field(81, 3) != predicate) continue;
    const auto n = static_cast<std::size_t>(program_.number[i]);
    const Comparison &now = last.registers.comparisons[n], &past = before.registers.comparisons[n];
    if (now.kind != Comparison::Kind::integers ||
        (now.relation != equal && now.relation != different) ||
        (alive_ & ~(now.known & past.known)) != 0)
      return false;
    const auto lane = static_cast<std::size_t>(std::countr_zero(alive_));
    const std::int64_t left = now.difference[lane], step = left - past.difference[lane];
    return (left > 0 && step > 0) || (left < 0 && step < 0);
  }
  return false;
}

void Warp::count_through(std::size_t branch, std::size_t first) {
  // What lies inside was entered anew.
  std::erase_if(passages_, [&](const auto& p) { return p.first >= first && p.first < branch; });
  std::deque<Passage>& past = passages_[branch];
  past.push_front({registers_, counts_, clocks()});
  if (past.size() < 2 ||
      std::ranges::any_of(criteria_, [&](std::size_t at) { return first <= at && at <= branch; })) {
    past.resize(1);
    return;
  }
  // Words are read from L1 until the next sector comes, after 8 of them: their mean counts.
  constexpr std::size_t words_of_a_sector = 8;
  const Counts &now = past[0].counts, &before = past[1].counts;
  const bool finds = now.sum[Counts::hits] > past.back().counts.sum[Counts::hits];
  // So do trips that do not take as long as one another: the first wait for what later ones find.
  const auto took = [&](std::size_t trip, std::size_t n) {
    return past[trip].clocks[n] - past[trip + 1].clocks[n];
  };
  constexpr double alike = 0.01;
  bool settled = past.size() > 2;
  for (std::size_t n = 0; settled && n < assumptions; ++n)
    settled = std::abs(took(0, n) - took(1, n)) <= alike * took(0, n);
  const std::size_t meant = finds || !settled ? words_of_a_sector : 1,
                    asked = std::max<std::size_t>(2, meant);
  for (std::size_t n = 1; n < past.size() && n <= asked; ++n) {
    if (past[n - 1].counts.way - past[n].counts.way == now.way - before.way) continue;
    past.resize(n);
    break;
  }
  if (past.size() <= asked) return;
  past.resize(asked + 1);
  double trips = std::numeric_limits<double>::infinity();
  for (std::size_t i = first; i <= branch; ++i) {
    if (!is_comparison(program_.code[i].operation())) continue;
    const auto n = static_cast<std::size_t>(program_.number[i]);
    trips = std::min(trips,
                     trips_left(past[0].registers.comparisons[n], past[1].registers.comparisons[n],
                                past[2].registers.comparisons[n], alive_));
    if (trips < 1) return;
  }
  if (!std::isfinite(trips)) {
    if (has_passed_its_end(past[0], past[1], branch, first)) advance(branch + 1, alive_);
    return;
  }
  trips = std::floor(trips);
  counts_.repeat(past[meant].counts, trips / static_cast<double>(meant));
  counts_.way = now.way + static_cast<std::uint64_t>(trips) * (now.way - before.way);
  for (std::size_t n = 0; n < assumptions; ++n) {
    const double each = (timings_[n].clock() - past[meant].clocks[n]) / static_cast<double>(meant);
    timings_[n].skip(trips * each);
  }
  const auto times = static_cast<std::uint32_t>(static_cast<std::uint64_t>(trips));
  const Name jump = new_name();
  const auto go_on = [&](Lanes& value, const Lanes& v1, const Lanes& v2) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const Name name = value.name(lane);
      const std::uint32_t step = value.value[lane] - v1.value[lane];
      const bool evenly =
          step == v1.value[lane] - v2.value[lane] && name == v1.name(lane) && name == v2.name(lane);
      if (evenly) {
        value.value[lane] += times * step;
      } else {
        // Threads lie to one another as in the last trip.
        value.known &= ~(Mask{1} << lane);
        value.unknown[lane] = plus(name, jump) == no_name ? jump : plus(name, jump);
      }
    }
  };
  const Registers &r1 = past[1].registers, &r2 = past[2].registers;
  registers_.each_written([&](unsigned r) { go_on(registers_.changed(r), r1[r], r2[r]); });
  for (std::size_t w = 0; w < registers_.words(); ++w)
    go_on(registers_.changed_word(w), r1.word(w), r2.word(w));
  past.clear();
}

}  // namespace phantora::rank::code
