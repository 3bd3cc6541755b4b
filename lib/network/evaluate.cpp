// MaxMin's search for a state in which all links agree: solve(), and what one link does.
#include "network/max_min.hpp"

#include <algorithm>
#include <bit>

namespace phantora {

using namespace filling;

namespace {

// Levels this close (relative) are taken for equal: far above the rounding of one division and the
// quantisation of loads, far below anything that could be measured.
constexpr double tie = 1e-12;
// Levels this far apart (relative) differ in single precision too.
constexpr double rough = 1e-6;

// A link with as few flows is not put back behind others that come before its key: should they
// change its flows, to look at these again costs less than to find every key twice. (Pipelines on
// 1,024 GPUs evaluate a quarter fewer links so.)
constexpr std::size_t few_flows = 4;

/// Where a link waits that is to saturate at a key. Among equals the shallower comes first, and a
/// link that stops no flow so far comes after those that may keep theirs: a few units in the last
/// place say so to the queue.
double place_of(FillingKey key, bool stops_none) noexcept {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(key.level) + key.depth() +
                               (stops_none ? 1 : 0));
}

}  // namespace

/// The level at which a link saturates that has one flow, if nothing stops that below. At present
/// the flow stops at a key elsewhere.
double MaxMin::level_alone(std::uint32_t index, FillingKey key) const noexcept {
  const Link& link = links_[index];
  const Entry entry = flows_of_[index].front();
  const Terms& flow_terms = flows_.terms(entry.flow);
  const double amount = flow_terms.amount_on(flows_.use_on(index, entry));
  return level(link, link.residual + fixed_load(link.scale, rate_at(flow_terms, key), amount),
               fixed_weight(amount, flow_terms.shares));
}

/// A lower bound of the level at which a link saturates that stops no flow so far.
///
/// Should the link saturate at a level x, then what flows above x take beyond it adds up to the
/// overload at most. So x >= level - overload / weight, for the weight of all flows of one level.
double MaxMin::open_bound(std::uint32_t index, double level, double weight) const noexcept {
  const Link& link = links_[index];
  if (static_cast<double>(link.residual) < -max_load / 2) return 0;  // a load may have been cut
  // Of the links of a flow that is alone on them many may tie. Each is evaluated once if it waits
  // at its place from the start.
  if (flows_of_[index].size() == 1)
    return place_of({level_alone(index, key_of(flows_of_[index].front().flow)), index}, true);
  const double overload = std::max(0.0, -static_cast<double>(link.residual)) / link.scale;
  double bound = weight > 0 ? level - overload / weight : 0.0;
  if (!flows_of_[index].empty()) {
    // The first flow, which had the greatest level when the link was last evaluated.
    const Entry first = flows_of_[index].front();
    const Terms& flow_terms = flows_.terms(first.flow);
    bound = std::max(bound, rate_at(flow_terms, key_of(first.flow)) / flow_terms.shares -
                                overload / (flow_terms.amount_on(flows_.use_on(index, first)) *
                                            flow_terms.shares));
  }
  return std::max(0.0, bound * (1 - certain));
}

/// Has the links evaluated on which flows have been assigned to a level.
void MaxMin::touch_assigned(double level) {
  for (const std::uint32_t index : assigned_links_) {
    Assigned& assigned = assigned_[index];
    touch(index, assigned.effect, level, assigned.raised);
    assigned = {};
  }
  assigned_links_.clear();
}

std::optional<std::uint32_t> MaxMin::solve() {
  std::size_t found_open = 0;
  while (!queue_.empty()) {
    const double bound = queue_.least();
    const std::uint32_t index = queue_.pop();
    const Link& link = links_[index];
    if (surely_open(link)) {
      // Where its cap stops a flow of many links, all of these are: they go at once.
      if (++found_open > queue_.size() / 8) {
        queue_.drop_if([&](std::uint32_t waiting) { return surely_open(links_[waiting]); });
        found_open = 0;
      }
      continue;
    }
    if (link.eased) {
      count_exactly(index);
      if (surely_open(link)) continue;
    }
    // It may have risen since it was queued.
    const double now = link.weight == 0 ? 0.0 : level(link, link.residual, link.weight);
    if (bound < now && queue_.least() < now) {
      queue_.set(index, now);
    } else if (link.stamp >= instant_) {
      return index;
    } else {
      evaluate(index, bound);
    }
  }
  if (easing_ && long_flows_ > 0) ease_touched();
  return std::nullopt;
}

/// Whether queued links come before this key of a link of more than a few flows; if so, the link is
/// queued behind them.
bool MaxMin::comes_later(std::uint32_t index, FillingKey key) {
  if (flows_of_[index].size() <= few_flows) return false;
  const double place = place_of(key, links_[index].own == 0);
  // At one place the first in order of links, which would take a flow from those after it.
  if (!queue_.any_before(place, index)) return false;
  // The queued links may change the flows of this one.
  links_[index].floor = place;
  queue_.set(index, place);
  return true;
}

/// Finds where a link saturates, given the keys at which other links stop its flows, and stops the
/// rest of its flows there. `bound` is a lower bound of its level.
void MaxMin::evaluate(std::uint32_t index, double bound) {
  Link& link = links_[index];
  if (link.own > 0 && !link.capped) {
    // Where other links stop their flows well below, there is nothing to sort out.
    const FillingKey key{level(link, link.residual, link.weight), index};
    if (key.level > static_cast<double>(link.others) * (1 + rough)) {
      if (comes_later(index, key)) return;
      stop_own(index, key);
      touch_assigned(key.level);
      return;
    }
  }
  const Entry* entries = flows_of_[index].begin();
  const std::size_t count = flows_of_[index].size();
  if (count == 1) {
    evaluate_alone(index);
    return;
  }
  std::int64_t residual = link.residual;
  Int128 weight = link.weight;
  candidates_.clear();
  // Stopping flows at lower levels elsewhere leaves more for the rest, so the level with every
  // flow stopped where it is now is a lower bound; flows well below it stay where they are.
  const double sure =
      (weight == 0 ? bound : std::max(bound, level(link, residual, weight))) * (1 - certain);
  FillingKey before{0.0, 0};  // the greatest key among the flows that stop before
  bool any_before = false;
  double others = 0;
  std::uint32_t greatest = link.own;
  bool capped = false;
  const auto stopped_at = [&](FillingKey key) {
    any_before = true;
    if (before < key) before = key;
  };
  std::uint32_t own = link.own;  // of those without a cap
  if (link.capped) {
    touched_incidences_ += link.own;
    for (std::uint32_t i = 0; i < link.own; ++i) {
      const Entry entry = entries[i];
      if (i + ahead < count) flows_.prefetch(entries[i + ahead].flow);
      const Terms& flow_terms = flows_.terms(entry.flow);
      if (!flow_terms.capped()) continue;
      // But for its cap this link would stop the flow.
      capped = true;
      --own;
      const FillingKey limit = cap_key(flow_terms);
      const std::uint32_t use = flows_.use_on(index, entry);
      candidates_.push_back({limit, entry.flow, use});
      if (limit.level < sure) {
        residual -= fixed_load(link.scale, flow_terms.cap, flow_terms.amount_on(use));
        weight -= fixed_weight(flow_terms.amount_on(use), flow_terms.shares);
        stopped_at(limit);
      }
    }
  }
  touched_incidences_ += count - link.own;
  for (std::size_t i = link.own; i < count; ++i) {
    const Entry entry = entries[i];
    FillingKey key = key_of(entry.flow);
    if (guessed_ && flows_.terms(entry.flow).capped())
      key = std::min(key, cap_key(flows_.terms(entry.flow)));
    if (key.level > others) {
      others = key.level;
      greatest = static_cast<std::uint32_t>(i);
    }
    if (key.level < sure) {
      stopped_at(key);
    } else {
      const Terms& flow_terms = flows_.terms(entry.flow);
      const std::uint32_t use = flows_.use_on(index, entry);
      capped |= flow_terms.capped();
      residual += fixed_load(link.scale, rate_at(flow_terms, key), flow_terms.amount_on(use));
      weight += fixed_weight(flow_terms.amount_on(use), flow_terms.shares);
      candidates_.push_back({key, entry.flow, use});
    }
  }
  link.others = static_cast<float>(others);
  link.capped = capped;
  if (greatest < count) exchange(index, link.own, greatest);
  std::sort(candidates_.begin(), candidates_.end());
  const auto saturation = [&] {
    const double computed = level(link, residual, weight);
    if (any_before && computed <= before.level * (1 + tie)) {
      const std::uint64_t depth = std::min(before.depth() + 1, FillingKey::max_depth);
      return FillingKey{before.level, depth << 24 | index};
    }
    return FillingKey{computed, index};
  };
  // Walk the candidates by key: each that stops before the link saturates keeps its own limit.
  FillingKey key{};
  std::size_t walked = 0;
  while (walked < candidates_.size() && candidates_[walked].key.level < sure) ++walked;
  for (; walked < candidates_.size(); ++walked) {
    const Candidate& next = candidates_[walked];
    if (weight != 0) {
      key = saturation();
      if (key < next.key) break;
    }
    const Terms& flow_terms = flows_.terms(next.flow);
    residual -=
        fixed_load(link.scale, rate_at(flow_terms, next.key), flow_terms.amount_on(next.use));
    weight -= fixed_weight(flow_terms.amount_on(next.use), flow_terms.shares);
    any_before = true;
    before = next.key;
  }
  const bool saturates = own > 0 || walked < candidates_.size();
  if (saturates) {
    key = saturation();
    if (key.depth() > depth_limit_) {
      refill(index, key.level);
      queue_.set(index, 0.0);
      return;
    }
    if (comes_later(index, key)) return;
  }
  for (std::size_t i = 0; i < walked; ++i) {
    const Candidate& candidate = candidates_[i];
    const std::uint32_t bottleneck = bottlenecks_[candidate.flow];
    if (bottleneck != index && bottleneck != none) continue;
    note_move(candidate.flow);
    assign(candidate.flow, own_cap, index, Then::evaluate);
    touch_assigned(candidate.key.level);
  }
  if (!saturates) return;
  stop_own(index, key);
  for (std::size_t i = walked; i < candidates_.size(); ++i) {
    const Slot slot = candidates_[i].flow;
    if (bottlenecks_[slot] == index) continue;
    note_move(slot);
    assign(slot, index, index, Then::evaluate);
  }
  touch_assigned(key.level);
}

/// The same for a link with one flow, of which there is nothing to sort out: the link stops it,
/// unless its cap or another link does before.
void MaxMin::evaluate_alone(std::uint32_t index) {
  Link& link = links_[index];
  const Slot slot = flows_of_[index].front().flow;
  const Terms& flow_terms = flows_.terms(slot);
  const bool is_own = link.own > 0;
  FillingKey other = is_own ? FillingKey{} : key_of(slot);
  if (flow_terms.capped() && (is_own || guessed_)) other = std::min(other, cap_key(flow_terms));
  ++touched_incidences_;
  link.others = is_own ? 0 : static_cast<float>(other.level);
  link.capped = flow_terms.capped();
  const FillingKey key{is_own ? level(link, link.residual, link.weight) : level_alone(index, other),
                       index};
  if (!(key < other)) {
    if (!is_own) return;
    note_move(slot);
    assign(slot, own_cap, index, Then::evaluate);
    touch_assigned(other.level);
    return;
  }
  if (comes_later(index, key)) return;
  stop_own(index, key);
  if (!is_own) {
    note_move(slot);
    assign(slot, index, index, Then::evaluate);
  }
  touch_assigned(key.level);
}

/// Stops at a key all flows of a link that no other link stops.
void MaxMin::stop_own(std::uint32_t index, FillingKey key) {
  if (keys_[index] != key) {
    note_shift(index);
    shift(index, key, Then::evaluate);
  }
  if (links_[index].own > groups_[index].flows) {
    const ShortList<Entry>& entries = flows_of_[index];
    touched_incidences_ += links_[index].own;
    for (std::uint32_t i = 0; i < links_[index].own; ++i) {
      const Slot slot = entries[i].flow;
      if (bottlenecks_[slot] != none) continue;
      note_move(slot);
      assign(slot, index, index, Then::evaluate);
    }
  }
}

/// Lets flows fill again whose links may have stopped them only on the strength of each other's
/// keys.
///
/// Where two links tie, each takes over the level of the other's flows, one deeper. If the level
/// came from a third link, which has changed since, the two would count up depths for ever. A real
/// chain of ties as long as the limit is found again, below a limit that is twice as high.
void MaxMin::refill(std::uint32_t index, double level) {
  depth_limit_ = std::min(2 * depth_limit_, FillingKey::max_depth);
  std::vector<std::uint32_t> links{index};
  std::vector<Slot> tied;
  while (!links.empty()) {
    const std::uint32_t link = links.back();
    links.pop_back();
    if (links_[link].stamp >= instant_) continue;  // solve() will come to it
    tied.clear();
    for (const Entry entry : flows_of_[link]) {
      const FillingKey key = key_of(entry.flow);
      if (key.level == level && key.depth() > 0) tied.push_back(entry.flow);
    }
    for (const Slot flow : tied) {
      note_move(flow);
      leave_links(flow, Then::evaluate);
      join_links(flow, Then::evaluate);
      for_each_link(flow, [&](std::uint32_t other) { links.push_back(other); });
    }
  }
}

}  // namespace phantora
