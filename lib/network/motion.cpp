#include "network/motion.hpp"

#include "network/recorded.hpp"

#include <algorithm>
#include <limits>

namespace phantora::network {

void Motion::find_due(Ps at, std::vector<Slot>& due) {
  due.clear();
  ends_.for_each_at(at, [&](std::uint32_t link) {
    stale(link);
    const Service now = service_at(link, at);
    const Work enough = slack(pace_at(link));
    solver_.for_each_in_group(link, [&](Slot slot) {
      if (counts(slot, link) && left_until(flows_.progress(slot).mark, now) <= enough)
        due.push_back(slot);
    });
  });
  cap_ends_.for_each_at(at, [&](Slot slot) { due.push_back(slot); });
  // By id: groups keep their flows in no order that means anything.
  std::sort(due.begin(), due.end(),
            [&](Slot a, Slot b) { return flows_.identity(a).id < flows_.identity(b).id; });
}

void Motion::take_over(Ps at) {
  // All flows that move leave before any group moves on.
  for (const MaxMin::Move& move : solver_.moves()) {
    const std::uint32_t to = solver_.bottleneck(move.flow);
    if (to != move.from && to != MaxMin::none) leave_group(move.flow, move.from, at);
  }
  for (const std::uint32_t link : solver_.shifts())
    if (solver_.key(link) != solver_.key_before(link)) shift(link, at);
  for (const MaxMin::Move& move : solver_.moves()) {
    const std::uint32_t to = solver_.bottleneck(move.flow);
    // A flow that stays in a link's group is counted with the group, in shift(). One that stays
    // at its own cap has the rate of that cap, which may have changed.
    if (to != move.from || to == MaxMin::own_cap) count_rate_change(move, to);
    if (to != move.from) {
      if (to != MaxMin::none) join_group(move.flow, to, at);
    } else if (to == MaxMin::own_cap && !(replayed_ && replayed_->in_step(move.flow))) {
      find_cap_end(move.flow);
    }
  }
}

/// Gives a group the pace of its link's new key.
void Motion::shift(std::uint32_t link, Ps at) {
  const FillingKey before = solver_.key_before(link);
  record_shift(link, before, at);
  Group& group = groups_[link];
  group.service = group.service_at(at);
  group.since = at;
  group.pace = pace_of(solver_.key(link));
  stale(link);
  if (solver_.key(link).level != before.level) statistics_.rate_changes += solver_.group_size(link);
}

/// shift() has counted every flow of the group; one that joined at this event must not count
/// twice.
void Motion::count_rate_change(const MaxMin::Move& move, std::uint32_t to) {
  if (to < MaxMin::own_cap && solver_.key(to).level != solver_.key_before(to).level)
    --statistics_.rate_changes;
  statistics_.rate_changes += solver_.rate(move.flow) != solver_.rate_before(move.flow, move.from);
}

void Motion::leave_group(Slot slot, std::uint32_t from, Ps at) {
  const Service mark = flows_.progress(slot).mark;
  flows_.progress(slot).mark = static_cast<Service>(record_move(slot, from, at));
  if (from < MaxMin::own_cap) {
    Group& group = groups_[from];
    if (mark == group.first) group.first_known = false;
    stale(from);
  } else if (from == MaxMin::own_cap) {
    drop_cap_end(slot);
  }
}

/// Puts a flow whose mark is the work that is left into a group at `at`, the present instant.
void Motion::join_group(Slot slot, std::uint32_t to, Ps at) {
  Progress& progress = flows_.progress(slot);
  if (to == MaxMin::own_cap) {
    find_cap_end(slot);
    return;
  }
  progress.mark += service_at(to, at);
  Group& group = groups_[to];
  if (left_until(progress.mark, group.first) < 0) group.first = progress.mark;
  stale(to);
}

void Motion::rebase_at_cap(Slot slot, Ps at) {
  flows_.progress(slot).mark = static_cast<Service>(record_move(slot, MaxMin::own_cap, at));
}

void Motion::find_cap_end(Slot slot) {
  const Progress& progress = flows_.progress(slot);
  const bool at_once = solver_.cap(slot) == std::numeric_limits<double>::infinity();
  cap_ends_.set(
      slot, at_once ? progress.since
                    : end_after(progress.since, static_cast<Work>(progress.mark), cap_pace(slot)));
}

void Motion::find_ends(Ps at) {
  for (const std::uint32_t link : stale_) {
    groups_[link].stale = false;
    find_end(link, at);
  }
  stale_.clear();
}

void Motion::find_end(std::uint32_t link, Ps at) {
  Group& group = groups_[link];
  if (replayed_) {
    replayed_->note_found(link);
    group.first_known = false;
  }
  const Service now = service_at(link, at);
  if (!group.first_known) {
    Work least = 0;
    solver_.for_each_in_group(link, [&](Slot slot) {
      if (!counts(slot, link)) return;
      const Work left = left_until(flows_.progress(slot).mark, now);
      if (!group.first_known || left < least) least = left;
      group.first_known = true;
    });
    group.first = now + static_cast<Service>(least);
  }
  ends_.set(link,
            group.first_known ? end_after(at, left_until(group.first, now), pace_at(link)) : none);
}

Service Motion::service_at(std::uint32_t link, Ps at) const {
  return replayed_ ? replayed_->service_at(link, at) : groups_[link].service_at(at);
}
/// The pace of a group from the present instant on.
inline Work Motion::pace_at(std::uint32_t link) const {
  return replayed_ ? replayed_->pace_at(link) : groups_[link].pace;
}
/// Whether this flow's end has to be looked for.
inline bool Motion::counts(Slot slot, std::uint32_t link) const {
  return !replayed_ || replayed_->counts(slot, link);
}

/// Journals the flow's bottleneck before it leaves its group at `at`, and rebases its progress to
/// `at`. @return the work that is left of the flow.
Work Motion::record_move(Slot slot, std::uint32_t from, Ps at) {
  if (replayed_) replayed_->part(slot, from);
  Progress& progress = flows_.progress(slot);
  Work left = static_cast<Work>(progress.mark);
  if (from < MaxMin::own_cap) {
    left = left_until(progress.mark, service_at(from, at));
  } else if (from == MaxMin::own_cap) {
    left -= cap_pace(slot) * (at - progress.since);
  }
  // One record tells of an instant, however often that changes the flow.
  if (progress.since != at || !records_.moves.keeps(progress.last)) {
    progress.record(records_.moves.push({slot, from}, at, progress.last, at - progress.since));
    progress.since = at;
  }
  return left;
}

/// Journals the key of a link before it changes at `at`.
void Motion::record_shift(std::uint32_t link, FillingKey key, Ps at) {
  if (replayed_) replayed_->part(link, key);
  Group& group = groups_[link];
  if (group.since != at || !records_.shifts.keeps(group.last))
    group.last = records_.shifts.push({link, key}, at, group.last, at - group.since);
}

void Motion::begin(Slot slot, Ps at, State becomes) {
  Progress& progress = flows_.progress(slot);
  progress.record(records_.moves.push({slot, MaxMin::none}, at, 0, 0));
  progress.since = at;
  progress.become(becomes);
}

}  // namespace phantora::network
