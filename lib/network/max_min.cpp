#include "network/max_min.hpp"

#include "network/room.hpp"

#include <phantora/error.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace phantora {
namespace {

// A link's initial capacity becomes at most 2^48 units, so that it may grow 16 times, and a sum of
// 2^10 such loads (cut at max_load) still fits.
constexpr int capacity_bits = 48;
// Weights have 48 fractional bits.
constexpr double weight_scale = 0x1p48;
// Levels this close (relative) are taken for equal: far above the rounding of one division and the
// quantisation of loads, far below anything that could be measured.
constexpr double tie = 1e-12;
// Levels this far apart (relative) are certainly in their true order.
constexpr double certain = 1e-9;
// How many links ahead of its use a link is prefetched.
constexpr std::size_t ahead = 8;
// A link is eased if a 16th of its capacity is left: as many times its margin. With an 8th, a
// quarter more rates are looked at on all_reduces_on_8192 of network_bench.
constexpr double least_room = 1.0 / 16 / (10 * certain);
// The part of what is left that a link deals out when it is eased, and the part of the rest that a
// flow takes once its rate exceeds its allowance. Other choices (0.9, 0.5) look at a tenth more.
constexpr double dealt = 0.5;
constexpr double taken = 0.25;
// Levels this far apart (relative) differ in single precision too.
constexpr double rough = 1e-6;

/// The least float that is not below a value.
float rounded_up(double value) noexcept {
  const auto rounded = static_cast<float>(value);
  return static_cast<double>(rounded) >= value
             ? rounded
             : std::nextafter(rounded, std::numeric_limits<float>::infinity());
}

double to_double(Int128 value) noexcept {
  const auto small = static_cast<std::int64_t>(value);
  return small == value ? static_cast<double>(small) : static_cast<double>(value);
}

}  // namespace

// Defined before their uses, to be inlined there.

inline Int128 MaxMin::fixed_weight(double amount, double shares) noexcept {
  const double weight = amount * shares * weight_scale;
  return weight < 0x1p62 ? Int128{static_cast<std::int64_t>(weight)} : static_cast<Int128>(weight);
}

inline double MaxMin::level(const Link& link, std::int64_t residual, Int128 weight) noexcept {
  return static_cast<double>(std::max<std::int64_t>(0, residual)) * weight_scale /
         (to_double(weight) * link.scale);
}

/// Notes that a link is about to change.
inline void MaxMin::enter(std::uint32_t index) {
  // Without a branch: whether this is the first time since settle() is hard to predict.
  Link& link = links_[index];
  touched_[touched_count_] = index;
  const std::uint64_t was_touched = link.touched;
  touched_count_ += 1 - was_touched;
  link.floor = std::bit_cast<double>(std::bit_cast<std::uint64_t>(link.floor) & -was_touched);
  link.touched = true;
}

/// Queues a link whose flows have changed, at a lower bound of its level. `raised` is the weight of
/// the flows that take more than before; they stop at `level_now`.
inline void MaxMin::touch(std::uint32_t index, Effect effect, double level_now, double raised) {
  Link& link = links_[index];
  if (effect == Effect::lowers) link.floor = 0;
  if (surely_open(link)) return;
  if (effect == Effect::raises && queue_.queued(index)) return;
  const double bound =
      std::max(link.floor, link.weight == 0 ? open_bound(index, level_now, raised)
                                            : level(link, link.residual, link.weight));
  if (bound < queue_.level(index)) queue_.set(index, bound);
}

inline void MaxMin::note_move(Slot slot) {
  Flow& flow = flow_at(slot);
  if (flow.changed) return;
  flow.changed = 1;
  moves_.push_back({slot, bottlenecks_[slot]});
}

inline void MaxMin::note_shift(std::uint32_t link) {
  Group& group = groups_[link];
  if (group.changed) return;
  group.changed = true;
  group.key_before = keys_[link];
  shifts_.push_back(link);
}

MaxMin::MaxMin(std::span<const Bandwidth> capacities)
    : links_(capacities.size()),
      flows_of_(capacities.size()),
      capacities_(capacities.size()),
      words_(1),
      keys_(capacities.size()),
      groups_(capacities.size()),
      terms_(1),
      queue_{capacities.size()},
      touched_(capacities.size() + 1),
      assigned_(capacities.size()) {
  PHANTORA_EXPECTS(capacities.size() < FillingKey::cap_link, "fewer than 2^24 links");
  for (std::uint32_t l = 0; l < links_.size(); ++l) {
    const double capacity = capacities[l].bytes_per_second();
    PHANTORA_EXPECTS(capacity > 0 && std::isfinite(capacity), "a capacity is positive and finite");
    links_[l].scale = std::ldexp(1.0, capacity_bits - 1 - std::ilogb(capacity));
    const auto known = std::find(scales_.begin(), scales_.end(), links_[l].scale);
    links_[l].scale_index = static_cast<std::uint16_t>(known - scales_.begin());
    if (known == scales_.end()) scales_.push_back(links_[l].scale);
    set_capacity(l, capacity);
  }
  changes_.resize(scales_.size());
  settle();
}

MaxMin::Terms& MaxMin::own_terms(Slot slot) {
  Flow& flow = flow_at(slot);
  if (flow.terms == 0) {
    if (free_terms_.empty()) {
      flow.terms = static_cast<std::uint32_t>(terms_.size());
      terms_.emplace_back();
    } else {
      flow.terms = free_terms_.back();
      free_terms_.pop_back();
    }
  }
  return terms_[flow.terms];
}

void MaxMin::clear_terms(Slot slot) {
  Flow& flow = flow_at(slot);
  if (flow.terms == 0) return;
  terms_[flow.terms] = Terms{};
  free_terms_.push_back(flow.terms);
  flow.terms = 0;
}

/// @return where there is room for a flow of `count` links.
std::uint32_t MaxMin::take_words(std::uint32_t count) {
  if (const auto free = free_words_.find(count);
      free != free_words_.end() && !free->second.empty()) {
    const std::uint32_t first = free->second.back();
    free->second.pop_back();
    return first;
  }
  const std::size_t first = words_.size();
  PHANTORA_EXPECTS(first + count < none, "fewer than 2^32 links of live flows");
  make_room(words_, 1 + count);
  words_.resize(first + 1 + count);
  return static_cast<std::uint32_t>(first);
}

void MaxMin::give_words_back(std::uint32_t first) {
  if (first != 0) free_words_[words_[first].flow.count].push_back(first);
}

MaxMin::Slot MaxMin::create(std::span<const LinkUse> uses, double shares, double cap) {
  Slot slot;
  if (free_.empty()) {
    slot = static_cast<Slot>(first_words_.size());
    PHANTORA_EXPECTS(slot < FillingKey::cap_link, "fewer than 2^24 live flows");
    make_room(first_words_, 1);
    make_room(bottlenecks_, 1);
    first_words_.push_back(0);
    bottlenecks_.push_back(none);
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  redirect(slot, uses);
  if (shares != 1 || cap != std::numeric_limits<double>::infinity()) {
    Terms& terms = own_terms(slot);
    terms.shares = shares;
    terms.cap = cap;
  }
  return slot;
}

void MaxMin::erase(Slot slot) {
  clear_terms(slot);
  give_words_back(std::exchange(first_words_[slot], 0));
  free_.push_back(slot);
}

void MaxMin::redirect(Slot slot, std::span<const LinkUse> uses) {
  Flow flow = flow_at(slot);
  give_words_back(first_words_[slot]);
  flow.count = static_cast<std::uint32_t>(uses.size()) & ((1U << 30) - 1);
  first_words_[slot] = take_words(flow.count);
  flow_at(slot) = flow;
  for (std::uint32_t i = 0; i < flow.count; ++i) uses_of(slot)[i].use = {uses[i].link.value, 0};
  const double amount = uses.empty() ? 1 : uses.front().bytes_per_byte;
  const bool uniform = std::all_of(uses.begin(), uses.end(),
                                   [&](const LinkUse& u) { return u.bytes_per_byte == amount; });
  if (uniform && amount == 1 && flow.terms == 0) return;
  Terms& terms = own_terms(slot);
  terms.amount = amount;
  terms.amounts.reset();
  if (uniform) return;
  terms.amounts = std::make_unique<double[]>(flow.count);
  for (std::uint32_t i = 0; i < flow.count; ++i) terms.amounts[i] = uses[i].bytes_per_byte;
}

std::vector<LinkUse> MaxMin::uses(Slot slot) const {
  const Flow& flow = flow_at(slot);
  std::vector<LinkUse> uses;
  for (std::uint32_t i = 0; i < flow.count; ++i)
    uses.push_back({LinkId{uses_of(slot)[i].use.link}, terms(slot).amount_on(i)});
  return uses;
}

inline std::uint32_t MaxMin::use_on(std::uint32_t link, Entry entry) const noexcept {
  const std::uint64_t count = flow_at(entry.flow).count, place = entry.use;
  if (count <= many_uses) return entry.use;
  const auto first_in = [&](std::uint64_t part) {
    return (part * count + many_uses - 1) / many_uses;
  };
  const Word* uses = uses_of(entry.flow);
  return static_cast<std::uint32_t>(
      std::partition_point(uses + first_in(place), uses + first_in(place + 1),
                           [&](const Word& word) { return word.use.link < link; }) -
      uses);
}

/// Exchanges two places in the list of a link's flows.
inline void MaxMin::exchange(std::uint32_t link, std::uint32_t a, std::uint32_t b) {
  if (a == b) return;
  ShortList<Entry>& entries = flows_of_[link];
  std::swap(entries[a], entries[b]);
  uses_of(entries[a].flow)[use_on(link, entries[a])].use.position = a;
  uses_of(entries[b].flow)[use_on(link, entries[b])].use.position = b;
}

/// Counts a flow among those that a link stops, or that still fill.
inline void MaxMin::take(Use& use) { exchange(use.link, use.position, links_[use.link].own++); }

/// Counts a flow among those that other links stop, at this level.
inline void MaxMin::leave_to_others(Use& use, double level) {
  Link& link = links_[use.link];
  exchange(use.link, use.position, --link.own);
  link.others = std::max(link.others, static_cast<float>(level));
}

/// Counts a flow in the group of a link.
void MaxMin::join_group(Slot slot, std::uint32_t bottleneck) {
  bottlenecks_[slot] = bottleneck;
  if (bottleneck >= own_cap) return;
  Group& group = groups_[bottleneck];
  ++group.flows;
  const Flow& flow = flow_at(slot);
  if (flow.terms != 0) {
    ++group.unusual;
    return;
  }
  // Links of flows are in order, and so are crossings.
  std::vector<Crossing>& crossings = group.crossings;
  missing_.clear();
  std::size_t at = 0;
  for (std::uint32_t i = 0; i < flow.count; ++i) {
    const std::uint32_t link = uses_of(slot)[i].use.link;
    if (link == bottleneck) continue;
    while (at < crossings.size() &&
           (crossings[at].link < link ||
            (crossings[at].link == link && crossings[at].flows == Crossing::full)))
      ++at;
    if (at < crossings.size() && crossings[at].link == link) {
      ++crossings[at].flows;
    } else {
      missing_.push_back({link & 0xFFFFFF, 1});
    }
  }
  std::size_t from = crossings.size(), to = from + missing_.size();
  make_room(crossings, missing_.size());
  crossings.resize(to);
  for (std::size_t i = missing_.size(); i-- > 0;) {
    while (from > 0 && crossings[from - 1].link > missing_[i].link)
      crossings[--to] = crossings[--from];
    crossings[--to] = missing_[i];
  }
}

/// Takes a flow out of its group.
void MaxMin::leave_group(Slot slot) {
  const std::uint32_t bottleneck = std::exchange(bottlenecks_[slot], none);
  if (bottleneck >= own_cap) return;
  Group& group = groups_[bottleneck];
  --group.flows;
  const Flow& flow = flow_at(slot);
  if (flow.terms != 0) {
    --group.unusual;
    return;
  }
  std::vector<Crossing>& crossings = group.crossings;
  std::size_t at = 0;
  bool any_empty = false;
  for (std::uint32_t i = 0; i < flow.count; ++i) {
    const std::uint32_t link = uses_of(slot)[i].use.link;
    if (link == bottleneck) continue;
    while (crossings[at].link < link) ++at;
    // NOLINTNEXTLINE(*-narrowing-conversions): it looks at the promotion of a bit field.
    if (--crossings[at].flows == 0) any_empty = true;
  }
  if (!any_empty) return;
  std::erase_if(crossings, [](const Crossing& crossing) { return crossing.flows == 0; });
  give_back_room(crossings);
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
    solver_.queue_.prefetch(link);
  }
  const MaxMin& solver_;
  const Word* uses_;
  std::uint32_t count_;
};

void MaxMin::join_links(Slot slot, Then then) {
  Flow& flow = flow_at(slot);
  Terms& flow_terms = terms_[flow.terms];
  flow.present = 1;
  const bool is_long = this->is_long(flow);
  if (is_long) {
    ++long_flows_;
    flow_terms.least_allowance = std::numeric_limits<float>::infinity();
    flow_terms.allowances.assign(flow.count, flow_terms.least_allowance);
  }
  const Word* uses = uses_of(slot);
  const Walk walk{*this, uses, flow.count};
  for (std::uint32_t i = 0; i < flow.count; ++i) {
    walk.at(i);
    Use& use = uses_of(slot)[i].use;
    Link& link = links_[use.link];
    ShortList<Entry>& entries = flows_of_[use.link];
    const double amount = flow_terms.amount_on(i);
    enter(use.link);
    use.position = static_cast<std::uint32_t>(entries.size());
    entries.push_back(entry_of(slot, i));
    take(use);
    link.capped |= flow_terms.capped();
    link.weight += fixed_weight(amount, flow_terms.shares);
    if (is_long && !link.eased) flow_terms.exact.push_back({i, use.link, amount});
    if (then == Then::evaluate) touch(use.link, Effect::lowers);
  }
}

void MaxMin::leave_links(Slot slot, Then then) {
  Flow& flow = flow_at(slot);
  Terms& flow_terms = terms_[flow.terms];
  const bool is_long = this->is_long(flow);
  const std::uint32_t bottleneck = bottlenecks_[slot];
  const double old_rate = rate(slot);
  const Word* uses = uses_of(slot);
  const Walk walk{*this, uses, flow.count};
  for (std::uint32_t i = 0; i < flow.count; ++i) {
    walk.at(i);
    Use& use = uses_of(slot)[i].use;
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
      __builtin_prefetch(&uses_of(end.flow)[end.use], 1);
    }
    const Entry last = entries.back();
    entries[use.position] = last;
    uses_of(last.flow)[use_on(use.link, last)].use.position = use.position;
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
  if (flow_at(slot).count == 0) join_group(slot, own_cap);
}

void MaxMin::remove(Slot slot) {
  note_move(slot);
  leave_links(slot, Then::evaluate);
}

void MaxMin::withdraw(Slot slot) { leave_links(slot, Then::leave); }

void MaxMin::restore(Slot slot, std::uint32_t bottleneck) {
  if (bottleneck < own_cap && links_[bottleneck].eased) count_exactly(bottleneck);
  if (!flow_at(slot).present) join_links(slot, Then::leave);
  if (bottlenecks_[slot] != bottleneck) assign(slot, bottleneck, none, Then::leave);
  guessed_ = true;
}

void MaxMin::guess(Slot slot, std::uint32_t bottleneck) {
  note_move(slot);
  restore(slot, bottleneck);
}

void MaxMin::restore_key(std::uint32_t link, FillingKey key) {
  if (keys_[link] != key) shift(link, key, Then::leave);
  guessed_ = true;
}

void MaxMin::guess_key(std::uint32_t link, FillingKey key) {
  note_shift(link);
  restore_key(link, key);
}

void MaxMin::restore_cap(Slot slot, double cap) {
  const std::uint32_t bottleneck = bottlenecks_[slot];
  const bool was_present = flow_at(slot).present;
  if (was_present) withdraw(slot);
  own_terms(slot).cap = cap;
  if (was_present) restore(slot, bottleneck);
}

void MaxMin::reconsider(std::uint32_t link) {
  enter(link);
  touch(link, Effect::lowers);
}

void MaxMin::set_cap(Slot slot, double cap) {
  if (!flow_at(slot).present) {
    own_terms(slot).cap = cap;
    return;
  }
  // The flow leaves and joins again, since its level may go either way.
  note_move(slot);
  caps_before_.try_emplace(slot, terms(slot).cap);
  leave_links(slot, Then::evaluate);
  own_terms(slot).cap = cap;
  join_links(slot, Then::evaluate);
  if (flow_at(slot).count == 0) join_group(slot, own_cap);
}

void MaxMin::set_capacity(std::uint32_t index, double capacity) {
  Link& link = links_[index];
  PHANTORA_EXPECTS(capacity >= 0 && capacity * link.scale < max_load,
                   "a capacity is at most 16 times that which the link began with");
  const auto fixed = [&](double c) { return static_cast<std::int64_t>(c * link.scale); };
  enter(index);
  link.residual += fixed(capacity) - fixed(capacities_[index]);
  link.margin = static_cast<std::int32_t>(fixed(capacity * (10 * certain)));  // at most 2^26
  capacities_[index] = capacity;
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

/// Calls visit(use, link, amount, from, to) for each link that counts another rate of a flow when
/// the flow's own becomes `to`.
template <class Visit>
inline void MaxMin::account(Slot slot, bool filling, double from, double to, Visit visit) {
  const Flow& flow = flow_at(slot);
  Terms& flow_terms = terms_[flow.terms];
  const Word* uses = uses_of(slot);
  if (!is_long(flow)) {
    for (std::uint32_t i = 0; i < flow.count; ++i)
      visit(i, uses[i].use.link, flow_terms.amount_on(i), from, to);
    return;
  }
  const std::vector<ExactUse>& exact = flow_terms.exact;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    if (i + ahead < exact.size()) __builtin_prefetch(&links_[exact[i + ahead].link], 1);
    visit(exact[i].use, exact[i].link, exact[i].amount, from, to);
  }
  if (tell_of_all_) for_each_link(slot, [&](std::uint32_t link) { enter(link); });
  if (!filling && to <= static_cast<double>(flow_terms.least_allowance)) return;
  float least = std::numeric_limits<float>::infinity();
  for (std::uint32_t i = 0; i < flow.count; ++i) {
    float& allowance = flow_terms.allowances[i];
    const std::uint32_t link = uses[i].use.link;
    if (i + ahead < flow.count &&
        (filling || static_cast<double>(flow_terms.allowances[i + ahead]) < to))
      __builtin_prefetch(&links_[uses[i + ahead].use.link], 1);
    if (filling ? static_cast<bool>(links_[link].eased) : static_cast<double>(allowance) < to) {
      const double amount = flow_terms.amount_on(i);
      const double before = filling ? 0 : allowance;
      allowance = allowance_for(link, before, to, amount);
      visit(i, link, amount, before, allowance);
    }
    least = std::min(least, allowance);
  }
  flow_terms.least_allowance = least;
}

/// The allowance on an eased link of a flow whose rate becomes `to`, where the link has counted
/// another rate so far.
inline float MaxMin::allowance_for(std::uint32_t index, double counted, double to,
                                   double amount) const noexcept {
  const Link& link = links_[index];
  const std::int64_t left =
      link.residual + fixed_load(link.scale, counted, amount) - fixed_load(link.scale, to, amount);
  return rounded_up(to + taken * static_cast<double>(std::max<std::int64_t>(0, left)) /
                             (link.scale * amount));
}

/// Counts the rates of the flows on an eased link.
void MaxMin::count_exactly(std::uint32_t index) {
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
    if (!is_long(flow_at(entry.flow))) continue;
    Terms& flow_terms = terms_[flow_at(entry.flow).terms];
    const std::uint32_t use = use_on(index, entry);
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

/// Eases the links that have been touched and are far from saturation.
void MaxMin::ease_touched() {
  for (const std::uint32_t index : touched_links()) {
    const Link& link = links_[index];
    if (!link.eased && link.weight == 0 &&
        static_cast<double>(link.residual) > least_room * link.margin)
      ease(index);
  }
}

/// Deals out to the long flows of a link a part of what they leave.
void MaxMin::ease(std::uint32_t index) {
  Link& link = links_[index];
  const ShortList<Entry>& entries = flows_of_[index];
  touched_incidences_ += entries.size();
  std::int64_t load = 0;
  for (const Entry entry : entries) {
    if (is_long(flow_at(entry.flow)))
      load += fixed_load(link.scale, rate(entry.flow),
                         terms(entry.flow).amount_on(use_on(index, entry)));
  }
  const double times =
      load == 0 ? 1 : 1 + dealt * static_cast<double>(link.residual) / static_cast<double>(load);
  for (const Entry entry : entries) {
    if (!is_long(flow_at(entry.flow))) continue;
    Terms& flow_terms = terms_[flow_at(entry.flow).terms];
    const std::uint32_t use = use_on(index, entry);
    const double amount = flow_terms.amount_on(use), now = rate(entry.flow);
    float& allowance = flow_terms.allowances[use];
    allowance = rounded_up(now * times);
    flow_terms.least_allowance = std::min(flow_terms.least_allowance, allowance);
    link.residual +=
        fixed_load(link.scale, now, amount) - fixed_load(link.scale, allowance, amount);
    std::vector<ExactUse>& exact = flow_terms.exact;
    *std::find_if(exact.begin(), exact.end(),
                  [&](const ExactUse& known) { return known.link == index; }) = exact.back();
    exact.pop_back();
  }
  link.eased = true;
  ++eased_count_;
}

/// Gives a flow another bottleneck, and accounts for that on the flow's links. `by` is the link
/// that is being evaluated and needs no second look.
void MaxMin::assign(Slot slot, std::uint32_t bottleneck, std::uint32_t by, Then then) {
  const Terms& flow_terms = terms(slot);
  const std::uint32_t from = bottlenecks_[slot];
  const bool filling = from == none;
  const double rate_before = rate(slot);
  leave_group(slot);
  join_group(slot, bottleneck);
  const FillingKey key = key_of(slot);
  Word* uses = uses_of(slot);
  const auto count = [&](std::uint32_t i, std::uint32_t index, double amount, double before,
                         double now) {
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
  const std::vector<Crossing>& crossings = group.crossings;
  for (std::size_t i = 0; i < crossings.size(); ++i) {
    if (i + ahead < crossings.size()) __builtin_prefetch(&links_[crossings[i + ahead].link], 1);
    const Crossing& it = crossings[i];
    count(it.link, it.flows, changes_[links_[it.link].scale_index], it.flows);
  }
  if (group.unusual == 0) return;
  for (std::uint32_t i = 0; i < links_[index].own; ++i) {
    const Slot slot = flows_of_[index][i].flow;
    if (flow_at(slot).terms == 0 || bottlenecks_[slot] != index) continue;
    const Terms& flow_terms = terms(slot);
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

/// A lower bound of the level at which a link saturates that stops no flow so far.
///
/// Should the link saturate at a level x, then what flows above x take beyond it adds up to the
/// overload at most. So x >= level - overload / weight, for the weight of all flows of one level.
double MaxMin::open_bound(std::uint32_t index, double level, double weight) const noexcept {
  const Link& link = links_[index];
  if (static_cast<double>(link.residual) < -max_load / 2) return 0;  // a load may have been cut
  const double overload = std::max(0.0, -static_cast<double>(link.residual)) / link.scale;
  double bound = weight > 0 ? level - overload / weight : 0.0;
  if (!flows_of_[index].empty()) {
    // The first flow, which had the greatest level when the link was last evaluated.
    const Entry first = flows_of_[index].front();
    const Terms& flow_terms = terms(first.flow);
    bound = std::max(
        bound, rate_at(flow_terms, key_of(first.flow)) / flow_terms.shares -
                   overload / (flow_terms.amount_on(use_on(index, first)) * flow_terms.shares));
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
  while (queue_.least() != LinkQueue::not_queued) {
    const double bound = queue_.least();
    const std::uint32_t index = queue_.pop();
    const Link& link = links_[index];
    if (surely_open(link)) continue;
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

/// Whether queued links come before this key of a link; if so, the link is queued behind them.
bool MaxMin::comes_later(std::uint32_t index, FillingKey key) {
  // Among equals the shallower comes first, and a link that stops no flow so far comes after those
  // that may keep theirs: a few units in the last place say so to the queue.
  const auto place = std::bit_cast<double>(std::bit_cast<std::uint64_t>(key.level) + key.depth() +
                                           (links_[index].own == 0 ? 1 : 0));
  if (queue_.least() >= place) return false;
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
      const Terms& flow_terms = terms(entry.flow);
      if (!flow_terms.capped()) continue;
      // But for its cap this link would stop the flow.
      capped = true;
      --own;
      const FillingKey limit = cap_key(flow_terms);
      const std::uint32_t use = use_on(index, entry);
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
    if (guessed_ && terms(entry.flow).capped()) key = std::min(key, cap_key(terms(entry.flow)));
    if (key.level > others) {
      others = key.level;
      greatest = static_cast<std::uint32_t>(i);
    }
    if (key.level < sure) {
      stopped_at(key);
    } else {
      const Terms& flow_terms = terms(entry.flow);
      const std::uint32_t use = use_on(index, entry);
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
    const Terms& flow_terms = terms(next.flow);
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

void MaxMin::settle() {
  // What was restored may be allowed more than an eased link has.
  for (std::size_t i = 0; eased_count_ > 0 && i < touched_count_; ++i) {
    const std::uint32_t link = touched_[i];
    if (links_[link].eased && !surely_open(links_[link])) count_exactly(link);
  }
  for (const std::uint32_t link : touched_links()) {
    links_[link].touched = false;
    if (queue_.queued(link)) queue_.set(link, LinkQueue::not_queued);
  }
  for (const Move& move : moves_) flow_at(move.flow).changed = 0;
  for (const std::uint32_t link : shifts_) groups_[link].changed = false;
  touched_count_ = 0;
  moves_.clear();
  shifts_.clear();
  if (!caps_before_.empty()) caps_before_.clear();
  depth_limit_ = first_depth_limit;
  guessed_ = false;
}

double MaxMin::load(std::uint32_t index) const {
  std::int64_t sum = 0;
  for (const Entry entry : flows_of_[index])
    sum += fixed_load(links_[index].scale, rate(entry.flow),
                      terms(entry.flow).amount_on(use_on(index, entry)));
  return static_cast<double>(sum) / links_[index].scale;
}

double MaxMin::weight(std::uint32_t index) const {
  Int128 sum = 0;
  for (const Entry entry : flows_of_[index])
    sum +=
        fixed_weight(terms(entry.flow).amount_on(use_on(index, entry)), terms(entry.flow).shares);
  return to_double(sum) / weight_scale;
}

}  // namespace phantora
