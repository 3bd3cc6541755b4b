#pragma once

#include "network/crossings.hpp"
#include "network/filling_key.hpp"
#include "network/filling_link.hpp"
#include "network/flow_store.hpp"
#include "network/short_list.hpp"
#include "network/table.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace phantora {

/// A state of the progressive filling, and what is to be known of it: a key for each link, a
/// bottleneck for each flow, and what each link counts of its flows. MaxMin finds the right one.
///
/// Groups. All flows that a link stops have its key. Few flows change their bottleneck at an event;
/// most only follow its key, and those are not looked at: each link counts how many flows of its
/// group use which other links, so that a new key costs one step for each of these.
///
/// Eased links. A flow over many links (a collective has hundreds) is held by few: the others are
/// far from saturation whatever the flow does. Such a link is eased: for each of its long flows the
/// link counts an allowance, of at least that flow's rate, instead of the rate. So its residual is
/// a lower bound, and as long as that says that the link is open, a rate that moves below its
/// allowance changes nothing there and is not looked at. A rate that exceeds its allowance takes
/// more of what is left on that link. Once nothing is left the link is counted exactly before it is
/// evaluated, so that easing shows in no rate.
class FillingState {
 public:
  using Slot = FlowStore::Slot;

  FillingState(const FillingState&) = delete;
  FillingState& operator=(const FillingState&) = delete;

  /// Describes a flow, not yet present. Slots of erased flows are used again. Links are in order,
  /// each once.
  Slot create(std::span<const LinkUse> uses, double shares, double cap);
  void erase(Slot flow) { flows_.erase(flow); }
  /// Gives an absent flow other links.
  void redirect(Slot flow, std::span<const LinkUse> uses) { flows_.redirect(flow, uses); }

  [[nodiscard]] double capacity(std::uint32_t link) const noexcept { return capacities_[link]; }

  /// Bottlenecks of flows: a link, or one of these.
  static constexpr std::uint32_t own_cap = FillingKey::cap_link;
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  struct Move {
    Slot flow;
    std::uint32_t from;  ///< the flow's bottleneck before; none if it was absent
  };
  /// The flows that may have another bottleneck than at the last settle(), other than by restore()
  /// and withdraw().
  [[nodiscard]] std::span<const Move> moves() const noexcept { return moves_; }
  /// The links that may have another key than at the last settle(), other than by restore_key().
  [[nodiscard]] std::span<const std::uint32_t> shifts() const noexcept { return shifts_; }
  /// The links on which something may have changed since the last settle().
  [[nodiscard]] std::span<const std::uint32_t> touched_links() const noexcept {
    return {touched_.data(), touched_count_};
  }

  [[nodiscard]] bool present(Slot flow) const noexcept { return flows_.at(flow).present; }
  /// The link that stops the flow, or own_cap; none if the flow is absent.
  [[nodiscard]] std::uint32_t bottleneck(Slot flow) const noexcept { return bottlenecks_[flow]; }
  /// The key at which a link stops flows. Meaningless while the link stops no flow.
  [[nodiscard]] FillingKey key(std::uint32_t link) const noexcept { return keys_[link]; }
  /// The key of a link at the last settle() or restore_key().
  [[nodiscard]] FillingKey key_before(std::uint32_t link) const noexcept {
    return groups_[link].changed ? groups_[link].key_before : keys_[link];
  }
  [[nodiscard]] double rate(Slot flow) const noexcept {
    return rate_at(flows_.terms(flow), key_of(flow));
  }
  /// The rate that a flow would have with this bottleneck; `key` is that of the bottleneck if it is
  /// a link.
  [[nodiscard]] double rate_at(Slot flow, std::uint32_t bottleneck, FillingKey key) const noexcept {
    if (bottleneck == none) return 0;
    const Terms& terms = flows_.terms(flow);
    return rate_at(terms, bottleneck == own_cap ? cap_key(terms) : key);
  }
  /// The rate of a flow at the last settle(), where `bottleneck` was its bottleneck.
  [[nodiscard]] double rate_before(Slot flow, std::uint32_t bottleneck) const noexcept {
    if (bottleneck == none) return 0;
    const double cap_then = cap_before(flow);
    if (bottleneck == own_cap) return cap_then;
    const FillingKey key = key_before(bottleneck);
    return key.filling() ? 0 : std::min(cap_then, key.level * shares(flow));
  }
  /// The cap of a flow at the last settle(), or at restore_cap().
  [[nodiscard]] double cap_before(Slot flow) const noexcept {
    const Terms& terms = flows_.terms(flow);
    return terms.cap_before != 0 ? terms.cap_before : terms.cap;
  }
  /// Whether moves() names the flow.
  [[nodiscard]] bool moved(Slot flow) const noexcept { return flows_.at(flow).changed; }
  [[nodiscard]] double cap(Slot flow) const noexcept { return flows_.terms(flow).cap; }
  [[nodiscard]] double shares(Slot flow) const noexcept { return flows_.terms(flow).shares; }
  /// How many flows a link stops.
  [[nodiscard]] std::uint32_t group_size(std::uint32_t link) const noexcept {
    return groups_[link].flows;
  }
  /// Calls visit(flow) for each flow that a link stops, after solve().
  template <class Visit>
  void for_each_in_group(std::uint32_t link, Visit visit) const {
    const Entry* entries = flows_of_[link].begin();
    for (std::uint32_t i = 0; i < links_[link].own; ++i) visit(entries[i].flow);
  }
  [[nodiscard]] std::vector<LinkUse> uses(Slot flow) const { return flows_.uses(flow); }
  [[nodiscard]] bool uses_link(Slot flow, std::uint32_t link) const noexcept {
    return flows_.uses_link(flow, link);
  }
  /// Calls visit(link) for each link of the flow.
  template <class Visit>
  void for_each_link(Slot flow, Visit visit) const {
    flows_.for_each_link(flow, visit);
  }
  /// Calls visit(link, bytes per byte) for each link of the flow.
  template <class Visit>
  void for_each_use(Slot flow, Visit visit) const {
    flows_.for_each_use(flow, visit);
  }
  /// Calls visit(flow) for each flow on a link.
  template <class Visit>
  void for_each_flow(std::uint32_t link, Visit visit) const {
    for (const Entry entry : flows_of_[link]) visit(entry.flow);
  }
  /// Calls visit(link) for a link and the links that its group uses, some more than once.
  template <class Visit>
  void for_each_crossed(std::uint32_t link, Visit visit) const {
    visit(link);
    for (const filling::Crossing& crossing : groups_[link].crossings) visit(crossing.link);
    if (groups_[link].unusual == 0) return;
    for_each_in_group(link, [&](Slot flow) {
      if (flows_.at(flow).terms != 0) flows_.for_each_link(flow, visit);
    });
  }
  /// Bytes per second on a link.
  [[nodiscard]] double load(std::uint32_t link) const;
  /// Sum of bytes_per_byte * shares of the flows on a link.
  [[nodiscard]] double weight(std::uint32_t link) const;

  /// (flow, link) pairs looked at so far.
  [[nodiscard]] std::uint64_t touched_incidences() const noexcept { return touched_incidences_; }
  /// Whether the link is certainly not saturated.
  [[nodiscard]] bool open(std::uint32_t link) const noexcept {
    return filling::surely_open(links_[link]);
  }
  /// The load of a flow with this rate, in units of the link.
  [[nodiscard]] std::int64_t units(std::uint32_t link, double rate, double amount) const noexcept {
    return filling::fixed_load(links_[link].scale, rate, amount);
  }
  /// Capacity less load, in units of the link; of an eased link a lower bound.
  [[nodiscard]] std::int64_t residual(std::uint32_t link) const noexcept {
    return links_[link].residual;
  }
  /// What rounding may add to a residual: a link that stops no flow and has more left is open.
  [[nodiscard]] std::int64_t margin(std::uint32_t link) const noexcept {
    return links_[link].margin;
  }

  [[nodiscard]] bool eased(std::uint32_t link) const noexcept { return links_[link].eased; }
  /// Counts all links exactly. Calls visit(link) for each that was eased.
  template <class Visit>
  void count_exactly(Visit visit) {
    for (std::uint32_t link = 0; eased_count_ > 0; ++link) {
      if (!links_[link].eased) continue;
      count_exactly(link);
      visit(link);
    }
  }
  /// Whether touched_links() are to name eased links too where only rates have changed.
  void tell_of_all(bool all) noexcept { tell_of_all_ = all; }

 protected:
  using Link = filling::Link;
  using Crossing = filling::Crossing;
  using Entry = FlowStore::Entry;
  using Flow = FlowStore::Flow;
  using Terms = FlowStore::Terms;
  using Use = FlowStore::Use;
  using Word = FlowStore::Word;
  using ExactUse = FlowStore::ExactUse;

  /// The flows that a link stops.
  struct Group {
    FillingKey key_before;         ///< if `changed`
    filling::Crossings crossings;  ///< of usual flows
    std::uint32_t flows = 0;
    std::uint32_t unusual = 0;  ///< how many of the flows have Terms of their own
    bool changed = false;
  };

  explicit FillingState(std::span<const Bandwidth> capacities);
  ~FillingState() = default;

  /// Gives a link a capacity, on which nothing depends as yet.
  void set_units(std::uint32_t link, double capacity);

  [[nodiscard]] static FillingKey cap_key(const Terms& terms) noexcept {
    return {terms.cap / terms.shares, FillingKey::cap_link};
  }
  /// The rate of a flow with these terms that stops at `key`; 0 while the flow fills.
  [[nodiscard]] static double rate_at(const Terms& terms, FillingKey key) noexcept {
    if (key.filling()) return 0;
    return key.link() == FillingKey::cap_link ? terms.cap
                                              : std::min(terms.cap, key.level * terms.shares);
  }
  [[nodiscard]] FillingKey key_of(Slot flow) const noexcept {
    const std::uint32_t bottleneck = bottlenecks_[flow];
    if (bottleneck < own_cap) return keys_[bottleneck];
    return bottleneck == own_cap ? cap_key(flows_.terms(flow)) : FillingKey{};
  }

  /// Notes that a link is about to change.
  void enter(std::uint32_t index) {
    // Without a branch: whether this is the first time since settle() is hard to predict.
    Link& link = links_[index];
    touched_[touched_count_] = index;
    const std::uint64_t was_touched = link.touched;
    touched_count_ += 1 - was_touched;
    link.floor = std::bit_cast<double>(std::bit_cast<std::uint64_t>(link.floor) & -was_touched);
    link.touched = true;
  }
  void note_move(Slot slot) {
    Flow& flow = flows_.at(slot);
    if (flow.changed) return;
    flow.changed = 1;
    moves_.push_back({slot, bottlenecks_[slot]});
  }
  /// Notes that a flow is about to have another cap. @return its terms
  Terms& note_cap(Slot slot) {
    Terms& flow_terms = flows_.own_terms(slot);
    if (flow_terms.cap_before == 0) {
      flow_terms.cap_before = flow_terms.cap;
      new_caps_.push_back(slot);
    }
    return flow_terms;
  }
  void note_shift(std::uint32_t link) {
    Group& group = groups_[link];
    if (group.changed) return;
    group.changed = true;
    group.key_before = keys_[link];
    shifts_.push_back(link);
  }
  /// Forgets all that has been noted.
  void clear_notes() {
    for (const std::uint32_t link : touched_links()) links_[link].touched = false;
    for (const Move& move : moves_) flows_.at(move.flow).changed = 0;
    for (const std::uint32_t link : shifts_) groups_[link].changed = false;
    touched_count_ = 0;
    moves_.clear();
    shifts_.clear();
    for (const Slot flow : new_caps_) flows_.own_terms(flow).cap_before = 0;
    new_caps_.clear();
  }

  /// Exchanges two places in the list of a link's flows.
  void exchange(std::uint32_t link, std::uint32_t a, std::uint32_t b) {
    if (a == b) return;
    ShortList<Entry>& entries = flows_of_[link];
    std::swap(entries[a], entries[b]);
    flows_.uses_of(entries[a].flow)[flows_.use_on(link, entries[a])].use.position = a;
    flows_.uses_of(entries[b].flow)[flows_.use_on(link, entries[b])].use.position = b;
  }
  /// Counts a flow among those that a link stops, or that still fill.
  void take(Use& use) { exchange(use.link, use.position, links_[use.link].own++); }
  /// Counts a flow among those that other links stop, at this level.
  void leave_to_others(Use& use, double level) {
    Link& link = links_[use.link];
    exchange(use.link, use.position, --link.own);
    link.others = std::max(link.others, static_cast<float>(level));
  }
  /// Counts a flow in the group of a link.
  void join_group(Slot flow, std::uint32_t bottleneck);
  /// Takes a flow out of its group.
  void leave_group(Slot flow);

  /// Calls visit(use, link, amount, from, to) for each link that counts another rate of a flow when
  /// the flow's own becomes `to`.
  template <class Visit>
  void account(Slot flow, bool filling, double from, double to, Visit visit);
  /// Counts the rates of the flows on an eased link.
  void count_exactly(std::uint32_t link);
  /// Eases the links that have been touched and are far from saturation.
  void ease_touched();

  // How many links ahead of its use a link is prefetched.
  static constexpr std::size_t ahead = 8;

  FlowStore flows_;
  Table<Link> links_;
  Table<ShortList<Entry>> flows_of_;        ///< of each link
  std::vector<double> scales_;              ///< the different scales of links
  std::vector<double> capacities_;          ///< of each link, bytes per second
  std::vector<std::uint32_t> bottlenecks_;  ///< of each flow
  Table<FillingKey> keys_;                  ///< of each link
  Table<Group> groups_;                     ///< of each link
  std::vector<Move> moves_;
  std::vector<std::uint32_t> shifts_;
  std::vector<std::uint32_t> touched_;  ///< the first touched_count_ are in use
  std::size_t touched_count_ = 0;
  std::vector<Slot> new_caps_;  ///< flows whose caps have changed since the last settle()
  bool tell_of_all_ = false;
  std::uint32_t long_flows_ = 0;  ///< that are present
  std::uint32_t eased_count_ = 0;
  std::uint64_t touched_incidences_ = 0;

 private:
  [[nodiscard]] float allowance_for(std::uint32_t link, double counted, double to,
                                    double amount) const noexcept;
  void ease(std::uint32_t link);
  /// The least float that is not below a value, which is not negative.
  [[nodiscard]] static float rounded_up(double value) noexcept {
    const auto rounded = static_cast<float>(value);
    return static_cast<double>(rounded) >= value
               ? rounded
               : std::bit_cast<float>(std::bit_cast<std::uint32_t>(rounded) + 1);
  }

  std::vector<Crossing> missing_;
};

/// The allowance on an eased link of a flow whose rate becomes `to`, where the link has counted
/// another rate so far.
inline float FillingState::allowance_for(std::uint32_t index, double counted, double to,
                                         double amount) const noexcept {
  // The part of what is left that a flow takes once its rate exceeds its allowance. With 0.5 a
  // tenth more rates are looked at on all_reduces_on_8192 of network_bench.
  constexpr double taken = 0.25;
  const Link& link = links_[index];
  const std::int64_t left = link.residual + filling::fixed_load(link.scale, counted, amount) -
                            filling::fixed_load(link.scale, to, amount);
  return rounded_up(to + taken * static_cast<double>(std::max<std::int64_t>(0, left)) /
                             (link.scale * amount));
}

template <class Visit>
void FillingState::account(Slot slot, bool filling, double from, double to, Visit visit) {
  const Flow& flow = flows_.at(slot);
  Terms& flow_terms = flows_.terms_of(flow);
  const Word* uses = flows_.uses_of(slot);
  if (!flows_.is_long(flow)) {
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

}  // namespace phantora
