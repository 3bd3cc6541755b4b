#include "network/filling_state.hpp"

#include "network/room.hpp"

#include <phantora/error.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace phantora {

using namespace filling;

FillingState::FillingState(std::span<const Bandwidth> capacities)
    : links_(capacities.size()),
      flows_of_(capacities.size()),
      capacities_(capacities.size()),
      keys_(capacities.size()),
      groups_(capacities.size()),
      touched_(capacities.size() + 1) {
  PHANTORA_EXPECTS(capacities.size() < FillingKey::cap_link, "fewer than 2^24 links");
  for (std::uint32_t l = 0; l < links_.size(); ++l) {
    const double capacity = capacities[l].bytes_per_second();
    PHANTORA_EXPECTS(capacity > 0 && std::isfinite(capacity), "a capacity is positive and finite");
    links_[l].scale = std::ldexp(1.0, capacity_bits - 1 - std::ilogb(capacity));
    const auto known = std::find(scales_.begin(), scales_.end(), links_[l].scale);
    links_[l].scale_index = static_cast<std::uint16_t>(known - scales_.begin());
    if (known == scales_.end()) scales_.push_back(links_[l].scale);
    set_units(l, capacity);
  }
}

void FillingState::set_units(std::uint32_t index, double capacity) {
  Link& link = links_[index];
  PHANTORA_EXPECTS(capacity >= 0 && capacity * link.scale < max_load,
                   "a capacity is at most 16 times that which the link began with");
  const auto fixed = [&](double c) { return static_cast<std::int64_t>(c * link.scale); };
  enter(index);
  link.residual += fixed(capacity) - fixed(capacities_[index]);
  link.margin = static_cast<std::int32_t>(fixed(capacity * (10 * certain)));  // at most 2^26
  capacities_[index] = capacity;
}

FillingState::Slot FillingState::create(std::span<const LinkUse> uses, double shares, double cap) {
  const Slot slot = flows_.create(uses, shares, cap);
  if (slot == bottlenecks_.size()) {
    make_room(bottlenecks_, 1);
    bottlenecks_.push_back(none);
  }
  return slot;
}

void FillingState::join_group(Slot slot, std::uint32_t bottleneck) {
  bottlenecks_[slot] = bottleneck;
  if (bottleneck >= own_cap) return;
  Group& group = groups_[bottleneck];
  ++group.flows;
  const Flow& flow = flows_.at(slot);
  if (flow.terms != 0) {
    ++group.unusual;
    return;
  }
  const Word* uses = flows_.uses_of(slot);
  group.crossings.add(
      flow.count, [&](std::uint32_t i) { return uses[i].use.link; }, bottleneck, missing_);
}

void FillingState::leave_group(Slot slot) {
  const std::uint32_t bottleneck = std::exchange(bottlenecks_[slot], none);
  if (bottleneck >= own_cap) return;
  Group& group = groups_[bottleneck];
  --group.flows;
  const Flow& flow = flows_.at(slot);
  if (flow.terms != 0) {
    --group.unusual;
    return;
  }
  const Word* uses = flows_.uses_of(slot);
  group.crossings.remove(
      flow.count, [&](std::uint32_t i) { return uses[i].use.link; }, bottleneck);
}

void FillingState::count_exactly(std::uint32_t index) {
  enter(index);
  Link& link = links_[index];
  link.eased = false;
  --eased_count_;
  const ShortList<Entry>& entries = flows_of_[index];
  touched_incidences_ += entries.size();
  double others = 0;
  for (std::uint32_t i = 0; i < entries.size(); ++i) {
    const Entry entry = entries[i];
    const bool stopped_by_others = i >= link.own;
    if (stopped_by_others) others = std::max(others, key_of(entry.flow).level);
    if (!flows_.is_long(flows_.at(entry.flow))) continue;
    Terms& flow_terms = flows_.terms_of(flows_.at(entry.flow));
    const std::uint32_t use = flows_.use_on(index, entry);
    const double amount = flow_terms.amount_on(use);
    const double counted =
        std::exchange(flow_terms.allowances[use], std::numeric_limits<float>::infinity());
    flow_terms.exact.push_back({use, index, amount});
    if (!stopped_by_others) continue;
    link.residual +=
        fixed_load(link.scale, counted, amount) - fixed_load(link.scale, rate(entry.flow), amount);
  }
  link.others = std::max(link.others, static_cast<float>(others));
}

void FillingState::ease_touched() {
  // A link is eased if a 16th of its capacity is left: as many times its margin. With an 8th, a
  // quarter more rates are looked at on all_reduces_on_8192 of network_bench.
  constexpr double least_room = 1.0 / 16 / (10 * certain);
  // The last first, as ease() looks for them.
  for (std::size_t i = touched_count_; i-- > 0;) {
    const std::uint32_t index = touched_[i];
    const Link& link = links_[index];
    if (!link.eased && link.weight == 0 &&
        static_cast<double>(link.residual) > least_room * link.margin)
      ease(index);
  }
}

/// Deals out to the long flows of a link a part of what they leave.
void FillingState::ease(std::uint32_t index) {
  constexpr double dealt = 0.5;  // with 0.9 a tenth more rates are looked at there
  Link& link = links_[index];
  const ShortList<Entry>& entries = flows_of_[index];
  touched_incidences_ += entries.size();
  std::int64_t load = 0;
  for (const Entry entry : entries) {
    if (flows_.is_long(flows_.at(entry.flow)))
      load += fixed_load(link.scale, rate(entry.flow),
                         flows_.terms(entry.flow).amount_on(flows_.use_on(index, entry)));
  }
  const double times =
      load == 0 ? 1 : 1 + dealt * static_cast<double>(link.residual) / static_cast<double>(load);
  for (const Entry entry : entries) {
    if (!flows_.is_long(flows_.at(entry.flow))) continue;
    Terms& flow_terms = flows_.terms_of(flows_.at(entry.flow));
    const std::uint32_t use = flows_.use_on(index, entry);
    const double amount = flow_terms.amount_on(use), now = rate(entry.flow);
    float& allowance = flow_terms.allowances[use];
    allowance = rounded_up(now * times);
    flow_terms.least_allowance = std::min(flow_terms.least_allowance, allowance);
    link.residual +=
        fixed_load(link.scale, now, amount) - fixed_load(link.scale, allowance, amount);
    // From the end: a new flow's links are eased in the opposite order of their uses.
    std::vector<ExactUse>& exact = flow_terms.exact;
    *std::find_if(exact.rbegin(), exact.rend(),
                  [&](const ExactUse& known) { return known.link == index; }) = exact.back();
    exact.pop_back();
  }
  link.eased = true;
  ++eased_count_;
}

double FillingState::load(std::uint32_t index) const {
  std::int64_t sum = 0;
  for (const Entry entry : flows_of_[index])
    sum += fixed_load(links_[index].scale, rate(entry.flow),
                      flows_.terms(entry.flow).amount_on(flows_.use_on(index, entry)));
  return static_cast<double>(sum) / links_[index].scale;
}

double FillingState::weight(std::uint32_t index) const {
  Int128 sum = 0;
  for (const Entry entry : flows_of_[index])
    sum += fixed_weight(flows_.terms(entry.flow).amount_on(flows_.use_on(index, entry)),
                        flows_.terms(entry.flow).shares);
  return to_double(sum) / weight_scale;
}

}  // namespace phantora
