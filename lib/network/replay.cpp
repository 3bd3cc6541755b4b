#include "network/replay.hpp"

#include <algorithm>
#include <limits>

namespace phantora::network {

Replay::Replay(MaxMin& solver, FlowTable& flows, Records& records, Motion& motion,
               Recorded& recorded, std::size_t links)
    : solver_{solver},
      flows_{flows},
      records_{records},
      motion_{motion},
      recorded_{recorded},
      flags_(links),
      diverged_on_(links),
      excess_(links) {
  histories_.reserve(links);
  for (std::uint32_t link = 0; link < links; ++link)
    histories_.emplace_back(solver_.residual(link));
}

void Replay::begin(Ps at, Ps last) {
  end_ = last;
  motion_.replay(&recorded_);
  // Until all that may be replayed is committed, no link is eased: that one has changed last at
  // the latest instant.
  solver_.allow_easing(false);
  solver_.count_exactly([&](std::uint32_t link) { solver_.set_stamp(link, last); });
  for (std::uint64_t i = records_.moves.first_since(at); i <= records_.moves.end(); ++i) {
    const Moved& move = records_.moves[i];
    const Slot slot = move.slot;
    const Progress& progress = flows_.progress(slot);
    if (!move.ends || progress.last != i || progress.since <= at) continue;
    solver_.for_each_link(slot, [&](std::uint32_t link) { departed_from(link).push_back(slot); });
  }
}

void Replay::finish() {
  for (std::vector<Slot>& flows : departed_) flows.clear();
  for (const std::uint32_t link : flagged_) {
    // The last instant that may have touched the link.
    if (flags_[link] & rewound) solver_.set_stamp(link, end_);
    flags_[link] = 0;
    diverged_on_[link] = 0;
  }
  flagged_.clear();
  recorded_.finish();
  motion_.replay(nullptr);
  motion_.find_ends(std::exchange(end_, -1));
}

void Replay::rewind_link(std::uint32_t link, Ps at) {
  end_ = std::max(end_, at);
  flag(link, rewound);
  solver_.set_stamp(link, std::numeric_limits<Ps>::min());
  flows_on_.clear();
  solver_.for_each_flow(link, [&](Slot slot) { flows_on_.push_back(slot); });
  for (const Slot slot : departed_from(link))
    if (solver_.uses_link(slot, link)) flows_on_.push_back(slot);
  for (const Slot slot : flows_on_) recorded_.rewind(slot, at);
  for (const Slot slot : flows_on_) recorded_.follow(solver_.bottleneck(slot), at);
  recorded_.follow(link, at);
  histories_[link].forget_after(at);
  solver_.reconsider(link);
}

void Replay::part_from_past(Slot slot, Ps at) {
  recorded_.rewind(slot, at);
  recorded_.follow(solver_.bottleneck(slot), at);
  if (recorded_.in_step(slot)) recorded_.detach(*recorded_.flow(slot));
}

bool Replay::follow_record(Ps at, std::span<const Slot> due) {
  recorded_.set_instant(at);
  replayed_flows_.clear();
  replayed_groups_.clear();
  newly_diverged_.clear();
  due_links_.clear();
  due_records_.clear();
  while (recorded_.next() == at) {
    const std::uint64_t what = recorded_.pop();
    if (what >= Recorded::group_due) {
      follow_record(recorded_.group_at(what - Recorded::group_due), at);
    } else if (what >= Recorded::link_due) {
      due_links_.push_back(static_cast<std::uint32_t>(what - Recorded::link_due));
    } else {
      due_records_.push_back(what);
    }
  }
  for (const std::uint64_t index : due_records_) follow_record(recorded_.flow_at(index), at, due);
  bool evaluate = false;
  for (const std::uint32_t link : due_links_) {
    if (diverged_on_[link] == 0 || (flags_[link] & rewound)) continue;
    rewind_link(link, at);
    evaluate = true;
  }
  const auto reconsider = [&](std::uint32_t link) {
    if (diverged_on_[link] == 0 || !(flags_[link] & rewound)) return;
    solver_.reconsider(link);
    evaluate = true;
  };
  for (const Slot slot : replayed_flows_) solver_.for_each_link(slot, reconsider);
  for (const std::uint32_t link : replayed_groups_) solver_.for_each_crossed(link, reconsider);
  return evaluate || !newly_diverged_.empty() || !solver_.moves().empty() ||
         !solver_.shifts().empty();
}

void Replay::follow_record(Followed& group, Ps at) {
  while (!group.future.empty() && group.future.back().at == at) group.future.pop_back();
  recorded_.schedule_next(group);
  const FillingKey key = recorded_.past_key(group);
  if (!group.detached) {
    solver_.restore_key(group.link, key);
    replayed_groups_.push_back(group.link);
    motion_.stale(group.link);
  } else if (!group.diverged || solver_.group_size(group.link) == 0) {
    solver_.guess_key(group.link, key);
    replayed_groups_.push_back(group.link);
  }
  compare(group, [&](Slot slot) { newly_diverged_.push_back(slot); });
}

void Replay::follow_record(Rewound& flow, Ps at, std::span<const Slot> due) {
  const Past first = flow.future.back();
  while (!flow.future.empty() && flow.future.back().at == at) flow.future.pop_back();
  recorded_.schedule_next(flow);
  const std::uint32_t to = recorded_.past_bottleneck(flow);
  if (!flow.detached) {
    recorded_.take_past(flow);
    recorded_.follow(to, at);
    replayed_flows_.push_back(flow.slot);
    if (const Followed* group = recorded_.group(to); group && group->detached) {
      // That group's service is another than recorded, so the flow needs a mark of its own.
      const auto left = static_cast<Service>(recorded_.past_left(flow, at));
      flow.detached = true;
      flow.counted = recorded_.least_rate(flow);
      Progress& progress = flows_.progress(flow.slot);
      motion_.drop_cap_end(flow.slot);
      progress.become(State::running);
      progress.since = at;
      progress.record(first.record);
      progress.mark = motion_.service_at(to, at) + left;
      motion_.stale(to);
    }
  } else if (!flow.diverged && to != MaxMin::none &&
             std::find(due.begin(), due.end(), flow.slot) == due.end()) {
    solver_.guess(flow.slot, to);
    recorded_.follow(to, at);
    replayed_flows_.push_back(flow.slot);
  }
  if (compare(flow)) newly_diverged_.push_back(flow.slot);
}

/// Notes whether a flow has its recorded bottleneck and that its recorded key. @return whether the
/// flow has diverged just now.
bool Replay::compare(Rewound& flow) {
  const std::uint32_t link = solver_.bottleneck(flow.slot);
  const Followed* group = recorded_.group(link);
  const bool diverged = link != recorded_.past_bottleneck(flow) || (group && group->diverged);
  if (diverged == flow.diverged) return false;
  flow.diverged = diverged;
  solver_.for_each_link(flow.slot, [&](std::uint32_t on) {
    flag(on, visited);
    diverged_on_[on] += diverged ? 1 : std::uint32_t(-1);
  });
  return diverged;
}

/// Notes whether a group has its recorded key. Calls visit(slot) for each of its flows that has
/// diverged just now.
template <class Visit>
void Replay::compare(Followed& group, Visit visit) {
  const bool diverged = solver_.key(group.link) != recorded_.past_key(group);
  if (diverged == group.diverged) return;
  group.diverged = diverged;
  solver_.for_each_in_group(group.link, [&](Slot slot) {
    if (Rewound* flow = recorded_.flow(slot); flow && compare(*flow)) visit(slot);
  });
}

bool Replay::rewind_affected(Ps at) {
  for (const MaxMin::Move& move : solver_.moves()) {
    const Rewound* flow = recorded_.flow(move.flow);
    const std::uint32_t past = flow ? recorded_.past_bottleneck(*flow) : move.from;
    if (solver_.bottleneck(move.flow) != past) note_affected(move.flow, move.from, at);
  }
  for (const std::uint32_t link : solver_.shifts()) {
    const Followed* group = recorded_.group(link);
    const FillingKey past = group ? recorded_.past_key(*group) : solver_.key_before(link);
    const bool all_diverged = solver_.key(link) != past;
    solver_.for_each_in_group(link, [&](Slot slot) {
      const Rewound* flow = recorded_.flow(slot);
      if (all_diverged || (flow && flow->diverged)) note_affected(slot, link, at);
    });
  }
  for (const Slot slot : newly_diverged_) note_affected(slot, solver_.bottleneck(slot), at);
  bool any = false;
  for (const std::uint32_t link : affected_) {
    const Ps until = histories_[link].first_below(at, solver_.margin(link) + excess_[link]);
    if (until <= at) {
      rewind_link(link, at);
      any = true;
    } else if (until != LinkHistory::never) {
      recorded_.schedule(until, Recorded::link_due + link);
    }
  }
  if (any) forget_affected();
  return any;
}

/// Notes those of a flow's links that are past `at`, and by how much the flow exceeds what their
/// histories allow for.
/// @param from  the flow's bottleneck before the instant, for a flow that is not in the replay
void Replay::note_affected(Slot slot, std::uint32_t from, Ps at) {
  const Rewound* flow = recorded_.flow(slot);
  const double counted = !flow            ? recorded_.least_rate(slot, from)
                         : flow->detached ? flow->counted
                                          : recorded_.least_rate(*flow);
  const double rate = solver_.rate(slot);
  solver_.for_each_use(slot, [&](std::uint32_t link, double amount) {
    if (solver_.stamp(link) < at) return;
    if (!(flags_[link] & affected)) affected_.push_back(link);
    flag(link, affected);
    if (rate > counted)
      excess_[link] += solver_.units(link, rate, amount) - solver_.units(link, counted, amount);
  });
}

void Replay::allow_for_affected(Ps at) {
  for (const std::uint32_t link : affected_) histories_[link].lower_from(at, excess_[link]);
  forget_affected();
  const auto allow_for = [&](Slot slot) {
    Rewound* flow = recorded_.flow(slot);
    if (!flow) return;
    compare(*flow);
    if (flow->diverged) flow->counted = std::max(flow->counted, solver_.rate(slot));
  };
  for (const std::uint32_t link : solver_.shifts()) {
    Followed* group = recorded_.group(link);
    if (!group) continue;
    compare(*group, [](Slot) {});
    solver_.for_each_in_group(link, allow_for);
  }
  for (const MaxMin::Move& move : solver_.moves()) allow_for(move.flow);
  for (const Slot slot : newly_diverged_) allow_for(slot);
}

void Replay::forget_affected() {
  for (const std::uint32_t link : affected_) {
    excess_[link] = 0;
    flags_[link] &= static_cast<std::uint8_t>(~affected);
  }
  affected_.clear();
}

/// What the history of a link holds of the link as it is now.
inline std::int64_t Replay::state_of(std::uint32_t link) const {
  return solver_.open(link) ? solver_.residual(link) : LinkHistory::closed;
}

void Replay::note_states(Ps at) {
  const auto touched = solver_.touched_links();
  for (std::size_t i = 0; i < touched.size(); ++i) {
    constexpr std::size_t ahead = 8;  // memory is asked for
    if (i + ahead < touched.size()) __builtin_prefetch(&histories_[touched[i + ahead]], 1);
    note_state(touched[i], at);
  }
}

inline void Replay::note_state(std::uint32_t link, Ps at) {
  if (solver_.stamp(link) >= at) return;  // not rewound, see allow_for_affected()
  histories_[link].push(at, state_of(link), flows_.committed());
  if (!active() || !(flags_[link] & rewound)) solver_.set_stamp(link, at);
}

void Replay::note_all_states() {
  for (std::uint32_t link = 0; link < histories_.size(); ++link)
    histories_[link] = LinkHistory{state_of(link)};
}

void Replay::forget_from(std::uint32_t link, Ps at) {
  if (solver_.stamp(link) < at) return;
  histories_[link].forget_after(at - 1);
  solver_.set_stamp(link, at - 1);
}

std::size_t Replay::history_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const LinkHistory& history : histories_) bytes += history.bytes();
  return bytes;
}

}  // namespace phantora::network
