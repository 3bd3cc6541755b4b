#include "max_min.hpp"

#include <phantora/error.hpp>

#include <algorithm>
#include <cmath>

namespace phantora {
namespace {

// The greatest capacity becomes at most 2^56 units, so that it may grow 64 times; a load beyond
// 2^62 is cut there (it can only occur before the link that it overloads is evaluated).
constexpr int capacity_bits = 56;
constexpr double max_load = 0x1p62;
// Weights have 48 fractional bits.
constexpr double weight_scale = 0x1p48;
// Levels this close (relative) are taken for equal: far above the rounding of one division and the
// quantisation of loads, far below anything that could be measured.
constexpr double tie = 1e-12;
// Levels this far apart (relative) are certainly in their true order.
constexpr double certain = 1e-9;

double to_double(Int128 value) noexcept {
  const auto small = static_cast<std::int64_t>(value);
  return small == value ? static_cast<double>(small) : static_cast<double>(value);
}

}  // namespace

MaxMin::MaxMin(std::span<const Bandwidth> capacities) : links_(capacities.size()) {
  PHANTORA_EXPECTS(capacities.size() < FillingKey::cap_link, "fewer than 2^24 links");
  double greatest = 1;
  for (const Bandwidth b : capacities) {
    PHANTORA_EXPECTS(b.bytes_per_second() >= 0 && std::isfinite(b.bytes_per_second()),
                     "a capacity is finite and not negative");
    greatest = std::max(greatest, b.bytes_per_second());
  }
  scale_ = std::ldexp(1.0, capacity_bits - std::ilogb(greatest) - 1);
  for (std::uint32_t l = 0; l < links_.size(); ++l)
    set_capacity(l, capacities[l].bytes_per_second());
  settle();
}

Int128 MaxMin::fixed_load(double rate, double amount) const noexcept {
  const double load = rate * amount * scale_;
  return static_cast<std::int64_t>(load < max_load ? load : max_load);
}

Int128 MaxMin::fixed_weight(double amount, double shares) noexcept {
  const double weight = amount * shares * weight_scale;
  return weight < max_load ? Int128{static_cast<std::int64_t>(weight)}
                           : static_cast<Int128>(weight);
}

double MaxMin::level(Int128 residual, Int128 weight) const noexcept {
  return std::max(0.0, to_double(residual)) / to_double(weight) * (weight_scale / scale_);
}

FillingKey MaxMin::cap_key(const Flow& flow) const noexcept {
  return {flow.cap / flow.shares, FillingKey::cap_link};
}

double MaxMin::rate_at(const Flow& flow, FillingKey key) const noexcept {
  return key.link() == FillingKey::cap_link ? flow.cap
                                            : std::min(flow.cap, key.level * flow.shares);
}

MaxMin::Slot MaxMin::create(std::span<const LinkUse> uses, double shares, double cap) {
  Slot slot;
  if (free_.empty()) {
    slot = static_cast<Slot>(flows_.size());
    PHANTORA_EXPECTS(slot < FillingKey::cap_link, "fewer than 2^24 live flows");
    flows_.emplace_back();
    keys_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  Flow& flow = flows_[slot];
  flow.shares = shares;
  flow.cap = cap;
  redirect(slot, uses);
  return slot;
}

void MaxMin::erase(Slot slot) {
  flows_[slot] = Flow{};
  free_.push_back(slot);
}

void MaxMin::redirect(Slot slot, std::span<const LinkUse> uses) {
  Flow& flow = flows_[slot];
  flow.count = static_cast<std::uint32_t>(uses.size());
  flow.more.reset();
  flow.amounts.reset();
  if (flow.count > Flow::inline_uses) flow.more = std::make_unique<Use[]>(flow.count);
  flow.amount = uses.empty() ? 1 : uses.front().bytes_per_byte;
  const bool uniform = std::all_of(
      uses.begin(), uses.end(), [&](const LinkUse& u) { return u.bytes_per_byte == flow.amount; });
  if (!uniform) flow.amounts = std::make_unique<double[]>(flow.count);
  for (std::uint32_t i = 0; i < flow.count; ++i) {
    flow.uses()[i] = {uses[i].link.value, 0};
    if (!uniform) flow.amounts[i] = uses[i].bytes_per_byte;
  }
}

std::vector<LinkUse> MaxMin::uses(Slot slot) const {
  const Flow& flow = flows_[slot];
  std::vector<LinkUse> uses;
  for (std::uint32_t i = 0; i < flow.count; ++i)
    uses.push_back({LinkId{flow.uses()[i].link}, flow.amount_on(i)});
  return uses;
}

void MaxMin::join_links(Slot slot) {
  Flow& flow = flows_[slot];
  flow.present = true;
  keys_[slot] = FillingKey{};
  flow.rate = 0;
  for (std::uint32_t i = 0; i < flow.count; ++i) {
    Use& use = flow.uses()[i];
    Link& link = links_[use.link];
    use.position = static_cast<std::uint32_t>(link.flows.size());
    link.flows.push_back({slot, i});
    link.weight += fixed_weight(flow.amount_on(i), flow.shares);
    touch(use.link, true);
  }
}

void MaxMin::leave_links(Slot slot) {
  Flow& flow = flows_[slot];
  const FillingKey key = keys_[slot];
  for (std::uint32_t i = 0; i < flow.count; ++i) {
    const Use use = flow.uses()[i];
    Link& link = links_[use.link];
    if (key.filling() || key.link() == use.link) {
      link.weight -= fixed_weight(flow.amount_on(i), flow.shares);
    } else {
      link.residual += fixed_load(flow.rate, flow.amount_on(i));
    }
    const Entry last = link.flows.back();
    link.flows[use.position] = last;
    flows_[last.flow].uses()[last.use].position = use.position;
    link.flows.pop_back();
    touch(use.link, false);
  }
  flow.present = false;
  flow.rate = 0;
  keys_[slot] = FillingKey{};
}

void MaxMin::insert(Slot slot) {
  note_change(slot);
  join_links(slot);
}

void MaxMin::remove(Slot slot) {
  note_change(slot);
  leave_links(slot);
}

void MaxMin::withdraw(Slot slot) { leave_links(slot); }

void MaxMin::restore(Slot slot, FillingKey key) {
  if (!flows_[slot].present) join_links(slot);
  assign(slot, key, FillingKey::cap_link);
}

void MaxMin::set_cap(Slot slot, double cap) {
  if (flows_[slot].present) {
    // As if it came anew: its level may go either way.
    note_change(slot);
    leave_links(slot);
    flows_[slot].cap = cap;
    join_links(slot);
  } else {
    flows_[slot].cap = cap;
  }
}

void MaxMin::set_capacity(std::uint32_t index, double capacity) {
  PHANTORA_EXPECTS(capacity >= 0 && capacity * scale_ < max_load,
                   "a capacity is at most 64 times the greatest that the network began with");
  Link& link = links_[index];
  const auto fixed = [&](double c) { return Int128{static_cast<std::int64_t>(c * scale_)}; };
  link.residual += fixed(capacity) - fixed(link.bytes_per_second);
  link.bytes_per_second = capacity;
  link.margin = fixed(capacity * (10 * certain));
  touch(index, true);
}

void MaxMin::note_change(Slot slot) {
  Flow& flow = flows_[slot];
  if (flow.changed) return;
  flow.changed = true;
  changes_.push_back({slot, flow.rate, keys_[slot]});
}

/// Stops the flow at `key`, and accounts for it on its links; `by` is the link that is being
/// evaluated and needs no second look.
void MaxMin::assign(Slot slot, FillingKey key, std::uint32_t by) {
  Flow& flow = flows_[slot];
  const FillingKey old = keys_[slot];
  const double rate = rate_at(flow, key);
  const bool filling = old.filling();
  for (std::uint32_t i = 0; i < flow.count; ++i) {
    const std::uint32_t index = flow.uses()[i].link;
    Link& link = links_[index];
    const double amount = flow.amount_on(i);
    const bool was_weight = filling || old.link() == index;
    const bool is_weight = key.link() == index;
    if (was_weight != is_weight) {
      const Int128 weight = fixed_weight(amount, flow.shares);
      link.weight += is_weight ? weight : -weight;
    }
    if (!was_weight) link.residual += fixed_load(flow.rate, amount);
    if (!is_weight) link.residual -= fixed_load(rate, amount);
    if (index != by) touch(index, !filling);
  }
  flow.rate = rate;
  keys_[slot] = key;
}

/// Queues a link whose flows have changed. `lowers` unless flows have only stopped filling.
void MaxMin::touch(std::uint32_t index, bool lowers) {
  Link& link = links_[index];
  if (!link.touched) {
    link.touched = true;
    touched_.push_back(index);
    link.floor = {0.0, 0};
  }
  if (lowers) link.floor = {0.0, 0};
  if (link.weight == 0 && link.residual > link.margin) return;  // certainly not saturated
  FillingKey key{link.weight == 0 ? 0.0 : level(link.residual, link.weight), index};
  if (key < link.floor) key = link.floor;
  if (!link.in_queue || key < link.queued) push(index, key);
}

void MaxMin::push(std::uint32_t index, FillingKey key) {
  links_[index].in_queue = true;
  links_[index].queued = key;
  queue_.push_back({key, index});
  std::push_heap(queue_.begin(), queue_.end());
}

void MaxMin::drain_queue() {
  while (!queue_.empty()) {
    const Queued top = queue_.front();
    std::pop_heap(queue_.begin(), queue_.end());
    queue_.pop_back();
    Link& link = links_[top.link];
    if (!link.in_queue || !(link.queued == top.key)) continue;
    link.in_queue = false;
    if (link.weight == 0 && link.residual > link.margin) continue;
    // It may have risen since it was queued.
    const FillingKey now{link.weight == 0 ? 0.0 : level(link.residual, link.weight), top.link};
    if (top.key < now && !queue_.empty() && queue_.front().key < now) {
      push(top.link, now);
      continue;
    }
    evaluate(top.link);
  }
}

/// Finds where the link saturates, given where others stop its flows, and stops the rest there.
void MaxMin::evaluate(std::uint32_t index) {
  Link& link = links_[index];
  Int128 residual = link.residual, weight = link.weight;
  own_.clear();
  candidates_.clear();
  // Stopping flows at lower levels elsewhere leaves more for the rest, so the level with every
  // flow stopped where it is now is a lower bound; flows well below it stay where they are.
  const double sure = weight == 0 ? -1.0 : level(residual, weight) * (1 - certain);
  FillingKey before{0.0, 0};  // the greatest key among the flows that stop before
  bool any_before = false;
  touched_incidences_ += link.flows.size();
  for (const Entry entry : link.flows) {
    FillingKey key = keys_[entry.flow];
    if (key.filling() || key.link() == index) {
      const Flow& flow = flows_[entry.flow];
      if (flow.cap == std::numeric_limits<double>::infinity()) {
        own_.push_back(entry);
        continue;
      }
      // But for its cap it would be ours.
      key = cap_key(flow);
      if (key.level < sure) {
        residual -= fixed_load(flow.cap, flow.amount_on(entry.use));
        weight -= fixed_weight(flow.amount_on(entry.use), flow.shares);
      }
      candidates_.push_back({key, entry.flow, entry.use});
      if (key.level < sure) {
        any_before = true;
        if (before < key) before = key;
      }
    } else if (key.level < sure) {
      any_before = true;
      if (before < key) before = key;
    } else {
      const Flow& flow = flows_[entry.flow];
      residual += fixed_load(flow.rate, flow.amount_on(entry.use));
      weight += fixed_weight(flow.amount_on(entry.use), flow.shares);
      candidates_.push_back({key, entry.flow, entry.use});
    }
  }
  std::sort(candidates_.begin(), candidates_.end());
  const auto saturation = [&] {
    const double computed = level(residual, weight);
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
    const Flow& flow = flows_[next.flow];
    const double rate = next.key.link() == FillingKey::cap_link ? flow.cap : flow.rate;
    residual -= fixed_load(rate, flow.amount_on(next.use));
    weight -= fixed_weight(flow.amount_on(next.use), flow.shares);
    any_before = true;
    before = next.key;
  }
  const bool saturates = !own_.empty() || walked < candidates_.size();
  if (saturates) {
    key = saturation();
    if (!queue_.empty() && queue_.front().key < key) {
      // Others come first, and may change what we have seen.
      link.floor = key;
      push(index, key);
      return;
    }
  }
  for (std::size_t i = 0; i < walked; ++i) {
    const Candidate& it = candidates_[i];
    if (!(keys_[it.flow] == it.key)) {
      note_change(it.flow);
      assign(it.flow, it.key, index);
    }
  }
  const auto stop = [&](Slot flow) {
    if (keys_[flow] == key) return;
    note_change(flow);
    assign(flow, key, index);
  };
  for (const Entry entry : own_) stop(entry.flow);
  for (std::size_t i = walked; i < candidates_.size(); ++i) stop(candidates_[i].flow);
}

const std::vector<MaxMin::Change>& MaxMin::solve() {
  drain_queue();
  std::size_t kept = 0;
  for (const Change& change : changes_) {
    Flow& flow = flows_[change.flow];
    flow.changed = false;
    if (flow.rate != change.rate || !(keys_[change.flow] == change.key)) changes_[kept++] = change;
  }
  changes_.resize(kept);
  return changes_;
}

void MaxMin::settle() {
  for (const Queued& it : queue_) links_[it.link].in_queue = false;
  for (const std::uint32_t l : touched_) links_[l].touched = false;
  for (const Change& change : changes_) flows_[change.flow].changed = false;
  queue_.clear();
  touched_.clear();
  changes_.clear();
}

double MaxMin::load(std::uint32_t index) const {
  Int128 sum = 0;
  for (const Entry entry : links_[index].flows) {
    const Flow& flow = flows_[entry.flow];
    sum += fixed_load(flow.rate, flow.amount_on(entry.use));
  }
  return to_double(sum) / scale_;
}

double MaxMin::weight(std::uint32_t index) const {
  Int128 sum = 0;
  for (const Entry entry : links_[index].flows) {
    const Flow& flow = flows_[entry.flow];
    sum += fixed_weight(flow.amount_on(entry.use), flow.shares);
  }
  return to_double(sum) / weight_scale;
}

std::vector<MaxMin::Slot> MaxMin::flows_on(std::uint32_t index) const {
  std::vector<Slot> slots;
  for (const Entry entry : links_[index].flows) slots.push_back(entry.flow);
  return slots;
}

}  // namespace phantora
