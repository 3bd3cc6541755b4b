// What MaxMin does to links when flows, caps and capacities come, go or change.
#include "network/max_min.hpp"

#include <algorithm>
#include <cmath>

namespace phantora {

using namespace filling;

MaxMin::MaxMin(std::span<const Bandwidth> capacities)
    : FillingState{capacities},
      queue_{capacities.size()},
      changes_(scales_.size()),
      assigned_(capacities.size()) {
  settle();
}

/// Prefetches what a flow that comes or goes looks at of its links, `ahead` links before it does.
class MaxMin::Walk {
 public:
  Walk(const MaxMin& solver, const Word* uses, std::uint32_t count)
      : solver_{solver}, uses_{uses}, count_{count} {
    for (std::uint32_t i = 0; i < std::min(distance, count); ++i) prefetch(i);
  }
  /// Says that the flow has come to one of its uses.
  void at(std::uint32_t use) const noexcept {
    if (use + distance < count_) prefetch(use + distance);
  }

 private:
  static constexpr std::uint32_t distance = 2 * ahead;
  void prefetch(std::uint32_t use) const noexcept {
    const std::uint32_t link = uses_[use].use.link;
    __builtin_prefetch(&solver_.links_[link], 1);
    __builtin_prefetch(&solver_.flows_of_[link], 1);
  }
  const MaxMin& solver_;
  const Word* uses_;
  std::uint32_t count_;
};

void MaxMin::join_links(Slot slot, Then then) {
  Flow& flow = flows_.at(slot);
  Terms& flow_terms = flows_.terms_of(flow);
  flow.present = 1;
  const bool is_long = flows_.is_long(flow);
  if (is_long) {
    ++long_flows_;
    flow_terms.least_allowance = std::numeric_limits<float>::infinity();
    flow_terms.allowances.assign(flow.count, flow_terms.least_allowance);
  }
  const Word* uses = flows_.uses_of(slot);
  const Walk walk{*this, uses, is_long ? std::uint32_t{flow.count} : 0};
  for (std::uint32_t i = 0; i < flow.count; ++i) {
    walk.at(i);
    Use& use = flows_.uses_of(slot)[i].use;
    Link& link = links_[use.link];
    ShortList<Entry>& entries = flows_of_[use.link];
    const double amount = flow_terms.amount_on(i);
    enter(use.link);
    use.position = static_cast<std::uint32_t>(entries.size());
    entries.push_back(flows_.entry_of(slot, i));
    if (is_long && i + ahead < flow.count) {
      // The flow that makes room for this one.
      const std::uint32_t next = uses[i + ahead].use.link;
      const ShortList<Entry>& there = flows_of_[next];
      if (const std::uint32_t own = links_[next].own; own < there.size())
        __builtin_prefetch(&flows_.uses_of(there[own].flow)[there[own].use], 1);
    }
    take(use);
    link.capped |= flow_terms.capped();
    link.weight += fixed_weight(amount, flow_terms.shares);
    if (is_long && !link.eased) flow_terms.exact.push_back({i, use.link, amount});
    if (then == Then::evaluate) touch(use.link, Effect::lowers);
  }
}

void MaxMin::leave_links(Slot slot, Then then) {
  Flow& flow = flows_.at(slot);
  Terms& flow_terms = flows_.terms_of(flow);
  const bool is_long = flows_.is_long(flow);
  const std::uint32_t bottleneck = bottlenecks_[slot];
  const double old_rate = rate(slot);
  const Word* uses = flows_.uses_of(slot);
  const Walk walk{*this, uses, is_long ? std::uint32_t{flow.count} : 0};
  for (std::uint32_t i = 0; i < flow.count; ++i) {
    walk.at(i);
    Use& use = flows_.uses_of(slot)[i].use;
    Link& link = links_[use.link];
    enter(use.link);
    if (bottleneck == none || bottleneck == use.link) {
      leave_to_others(use, 0.0);
      link.weight -= fixed_weight(flow_terms.amount_on(i), flow_terms.shares);
    } else {
      const double counted = is_long && link.eased ? double{flow_terms.allowances[i]} : old_rate;
      link.residual += fixed_load(link.scale, counted, flow_terms.amount_on(i));
    }
    ShortList<Entry>& entries = flows_of_[use.link];
    if (i + ahead < flow.count) {
      const Entry end = flows_of_[uses[i + ahead].use.link].back();
      __builtin_prefetch(&flows_.uses_of(end.flow)[end.use], 1);
    }
    const Entry last = entries.back();
    entries[use.position] = last;
    flows_.uses_of(last.flow)[flows_.use_on(use.link, last)].use.position = use.position;
    entries.pop_back();
    if (then == Then::evaluate) touch(use.link, Effect::raises);
  }
  leave_group(slot);
  flow.present = 0;
  if (!is_long) return;
  --long_flows_;
  flow_terms.exact.clear();
}

void MaxMin::insert(Slot slot) {
  note_move(slot);
  join_links(slot, Then::evaluate);
  // A flow without links is stopped by its cap alone.
  if (flows_.at(slot).count == 0) join_group(slot, own_cap);
}

void MaxMin::remove(Slot slot) {
  note_move(slot);
  leave_links(slot, Then::evaluate);
}

void MaxMin::set_cap(Slot slot, double cap) {
  if (!flows_.at(slot).present) {
    flows_.own_terms(slot).cap = cap;
    return;
  }
  const std::uint32_t bottleneck = bottlenecks_[slot];
  const bool may_stop_at_cap =
      bottleneck != none && flows_.at(slot).terms != 0 && std::isfinite(cap);
  if (!may_stop_at_cap) {
    note_move(slot);
    leave_links(slot, Then::evaluate);
    note_cap(slot).cap = cap;
    join_links(slot, Then::evaluate);
    if (flows_.at(slot).count == 0) join_group(slot, own_cap);
    return;
  }
  const double rate_before = rate(slot);
  Terms& terms = note_cap(slot);
  terms.cap = cap;
  if (bottleneck < own_cap && keys_[bottleneck] < cap_key(terms)) {
    links_[bottleneck].capped = true;  // which stops the flow before the cap would
    return;
  }
  // Where a link has less for the flow than the cap, the link will say so.
  note_move(slot);
  reassign(slot, own_cap, rate_before, none, Then::evaluate);
  touch_assigned(cap_key(terms).level);
}

void MaxMin::set_capacity(std::uint32_t index, double capacity) {
  set_units(index, capacity);
  restored_ = true;  // unless solve() follows
  touch(index, Effect::lowers);
}

/// Notes what an assignment does to a link, unless the link is open and stays so.
inline void MaxMin::note_assigned(std::uint32_t index, Effect effect, double weight) {
  Link& link = links_[index];
  if (effect == Effect::lowers) link.floor = 0;
  if (surely_open(link)) return;
  Assigned& assigned = assigned_[index];
  if (!assigned.any) {
    assigned.any = true;
    assigned_links_.push_back(index);
  }
  assigned.effect = std::max(assigned.effect, effect);
  if (effect == Effect::lowers) assigned.raised += weight;
}

/// Gives a flow another bottleneck, and accounts for that on the flow's links. `by` is the link
/// that is being evaluated and needs no second look.
void MaxMin::assign(Slot slot, std::uint32_t bottleneck, std::uint32_t by, Then then) {
  reassign(slot, bottleneck, rate(slot), by, then);
}

/// The same, where the flow's links count it with another rate than its cap now says.
void MaxMin::reassign(Slot slot, std::uint32_t bottleneck, double rate_before, std::uint32_t by,
                      Then then) {
  const Terms& flow_terms = flows_.terms(slot);
  const std::uint32_t from = bottlenecks_[slot];
  const bool filling = from == none;
  leave_group(slot);
  join_group(slot, bottleneck);
  const FillingKey key = key_of(slot);
  Word* uses = flows_.uses_of(slot);
  const auto count = [&](std::uint32_t i, std::uint32_t index, double amount, double before,
                         double now) __attribute__((always_inline)) {
    const bool was_weight = filling || from == index;
    const bool is_weight = bottleneck == index;
    if (was_weight && is_weight) return;
    Link& link = links_[index];
    enter(index);
    const std::int64_t change = (was_weight ? 0 : fixed_load(link.scale, before, amount)) -
                                (is_weight ? 0 : fixed_load(link.scale, now, amount));
    link.residual += change;
    if (was_weight == is_weight) {
      link.others = std::max(link.others, static_cast<float>(key.level));
    } else if (is_weight) {
      take(uses[i].use);
      link.capped |= flow_terms.capped();
      link.weight += fixed_weight(amount, flow_terms.shares);
    } else {
      leave_to_others(uses[i].use, key.level);
      link.weight -= fixed_weight(amount, flow_terms.shares);
    }
    if (index == by || then == Then::leave) return;
    // A flow that stops elsewhere before this link saturates leaves more to the others.
    note_assigned(index,
                  filling                    ? Effect::stops
                  : was_weight || change > 0 ? Effect::raises
                                             : Effect::lowers,
                  amount * flow_terms.shares);
  };
  account(slot, filling, rate_before, rate_at(flow_terms, key), count);
}

/// Gives a link another key, and accounts for that on the other links that its group uses.
void MaxMin::shift(std::uint32_t index, FillingKey key, Then then) {
  const FillingKey old = std::exchange(keys_[index], key);
  const Group& group = groups_[index];
  if (group.flows == 0) return;
  const double from = old.filling() ? 0 : old.level, to = key.filling() ? 0 : key.level;
  const auto level = static_cast<float>(to);
  // Links have few different scales: one rounding for each serves all of them.
  for (std::size_t i = 0; i < scales_.size(); ++i)
    changes_[i] = fixed_load(scales_[i], from, 1) - fixed_load(scales_[i], to, 1);
  const Effect effect = to < from ? Effect::raises : Effect::lowers;
  const auto count = [&](std::uint32_t on, std::uint64_t flows, std::int64_t change,
                         double weight) {
    Link& link = links_[on];
    enter(on);
    // In a state on the way to the solution the sum over many flows may overflow; it wraps back.
    link.residual = static_cast<std::int64_t>(static_cast<std::uint64_t>(link.residual) +
                                              flows * static_cast<std::uint64_t>(change));
    link.others = std::max(link.others, level);
    if (then == Then::evaluate) note_assigned(on, effect, weight);
  };
  touched_incidences_ += group.crossings.size();
  const Crossings& crossings = group.crossings;
  for (std::size_t i = 0; i < crossings.size(); ++i) {
    if (i + ahead < crossings.size()) __builtin_prefetch(&links_[crossings[i + ahead].link], 1);
    const Crossing& it = crossings[i];
    count(it.link, it.flows, changes_[links_[it.link].scale_index], it.flows);
  }
  if (group.unusual == 0) return;
  const std::uint32_t own = links_[index].own;
  for (std::uint32_t i = 0; i < own; ++i) {
    if (i + 2 < own) flows_.prefetch(flows_of_[index][i + 2].flow);
    if (i + 1 < own) flows_.prefetch_terms(flows_of_[index][i + 1].flow);
    const Slot slot = flows_of_[index][i].flow;
    if (flows_.at(slot).terms == 0 || bottlenecks_[slot] != index) continue;
    const Terms& flow_terms = flows_.terms(slot);
    const double rate_before = rate_at(flow_terms, old), rate_now = rate_at(flow_terms, key);
    // By its cap it takes less than others at this level.
    const double shares = rate_now < to * flow_terms.shares ? 0 : flow_terms.shares;
    account(slot, false, rate_before, rate_now,
            [&](std::uint32_t, std::uint32_t on, double amount, double before, double now) {
              ++touched_incidences_;
              if (on == index) return;
              const double scale = links_[on].scale;
              count(on, 1, fixed_load(scale, before, amount) - fixed_load(scale, now, amount),
                    amount * shares);
            });
  }
}

void MaxMin::settle() {
  // What was restored may be allowed more than an eased link has.
  for (std::size_t i = 0; restored_ && i < touched_count_; ++i) {
    const std::uint32_t link = touched_[i];
    if (links_[link].eased && !surely_open(links_[link])) count_exactly(link);
  }
  clear_notes();
  queue_.clear();
  depth_limit_ = first_depth_limit;
  guessed_ = restored_ = false;
}

}  // namespace phantora
