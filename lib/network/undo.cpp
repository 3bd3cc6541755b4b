// How a network takes back all since an instant.
#include "network/flow_network_impl.hpp"

#include <phantora/error.hpp>

#include <algorithm>

namespace phantora {

using namespace network;

/// Whether a change told late, other than a start, can be replayed without undoing all since.
bool FlowNetwork::Impl::replays_by_difference(Kind kind, Ps at, std::uint64_t id,
                                              double value) const {
  // Links are evaluated where flows have diverged; nothing would evaluate those of a flow whose
  // record was made under another cap.
  if (kind == Kind::cap) return false;
  if (kind == Kind::capacity)
    return value > 0 && solver_.capacity(static_cast<std::uint32_t>(id)) > 0;
  // A flow whose start is to come has nothing yet to be taken back to.
  const Progress& progress = flows_.progress(*flows_.slot_of(id));
  if (progress.state() == State::not_started) return false;
  bool starts_later = false;
  records_.look_back(progress, at, [&](const Past& past) {
    starts_later |= records_.moves[past.record].bottleneck == MaxMin::none;
  });
  return !starts_later;
}

/// When a flow started; none if it did not. @throws CommitError if it started in committed time
Ps FlowNetwork::Impl::start_of(Slot slot) const {
  const Progress& progress = flows_.progress(slot);
  if (progress.state() == State::not_started || progress.state() == State::withdrawn) return none;
  Ps start = none;
  records_.look_back(progress, -1, [&](const Past& past) {
    if (records_.moves[past.record].bottleneck == MaxMin::none) start = past.at;
  });
  if (start != none) return start;
  throw CommitError{"a flow told since the checkpoint has started in committed time"};
}

/// Undoes everything from an instant on.
void FlowNetwork::Impl::undo_from(Ps at) {
  if (last_instant_ < at) return;
  Ps first = none;
  for (std::uint64_t i = applied_.end(); i-- > applied_.begin();) {
    if (applied_[i].at < at) continue;
    first = std::min(first, applied_[i].at);
    take_back(applied_[i]);
  }
  applied_.erase_if([&](const Input& input) { return input.at >= at; });
  routes_.undo_from(at, [&](std::uint32_t link) { forget_from(link, at); });
  first = std::min(first, undo_records(at));
  motion_.find_ends(at - 1);
  for (const std::uint32_t link : forgotten_) replay_.allow_for_eased(link);
  forgotten_.clear();
  solver_.settle();
  last_instant_ = at - 1;
  last_other_ = std::min(last_other_, last_instant_);
  if (at <= unnoted_) leave_unnoted(at - 1);
  undo_for_late_ = false;
  reports_.rollback(first);
}

/// Makes flows and groups what they were before `at`, and cuts the journals back. @return the
/// instant of the first record undone.
Ps FlowNetwork::Impl::undo_records(Ps at) {
  Ps first = none;
  auto& [moves, shifts] = records_;
  const std::uint64_t first_shift = shifts.first_since(at), first_move = moves.first_since(at);
  for (std::uint64_t i = first_shift; i <= shifts.end(); ++i)
    recorded_.follow(shifts[i].link, at - 1);
  const auto is_last_move = [&](std::uint64_t i) {
    return flows_.progress(records_.moves[i].slot).last == i;
  };
  for (std::uint64_t i = first_move; i <= moves.end(); ++i)
    if (is_last_move(i)) first = std::min(first, undo(moves[i].slot, at));
  for (std::size_t i = 0; i < recorded_.groups(); ++i) {
    const Followed& group = recorded_.group_at(i);
    first = std::min(first, group.future.back().at);
    undo(group, at);
  }
  recorded_.drop_groups();
  recorded_.clear_agenda();
  const auto cut = [&](auto& journal, std::uint64_t from, auto is_last) {
    std::uint64_t kept = journal.end();
    while (kept >= from && !is_last(kept)) --kept;
    journal.cut_back(kept, at - 1);
  };
  cut(moves, first_move, is_last_move);
  cut(shifts, first_shift,
      [&](std::uint64_t i) { return motion_.group(records_.shifts[i].link).last == i; });
  return first;
}

/// Makes a flow what it was before `at`. @return the instant of the first record undone.
Ps FlowNetwork::Impl::undo(Slot slot, Ps at) {
  const auto leave_or_join = [&](std::uint32_t bottleneck) {
    if (bottleneck < MaxMin::own_cap) motion_.forget_first(bottleneck);
  };
  const State state = flows_.progress(slot).state();
  leave_or_join(solver_.bottleneck(slot));
  recorded_.rewind(slot, at - 1);
  const Rewound* flow = recorded_.flow(slot);
  if (!flow) return none;
  const Ps next = flow->future.back().at;
  recorded_.take_back(*flow);
  recorded_.drop_last_flow();
  leave_or_join(solver_.bottleneck(slot));
  solver_.for_each_link(slot, [&](std::uint32_t link) { forget_from(link, at); });
  if (flows_.progress(slot).state() == State::not_started && state != State::withdrawn) {
    const std::uint64_t id = flows_.identity(slot).id;
    tell({.at = next, .order = id, .id = id, .kind = Kind::start});
  }
  return next;
}

/// Makes a group that has been followed back what it was before `at`.
void FlowNetwork::Impl::undo(const Followed& group, Ps at) {
  recorded_.take_back(group);
  motion_.forget_first(group.link);
  solver_.for_each_crossed(group.link, [&](std::uint32_t on) { forget_from(on, at); });
}

void FlowNetwork::Impl::take_back(const Input& input) {
  if (input.kind == Kind::capacity) {
    const auto link = static_cast<std::uint32_t>(input.id);
    const bool was_up = input.previous > 0, is_up = input.value > 0;
    solver_.set_capacity(link, input.previous);
    forget_from(link, input.at);
    if (was_up != is_up) routes_.set_down(link, is_up);
  } else if (input.kind == Kind::cap) {
    if (const auto slot = flows_.slot_of(input.id)) {
      (void)undo(*slot, input.at + 1);  // with the cap that the flow has had since
      solver_.restore_cap(*slot, input.previous);
    }
  }
  tell(input);
}

void FlowNetwork::Impl::forget_from(std::uint32_t link, Ps at) {
  forgotten_.push_back(link);
  replay_.forget_from(link, at);
}

}  // namespace phantora
