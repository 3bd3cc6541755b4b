// What happens to a network at an instant: the flows whose last byte leaves end, what the caller
// has told is applied, MaxMin solves, and flows and groups take that over.
//
// Lines that ask replay_ and undo_from() matter to callers who change the past. Where time only
// goes forward, replay_ is never active.
#include "network/flow_network_impl.hpp"

#include <algorithm>

namespace phantora {

using namespace network;

Ps FlowNetwork::Impl::next_instant() const noexcept {
  return std::min({pending_.empty() ? none : pending_.front().at, motion_.next_end(),
                   replay_.active() ? recorded_.next() : none});
}

/// Makes the present consistent with changes told about the past.
void FlowNetwork::Impl::catch_up() {
  if (!pending_.empty() && pending_.front().at < now_) run(now_);
}

void FlowNetwork::Impl::run(Ps until) {
  if (!pending_.empty() && pending_.front().at <= std::min(until, last_instant_)) {
    ++statistics_.rollbacks;
    const bool by_difference =
        !undo_for_late_ && std::max(last_other_, unnoted_) < pending_.front().at;
    if (only_caps_are_late()) {
      go_on_at_last_instant();
    } else if (reports_.wanted() || !selective_ || !by_difference) {
      undo_from(pending_.front().at);
    }
  }
  for (;;) {
    const Ps next = next_instant();
    if (replay_.active() && next > replay_.end()) {
      replay_.finish();
    } else if (next <= until) {
      execute(next);
    } else {
      return;
    }
  }
}

/// Whether all that is late are caps at the last instant, and nobody is told of rates or loads: the
/// instant goes on where it stopped. Caps come after all else that is told of an instant, and what
/// flows do does not depend on how it was come to; so a Session, whose kernels slow messages down
/// as of the instant at which others have ended, has no instant executed twice.
bool FlowNetwork::Impl::only_caps_are_late() {
  if (replay_.active() || links_changed_) return false;
  reports_.ask();
  if (!reports_.wanted() || reports_.rates_wanted() || reports_.loads_wanted()) return false;
  // From the top of the heap: what is below an input that is not late is not late either.
  const auto is_cap = [&](auto self, std::size_t place) -> bool {
    if (place >= pending_.size() || pending_[place].at > last_instant_) return true;
    const Input& input = pending_[place];
    return input.at == last_instant_ && input.kind == Kind::cap && self(self, 2 * place + 1) &&
           self(self, 2 * place + 2);
  };
  return is_cap(is_cap, 0);
}

void FlowNetwork::Impl::go_on_at_last_instant() {
  const Ps at = last_instant_;
  solver_.set_instant(at + 1);  // links that this instant has touched are in its state, not beyond
  while (!pending_.empty() && pending_.front().at == at) {
    Input input = take_input();
    if (apply(input)) applied_.push(input);
  }
  ++statistics_.events;
  ++statistics_.replayed_events;
  solve(at);
  motion_.find_ends(at);
  leave_unnoted(at);
  solver_.settle();
  undo_for_late_ = false;
}

void FlowNetwork::Impl::execute(Ps at) {
  if (at <= last_instant_ && !replay_.active()) replay_.begin(at, last_instant_);
  solver_.set_instant(at);
  reports_.ask();
  const bool noted = !reports_.wanted() || replay_.active();
  if (noted && !std::exchange(states_noted_, true)) replay_.note_all_states();
  solver_.tell_of_all(reports_.loads_wanted());
  motion_.find_due(at, due_);
  bool changes = replay_.active() && replay_.follow_record(at, due_);
  changes |= !due_.empty();
  for (const Slot slot : due_) end(slot, at, State::finished);
  links_changed_ = false;
  while (!pending_.empty() && pending_.front().at == at) {
    Input input = take_input();
    if (apply(input)) applied_.push(input);
    changes = true;
  }
  if (links_changed_) routes_.reroute(at);
  if (changes) {
    ++statistics_.events;
    statistics_.replayed_events += at <= last_instant_;
    solve(at);
  }
  motion_.find_ends(at);
  if (noted) {
    replay_.note_states(at);
  } else {
    leave_unnoted(at);
  }
  const auto settle = [&] {
    solver_.settle();
    last_instant_ = std::max(last_instant_, at);
  };
  try {
    if (reports_.wanted()) reports_.event(at);
  } catch (...) {
    settle();
    throw;
  }
  settle();
}

/// Says that nothing is noted of links' states at an instant. While there are observers, nothing is
/// replayed by difference, so that nobody would ask for them.
void FlowNetwork::Impl::leave_unnoted(Ps at) {
  unnoted_ = at;
  states_noted_ = false;
}

void FlowNetwork::Impl::solve(Ps at) {
  for (;;) {
    if (const auto link = solver_.solve()) {
      replay_.rewind_link(*link, at);
    } else if (!replay_.active() || !replay_.rewind_affected(at)) {
      break;
    }
  }
  statistics_.touched_incidences = solver_.touched_incidences();
  motion_.take_over(at);
  if (replay_.active()) replay_.allow_for_affected(at);
}

/// Takes a flow out of the network, for good unless undone.
void FlowNetwork::Impl::end(Slot slot, Ps at, State how) {
  if (solver_.present(slot)) {
    motion_.leave_group(slot, solver_.bottleneck(slot), at);
    solver_.remove(slot);
    flows_.progress(slot).become(how);
  } else {
    motion_.begin(slot, at, State::withdrawn);
  }
  motion_.note_end(slot);
}

/// @return whether the input is to be kept for take_back(); of a start the journal says enough.
bool FlowNetwork::Impl::apply(Input& input) {
  if (input.kind != Kind::start) last_other_ = std::max(last_other_, input.at);
  if (input.kind == Kind::capacity) {
    apply_capacity(input);
    return true;
  }
  const auto slot = flows_.slot_of(input.id);
  if (!slot) return true;
  if (replay_.active() && input.kind == Kind::cancel) replay_.part_from_past(*slot, input.at);
  const Progress& progress = flows_.progress(*slot);
  switch (input.kind) {
    case Kind::start:
      if (progress.state() == State::withdrawn) break;
      motion_.begin(*slot, input.at, State::running);
      routes_.choose(*slot, input.at);
      solver_.insert(*slot);
      return false;
    case Kind::cancel:
      if (!progress.ended()) end(*slot, input.at, State::cancelled);
      break;
    case Kind::cap:
      input.previous = solver_.cap(*slot);
      // Once, where several change it at one instant: of the first it may have left a group, which
      // motion_ does not know yet.
      if (solver_.bottleneck(*slot) == MaxMin::own_cap && !solver_.moved(*slot))
        motion_.rebase_at_cap(*slot, input.at);
      solver_.set_cap(*slot, input.value);
      break;
    case Kind::capacity:
      break;
  }
  return true;
}

void FlowNetwork::Impl::apply_capacity(Input& input) {
  const auto link = static_cast<std::uint32_t>(input.id);
  if (solver_.stamp(link) >= input.at) replay_.rewind_capacity(link, input.at);
  input.previous = solver_.capacity(link);
  solver_.set_capacity(link, input.value);
  const bool was_up = input.previous > 0, is_up = input.value > 0;
  if (was_up == is_up) return;
  routes_.set_down(link, was_up);
  links_changed_ = true;
}

}  // namespace phantora
