#pragma once

#include "network/link_queue.hpp"
#include "network/short_list.hpp"
#include "network/table.hpp"

#include <phantora/network/network_view.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace phantora {

__extension__ typedef __int128 Int128;

/// When a flow stopped growing in the progressive filling: the level (bytes per second per share),
/// and what stopped it. Keys order the filling totally, see MaxMin.
struct FillingKey {
  double level = std::numeric_limits<double>::infinity();
  /// Depth << 24 | link; the link is `cap_link` for a flow's own cap.
  std::uint64_t order = std::numeric_limits<std::uint64_t>::max();

  static constexpr std::uint32_t cap_link = (1U << 24) - 1;
  static constexpr std::uint64_t max_depth = 0xFFFF;

  [[nodiscard]] std::uint32_t link() const noexcept {
    return static_cast<std::uint32_t>(order) & cap_link;
  }
  [[nodiscard]] std::uint64_t depth() const noexcept { return order >> 24; }
  [[nodiscard]] bool filling() const noexcept {
    return order == std::numeric_limits<std::uint64_t>::max();
  }
  friend bool operator==(const FillingKey&, const FillingKey&) = default;
  friend bool operator<(const FillingKey& a, const FillingKey& b) noexcept {
    return a.level < b.level || (a.level == b.level && a.order < b.order);
  }
};

/// Weighted max-min fair rates, kept up to date while flows come and go. lib/network/README.md has
/// an example with numbers.
///
/// The rates are those of progressive filling: all levels r(f) / shares(f) grow together; when a
/// link saturates, its flows stop. A link l saturates at
///
///     level(l | F) = (capacity - load of the stopped flows F) / (weight of the others)
///
/// Exactness. Loads and weights are integers (fixed point), so their sums do not depend on the
/// order of additions and may be adjusted in place. A saturation has a key (level, depth, link): a
/// computed level that does not exceed, beyond rounding, that of every flow in F is taken to equal
/// the greatest of them, with a depth one greater. So keys strictly grow along the filling, links
/// saturate in one definite order, and the rates are a pure function of the flows present: bit for
/// bit the same however that state was reached.
///
/// Incremental. A state is the result of that filling if and only if each link agrees with it:
/// walking the link's flows by key, the link saturates at the first point where its own key comes
/// before the next flow's, and exactly the flows beyond stop there. So after a change only the
/// links whose flows changed are evaluated again, lowest level first, until all agree.
///
/// Groups. All flows that a link stops have its key, so the state is a key for each link and a
/// bottleneck for each flow. Few flows change their bottleneck at an event; most only follow its
/// key, and those are not looked at: each link counts how many flows of its group use which other
/// links, so that a new key costs one step for each of these.
///
/// Eased links. A flow over many links (a collective has hundreds) is held by few: the others are
/// far from saturation whatever the flow does. Such a link is eased: for each of its long flows the
/// link counts an allowance, of at least that flow's rate, instead of the rate. So its residual is
/// a lower bound, and as long as that says that the link is open, a rate that moves below its
/// allowance changes nothing there and is not looked at. A rate that exceeds its allowance takes
/// more of what is left on that link. Once nothing is left the link is counted exactly before it is
/// evaluated, so that easing shows in no rate.
class MaxMin {
 public:
  using Slot = std::uint32_t;

  explicit MaxMin(std::span<const Bandwidth> capacities);
  MaxMin(const MaxMin&) = delete;
  MaxMin& operator=(const MaxMin&) = delete;

  /// Describes a flow, not yet present. Slots of erased flows are used again. Links are in order,
  /// each once.
  Slot create(std::span<const LinkUse> uses, double shares, double cap);
  void erase(Slot flow);
  /// Gives an absent flow other links.
  void redirect(Slot flow, std::span<const LinkUse> uses);

  /// Adds a flow; its rate is unknown until solve().
  void insert(Slot flow);
  void remove(Slot flow);
  /// Puts the flow, present or not, into the group of a link in which solve() once left it. No link
  /// is evaluated.
  void restore(Slot flow, std::uint32_t bottleneck);
  /// Puts a flow into the group of a link as restore() does, and counts that as a change: moves()
  /// names the flow.
  void guess(Slot flow, std::uint32_t bottleneck);
  /// Removes a flow. No link is evaluated.
  void withdraw(Slot flow);
  /// Gives a link a key that solve() once left it. No link is evaluated.
  void restore_key(std::uint32_t link, FillingKey key);
  /// Gives a link a key as restore_key() does, and counts that as a change: shifts() names the
  /// link.
  void guess_key(std::uint32_t link, FillingKey key);
  /// Undoes set_cap(), but leaves the flow's bottleneck as it is.
  void restore_cap(Slot flow, double cap);

  void set_cap(Slot flow, double cap);
  void set_capacity(std::uint32_t link, double capacity);
  [[nodiscard]] double capacity(std::uint32_t link) const noexcept { return capacities_[link]; }

  /// Has solve() evaluate a link on which flows have been restored or withdrawn.
  void reconsider(std::uint32_t link);

  /// Bottlenecks of flows: a link, or one of these.
  static constexpr std::uint32_t own_cap = FillingKey::cap_link;
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  struct Move {
    Slot flow;
    std::uint32_t from;  ///< the flow's bottleneck before; none if it was absent
  };
  /// Brings all rates up to date.
  ///
  /// A caller that goes back in time stamps each link with the last instant that touched the link,
  /// and says for which instant it solves. A link with that stamp or a later one has no state of
  /// that instant to evaluate: the caller has to restore it, reconsider() it and solve() again.
  /// @return the first such link, if there is one.
  [[nodiscard]] std::optional<std::uint32_t> solve();
  /// Whether links may be eased, as they are from the beginning. When an eased link has changed
  /// last is not known: a caller that evaluates links of the past has to count all exactly first.
  void allow_easing(bool allowed) noexcept { easing_ = allowed; }
  /// Counts all links exactly. Calls visit(link) for each that was eased.
  template <class Visit>
  void count_exactly(Visit visit) {
    for (std::uint32_t link = 0; eased_count_ > 0; ++link) {
      if (!links_[link].eased) continue;
      count_exactly(link);
      visit(link);
    }
  }
  [[nodiscard]] bool eased(std::uint32_t link) const noexcept { return links_[link].eased; }
  /// Whether touched_links() are to name eased links too where only rates have changed.
  void tell_of_all(bool all) noexcept { tell_of_all_ = all; }
  void set_instant(std::int64_t instant) noexcept { instant_ = instant; }
  void set_stamp(std::uint32_t link, std::int64_t stamp) noexcept { links_[link].stamp = stamp; }
  [[nodiscard]] std::int64_t stamp(std::uint32_t link) const noexcept { return links_[link].stamp; }
  /// The flows that may have another bottleneck than at the last settle(), other than by restore()
  /// and withdraw().
  [[nodiscard]] std::span<const Move> moves() const noexcept { return moves_; }
  /// The links that may have another key than at the last settle(), other than by restore_key().
  [[nodiscard]] std::span<const std::uint32_t> shifts() const noexcept { return shifts_; }
  /// The key of a link at the last settle() or restore_key().
  [[nodiscard]] FillingKey key_before(std::uint32_t link) const noexcept {
    return groups_[link].changed ? groups_[link].key_before : keys_[link];
  }
  /// The links on which something may have changed since the last settle().
  [[nodiscard]] std::span<const std::uint32_t> touched_links() const noexcept {
    return {touched_.data(), touched_count_};
  }
  /// Declares the present state a solved one.
  void settle();

  [[nodiscard]] bool present(Slot flow) const noexcept { return flow_at(flow).present; }
  /// The link that stops the flow, or own_cap; none if the flow is absent.
  [[nodiscard]] std::uint32_t bottleneck(Slot flow) const noexcept { return bottlenecks_[flow]; }
  /// The key at which a link stops flows. Meaningless while the link stops no flow.
  [[nodiscard]] FillingKey key(std::uint32_t link) const noexcept { return keys_[link]; }
  [[nodiscard]] double rate(Slot flow) const noexcept { return rate_at(terms(flow), key_of(flow)); }
  /// The rate that a flow would have with this bottleneck; `key` is that of the bottleneck if it is
  /// a link.
  [[nodiscard]] double rate_at(Slot flow, std::uint32_t bottleneck, FillingKey key) const noexcept {
    if (bottleneck == none) return 0;
    return rate_at(terms(flow), bottleneck == own_cap ? cap_key(terms(flow)) : key);
  }
  /// The rate of a flow at the last settle(), where `bottleneck` was its bottleneck.
  [[nodiscard]] double rate_before(Slot flow, std::uint32_t bottleneck) const noexcept {
    if (bottleneck == none) return 0;
    const double cap_then = cap_before(flow);
    if (bottleneck == own_cap) return cap_then;
    const FillingKey key = key_before(bottleneck);
    return key.filling() ? 0 : std::min(cap_then, key.level * terms(flow).shares);
  }
  /// The cap of a flow at the last settle(), or at restore_cap().
  [[nodiscard]] double cap_before(Slot flow) const noexcept {
    if (caps_before_.empty()) return terms(flow).cap;
    const auto found = caps_before_.find(flow);
    return found == caps_before_.end() ? terms(flow).cap : found->second;
  }
  /// Whether moves() names the flow.
  [[nodiscard]] bool moved(Slot flow) const noexcept { return flow_at(flow).changed; }
  [[nodiscard]] double cap(Slot flow) const noexcept { return terms(flow).cap; }
  [[nodiscard]] double shares(Slot flow) const noexcept { return terms(flow).shares; }
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
  [[nodiscard]] std::vector<LinkUse> uses(Slot flow) const;
  [[nodiscard]] bool uses_link(Slot flow, std::uint32_t link) const noexcept {
    const Word* uses = uses_of(flow);
    const Word* end = uses + flow_at(flow).count;
    const Word* found =
        std::partition_point(uses, end, [&](const Word& word) { return word.use.link < link; });
    return found != end && found->use.link == link;
  }
  /// Calls visit(link) for each link of the flow.
  template <class Visit>
  void for_each_link(Slot flow, Visit visit) const {
    const Word* uses = uses_of(flow);
    const Word* const end = uses + flow_at(flow).count;
    for (; uses != end; ++uses) visit(uses->use.link);
  }
  /// Calls visit(link, bytes per byte) for each link of the flow.
  template <class Visit>
  void for_each_use(Slot flow, Visit visit) const {
    const Word* uses = uses_of(flow);
    const Terms& flow_terms = terms(flow);
    const std::uint32_t count = flow_at(flow).count;
    for (std::uint32_t i = 0; i < count; ++i) visit(uses[i].use.link, flow_terms.amount_on(i));
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
    for (const Crossing& crossing : groups_[link].crossings) visit(crossing.link);
    if (groups_[link].unusual == 0) return;
    for_each_in_group(link, [&](Slot flow) {
      if (flow_at(flow).terms != 0) for_each_link(flow, visit);
    });
  }
  /// Bytes per second on a link.
  [[nodiscard]] double load(std::uint32_t link) const;
  /// Sum of bytes_per_byte * shares of the flows on a link.
  [[nodiscard]] double weight(std::uint32_t link) const;

  /// (flow, link) pairs looked at so far.
  [[nodiscard]] std::uint64_t touched_incidences() const noexcept { return touched_incidences_; }
  /// Whether the link is certainly not saturated.
  [[nodiscard]] bool open(std::uint32_t link) const noexcept { return surely_open(links_[link]); }
  /// The load of a flow with this rate, in units of the link.
  [[nodiscard]] std::int64_t units(std::uint32_t link, double rate, double amount) const noexcept {
    return fixed_load(links_[link].scale, rate, amount);
  }
  /// Capacity less load, in units of the link; of an eased link a lower bound.
  [[nodiscard]] std::int64_t residual(std::uint32_t link) const noexcept {
    return links_[link].residual;
  }
  /// What rounding may add to a residual: a link that stops no flow and has more left is open.
  [[nodiscard]] std::int64_t margin(std::uint32_t link) const noexcept {
    return links_[link].margin;
  }

 private:
  /// Where a flow stands on a link: flows_of_[link][position] is its entry.
  struct Use {
    std::uint32_t link;
    std::uint32_t position;
  };
  /// A use of a link that is not eased: what a new rate needs to know, in one place.
  struct ExactUse {
    std::uint32_t use;
    std::uint32_t link;
    double amount;
  };
  /// What makes a flow other than the usual one of one share, no cap, a byte per byte.
  struct Terms {
    double shares = 1;
    double cap = std::numeric_limits<double>::infinity();
    double amount = 1;  ///< bytes per byte on every link, unless `amounts`
    std::unique_ptr<double[]> amounts{};
    // Of a long flow that is present:
    std::vector<ExactUse> exact{};  ///< uses of links that are not eased
    std::vector<float>
        allowances{};           ///< of each use: the rate counted on an eased link, or infinite
    float least_allowance = 0;  ///< a lower bound of them
    [[nodiscard]] bool capped() const noexcept {
      return cap != std::numeric_limits<double>::infinity();
    }
    [[nodiscard]] double amount_on(std::uint32_t i) const noexcept {
      return amounts ? amounts[i] : amount;
    }
  };
  struct Flow {
    std::uint32_t count : 30 = 0;  ///< how many links the flow uses
    std::uint32_t present : 1 = 0;
    std::uint32_t changed : 1 = 0;
    std::uint32_t terms = 0;  ///< index in terms_; 0 for a usual flow
  };
  /// A flow is kept in consecutive words: a Flow, then a Use for each of its links.
  union Word {
    Flow flow{};
    Use use;
  };
  static_assert(sizeof(Word) == 8);
  /// A flow on a link, and which of the flow's uses is of that link. Of a flow with more than 256
  /// uses: in which 256th of them that use lies.
  struct Entry {
    std::uint32_t flow : 24;
    std::uint32_t use : 8;
  };
  static_assert(sizeof(Entry) == 4);
  static constexpr std::uint64_t many_uses = 256;
  /// A flow is long, and counted by its allowances on eased links, if it uses as many links and
  /// does not have the usual terms.
  static constexpr std::uint32_t long_flow = 32;
  /// What an assignment touches of a link, in one cache line.
  struct alignas(64) Link {
    std::int64_t residual = 0;  ///< capacity less the loads of flows that others stop
    double scale = 1;           ///< fixed-point units per byte per second: a power of two
    Int128 weight = 0;          ///< of the flows that this link stops, and of those still filling
    double floor = 0;           ///< a lower bound of the link's level while flows only stop
    std::int64_t stamp = std::numeric_limits<std::int64_t>::min();  ///< see solve()
    std::int32_t margin = 0;  ///< what rounding may add to `residual`
    float others = 0;         ///< an upper bound of the levels of the flows that others stop
    std::uint32_t own = 0;    ///< how many flows it stops, or still fill: they come first
    bool touched : 1 = false;
    bool eased : 1 = false;
    bool capped = false;            ///< flows with a cap may be on it
    std::uint16_t scale_index = 0;  ///< where `scale` is in scales_
  };
  static_assert(sizeof(Link) == 64);
  /// How many flows of a group use another link. More flows than one Crossing can count take
  /// several of the same link.
  struct Crossing {
    std::uint32_t link : 24;
    std::uint32_t flows : 8;
    static constexpr std::uint32_t full = 255;
  };
  static_assert(sizeof(Crossing) == 4);
  /// The flows that a link stops.
  struct Group {
    FillingKey key_before;            ///< if `changed`
    std::vector<Crossing> crossings;  ///< of usual flows, in order of links
    std::uint32_t flows = 0;
    std::uint32_t unusual = 0;  ///< how many of the flows have Terms of their own
    bool changed = false;
  };
  /// What a change does to the key of a link: `stops` if a filling flow stopped elsewhere.
  enum class Effect : std::uint8_t { raises, stops, lowers };
  /// What assignments to one level have done to a link, until it is touched for all of them.
  struct Assigned {
    double raised = 0;  ///< weight of the flows that take more than before
    Effect effect = Effect::raises;
    bool any = false;
  };
  struct Candidate {
    FillingKey key;
    Slot flow;
    std::uint32_t use;
    bool operator<(const Candidate& other) const noexcept { return key < other.key; }
  };

  /// A load is cut: it can only be so great before the link that it overloads is evaluated, which
  /// is next.
  static constexpr double max_load = 0x1p52;
  [[nodiscard]] static std::int64_t fixed_load(double scale, double rate, double amount) noexcept {
    const double load = rate * amount * scale;
    return static_cast<std::int64_t>(load < max_load ? load : max_load);
  }
  [[nodiscard]] static Int128 fixed_weight(double amount, double shares) noexcept;
  [[nodiscard]] static double level(const Link& link, std::int64_t residual,
                                    Int128 weight) noexcept;
  /// Whether other links stop all flows, and this one has more to spare than rounding could
  /// explain.
  [[nodiscard]] static bool surely_open(const Link& link) noexcept {
    return link.weight == 0 && link.residual > link.margin;
  }
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
    return bottleneck == own_cap ? cap_key(terms(flow)) : FillingKey{};
  }
  [[nodiscard]] Flow& flow_at(Slot flow) noexcept { return words_[first_words_[flow]].flow; }
  [[nodiscard]] const Flow& flow_at(Slot flow) const noexcept {
    return words_[first_words_[flow]].flow;
  }
  [[nodiscard]] Word* uses_of(Slot flow) noexcept { return &words_[first_words_[flow]] + 1; }
  [[nodiscard]] const Word* uses_of(Slot flow) const noexcept {
    return &words_[first_words_[flow]] + 1;
  }
  [[nodiscard]] const Terms& terms(Slot flow) const noexcept { return terms_[flow_at(flow).terms]; }
  [[nodiscard]] Entry entry_of(Slot flow, std::uint32_t use) const noexcept {
    const std::uint64_t count = flow_at(flow).count;
    const std::uint64_t place = count > many_uses ? use * many_uses / count : use;
    return {flow & 0xFFFFFF, static_cast<std::uint32_t>(place) & 0xFF};
  }
  /// Which of a flow's uses is of this link.
  [[nodiscard]] std::uint32_t use_on(std::uint32_t link, Entry entry) const noexcept;
  [[nodiscard]] bool is_long(const Flow& flow) const noexcept {
    return flow.terms != 0 && flow.count >= long_flow;
  }
  template <class Visit>
  void account(Slot flow, bool filling, double from, double to, Visit visit);
  [[nodiscard]] float allowance_for(std::uint32_t link, double counted, double to,
                                    double amount) const noexcept;
  void count_exactly(std::uint32_t link);
  void ease_touched();
  void ease(std::uint32_t link);
  Terms& own_terms(Slot flow);
  void clear_terms(Slot flow);
  [[nodiscard]] std::uint32_t take_words(std::uint32_t count);
  void give_words_back(std::uint32_t first);

  void note_move(Slot flow);
  void note_shift(std::uint32_t link);
  /// Whether the links that a change touches are to be evaluated.
  enum class Then : std::uint8_t { evaluate, leave };
  void assign(Slot flow, std::uint32_t bottleneck, std::uint32_t by, Then then);
  void join_group(Slot flow, std::uint32_t bottleneck);
  void leave_group(Slot flow);
  void touch(std::uint32_t link, Effect effect, double level = 0, double raised = 0);
  [[nodiscard]] double open_bound(std::uint32_t link, double level, double weight) const noexcept;
  void enter(std::uint32_t link);
  void exchange(std::uint32_t link, std::uint32_t a, std::uint32_t b);
  void take(Use& use);
  void leave_to_others(Use& use, double level);
  void evaluate(std::uint32_t link, double bound);
  void note_assigned(std::uint32_t link, Effect effect, double weight);
  void touch_assigned(double level);
  [[nodiscard]] bool comes_later(std::uint32_t link, FillingKey key);
  void stop_own(std::uint32_t link, FillingKey key);
  void shift(std::uint32_t link, FillingKey key, Then then);
  void refill(std::uint32_t link, double level);
  class Walk;
  void join_links(Slot flow, Then then);
  void leave_links(Slot flow, Then then);

  Table<Link> links_;
  Table<ShortList<Entry>> flows_of_;        ///< of each link
  std::vector<double> scales_;              ///< the different scales of links
  std::vector<std::int64_t> changes_;       ///< shift(): of one flow's load, in units of each scale
  std::vector<double> capacities_;          ///< of each link, bytes per second
  std::vector<Word> words_;                 ///< the first stands for erased flows
  std::vector<std::uint32_t> first_words_;  ///< of each flow
  /// Where words are free: those of erased flows, by their number of links.
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> free_words_;
  std::vector<std::uint32_t> bottlenecks_;  ///< of each flow
  Table<FillingKey> keys_;                  ///< of each link
  Table<Group> groups_;                     ///< of each link
  std::vector<Slot> free_;
  std::vector<Terms> terms_;  ///< the first is that of all usual flows
  std::vector<std::uint32_t> free_terms_;
  std::vector<Move> moves_;
  std::vector<std::uint32_t> shifts_;
  LinkQueue queue_;
  std::vector<std::uint32_t> touched_;  ///< the first touched_count_ are in use
  std::size_t touched_count_ = 0;
  static constexpr std::uint64_t first_depth_limit = 16;
  std::uint64_t depth_limit_ = first_depth_limit;
  /// Of the flows whose caps have changed since the last settle().
  std::unordered_map<Slot, double> caps_before_{};
  bool guessed_ = false;  ///< a group may have flows whose caps lie below its key
  std::int64_t instant_ = std::numeric_limits<std::int64_t>::max();
  std::vector<Candidate> candidates_;
  std::vector<Crossing> missing_;
  std::vector<Assigned> assigned_;  ///< of each link
  std::vector<std::uint32_t> assigned_links_;
  bool easing_ = true;
  bool tell_of_all_ = false;
  std::uint32_t long_flows_ = 0;  ///< that are present
  std::uint32_t eased_count_ = 0;
  std::uint64_t touched_incidences_ = 0;
};

}  // namespace phantora
