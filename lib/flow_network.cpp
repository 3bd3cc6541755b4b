#include "earliest_end.hpp"
#include "max_min.hpp"
#include "touch_list.hpp"
#include "trail.hpp"

#include <phantora/error.hpp>
#include <phantora/flow_network.hpp>

#include <algorithm>
#include <cmath>
#include <deque>
#include <exception>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace phantora {
namespace {

using Slot = MaxMin::Slot;
using Ps = std::int64_t;

constexpr Ps none = EarliestEnd::none;

constexpr Time to_time(Ps ps) noexcept { return Time{Duration{ps}}; }
constexpr Ps to_ps(Time t) noexcept { return t.time_since_epoch().count(); }

/// When `bytes` have drained at `rate`, rounded up to a whole picosecond; none if they never do.
Ps drained(Ps since, double bytes, double rate) noexcept {
  // The quotient of three roundings may lie 2 units in the last place above a whole number.
  const double ps = std::ceil(bytes / rate * 1e12 * (1 - 0x1p-50));
  // 9.2e18 ps is just inside the range of int64; at rate 0 this is infinite.
  if (!(ps < 9.2e18 - static_cast<double>(since))) return none;
  return since + static_cast<Ps>(ps);
}

/// What a flow is doing; in place of the bytes that remain where there are none to move.
constexpr double not_started = -3, cancelled = -2, finished = -1;

/// A flow's progress: `remaining` bytes at `since`, moved on only when its rate changes. Of a flow
/// that has ended, `since` is when.
struct Progress {
  Ps since = 0;
  double remaining = not_started;
  Duration latency{};
  std::uint64_t id = 0;
};

enum class Kind : std::uint8_t { start, cancel, cap, capacity };

/// Something told by the caller. At one instant starts come before cancels and those before changes
/// of caps and capacities; changes of one thing at one instant apply in the order they were told.
struct Input {
  Ps at;
  std::uint64_t order;
  std::uint64_t id;       ///< flow or link
  double value;           ///< size, or what it becomes
  double previous = 0.0;  ///< what it was, once applied
  Kind kind;
  bool operator<(const Input& other) const noexcept {  // as a heap: the earliest on top
    if (at != other.at) return other.at < at;
    if (kind != other.kind) return other.kind < kind;
    return other.order < order;
  }
};

/// What a flow was before an instant that changed it.
struct Before {
  static constexpr Ps not_running = std::numeric_limits<Ps>::min();
  /// It did not change, but the instant has to do with its links.
  static constexpr Ps unchanged = std::numeric_limits<Ps>::min() + 1;
  Ps since;  ///< or one of these
  double remaining;
  double level;
  std::uint64_t slot_and_order;  ///< 24 bits of slot, 40 of FillingKey::order

  [[nodiscard]] Slot slot() const noexcept { return static_cast<Slot>(slot_and_order >> 40); }
  [[nodiscard]] FillingKey key() const noexcept {
    return {level, slot_and_order & ((std::uint64_t{1} << 40) - 1)};
  }
};
static_assert(sizeof(Before) == 32);

/// The route that a flow had before an instant that changed it.
struct Rerouted {
  Slot slot;
  std::vector<LinkUse> links;
  Duration latency;
};

/// A part of a trail.
struct Part {
  std::uint64_t begin, end;
};

/// An executed instant: its part of each trail.
struct Instant {
  Ps at;
  Part before, inputs, routes, ended;
};

struct EndPoints {
  NodeId src, dst;
  std::uint64_t key;
  Duration latency;                      ///< on top of the route's
  std::shared_ptr<const Router> router;  ///< its own, in place of the network's
};

/// Sorts by link and adds up repeated ones.
void merge_links(std::vector<LinkUse>& links) {
  std::sort(links.begin(), links.end(),
            [](const LinkUse& a, const LinkUse& b) { return a.link < b.link; });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < links.size(); ++i) {
    if (kept > 0 && links[kept - 1].link == links[i].link) {
      links[kept - 1].bytes_per_byte += links[i].bytes_per_byte;
    } else {
      links[kept++] = links[i];
    }
  }
  links.resize(kept);
}

}  // namespace

/// Time on top of MaxMin: progress, events in order, and a journal to take them back.
///
/// Each executed instant leaves in the journal what every flow was before it. Undoing restores that
/// and computes nothing, so it is exact.
///
/// Selective. An instant depends on another only through links. A change told late is executed at
/// its instant on the network as it is. If a link that it has to evaluate has been touched since,
/// the instants that did are undone first, and before each of them those that depend on it; their
/// events become pending again. All others stay: executed before or after, they are the same.
///
/// A link that is certainly not saturated, before and after an instant, decides nothing there:
/// loads on it just add up. So an instant that only adds to such a link does not depend on others
/// that do, as long as the link stays so at all of them. Each link keeps the instants that touched
/// it, with its residual before each.
///
/// A flow's changes hang together all the same: where one change of it ends with the link that
/// holds it, the next begins, and that link is saturated in both. A flow held by its own cap has no
/// such link; its changes count as dependent on all its links.
///
/// Everything from the late change on is undone where dependence goes further than links: observers
/// want to be told in order, routes may follow load, and links that are down move flows.
class FlowNetwork::Impl {
 public:
  explicit Impl(NetworkView network)
      : view_{std::move(network)},
        solver_{view_.capacities()},
        observers_{std::make_shared<std::vector<FlowObserver*>>()},
        touches_(view_.link_count()) {
    if (view_.router() && view_.router()->depends_on_load()) selective_ = false;
  }

  FlowId start(FlowSpec spec) {
    PHANTORA_EXPECTS(spec.size > Bytes{0}, "a flow has a size");
    PHANTORA_EXPECTS(spec.shares > 0 && std::isfinite(spec.shares), "shares are positive");
    PHANTORA_EXPECTS(spec.rate_cap > Bandwidth{0.0}, "a rate cap is positive");
    PHANTORA_EXPECTS(spec.latency >= Duration{0}, "a latency is not negative");
    PHANTORA_EXPECTS(spec.start >= Time{}, "time starts at 0");
    check_committed(spec.start);
    Duration latency = spec.latency;
    const bool routed = spec.links.empty();
    if (routed) {
      PHANTORA_EXPECTS(view_.router(), "a flow names its links in a network without routes");
      Route route = view_.router()->route({.src = spec.src, .dst = spec.dst, .key = spec.key});
      spec.links = std::move(route.links);
      latency += route.latency;
    }
    merge_links(spec.links);
    for (const LinkUse& use : spec.links) {
      PHANTORA_EXPECTS(use.link.value < view_.link_count(), "a flow uses links of this network");
      PHANTORA_EXPECTS(use.bytes_per_byte > 0 && std::isfinite(use.bytes_per_byte),
                       "a flow puts a positive load on each link");
    }
    const Slot slot = solver_.create(spec.links, spec.shares, spec.rate_cap.bytes_per_second());
    const std::uint64_t id = first_cell_ + cells_.size();
    cells_.push_back(-1 - static_cast<Ps>(slot));
    if (slot >= progress_.size()) progress_.resize(slot + 1);
    progress_[slot] = {0, not_started, latency, id};
    if (routed)
      end_points_.insert_or_assign(slot, EndPoints{spec.src, spec.dst, spec.key, spec.latency, {}});
    else if (spec.router && view_.router())
      end_points_.insert_or_assign(
          slot, EndPoints{spec.src, spec.dst, spec.key, spec.latency, std::move(spec.router)});
    tell({to_ps(spec.start), next_order_++, id, static_cast<double>(spec.size.count()), 0.0,
          Kind::start});
    return FlowId{id};
  }

  void change(Kind kind, Time at, std::uint64_t id, double value) {
    check_committed(at);
    if (kind != Kind::capacity) {
      PHANTORA_EXPECTS(id < first_cell_ + cells_.size(), "a flow of this network");
      if (!slot_of(id)) return;  // ended before the last commit
    } else {
      PHANTORA_EXPECTS(id < view_.link_count(), "a link of this network");
      if (value <= 0 && view_.router()) selective_ = false;
    }
    tell({to_ps(at), next_order_++, id, value, 0.0, kind});
  }

  [[nodiscard]] Time now() const noexcept { return to_time(now_); }

  [[nodiscard]] Time next_event() noexcept {
    catch_up();
    const Ps next = next_instant();
    return next == none ? never : to_time(next);
  }

  void advance(Time until) {
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    run(until == never ? none - 1 : to_ps(until));
    now_ = std::max(now_, until == never ? last_instant() : to_ps(until));
  }

  [[nodiscard]] std::optional<Time> completion(std::uint64_t id) {
    catch_up();
    const Ps cell = cell_of(id);
    if (cell >= 0) return to_time(cell);
    if (cell <= gone) return std::nullopt;
    const Progress& progress = progress_[static_cast<Slot>(-1 - cell)];
    if (progress.remaining != finished) return std::nullopt;
    return to_time(progress.since) + progress.latency;
  }

  [[nodiscard]] double rate(std::uint64_t id) {
    catch_up();
    const auto slot = slot_of(id);
    return slot ? solver_.rate(*slot) : 0.0;
  }

  [[nodiscard]] double load(std::uint32_t link) {
    catch_up();
    PHANTORA_EXPECTS(link < view_.link_count(), "a link of this network");
    return solver_.load(link);
  }

  [[nodiscard]] std::optional<LinkId> bottleneck(std::uint64_t id) {
    catch_up();
    const auto slot = slot_of(id);
    if (!slot || !solver_.present(*slot)) return std::nullopt;
    const FillingKey key = solver_.key(*slot);
    if (key.filling() || key.link() == FillingKey::cap_link) return std::nullopt;
    return LinkId{key.link()};
  }

  [[nodiscard]] std::vector<LinkUse> links(std::uint64_t id) {
    catch_up();
    const auto slot = slot_of(id);
    return slot ? solver_.uses(*slot) : std::vector<LinkUse>{};
  }

  [[nodiscard]] Checkpoint checkpoint() const { return {now(), next_order_}; }

  void rollback(const Checkpoint& checkpoint) {
    PHANTORA_EXPECTS(checkpoint.now <= now(), "a checkpoint lies in the past");
    check_committed(checkpoint.now);
    const auto later = [&](const Input& in) { return in.order >= checkpoint.inputs; };
    Ps from = to_ps(checkpoint.now) + 1;
    for (const Instant& it : instants_)
      for (std::uint64_t i = it.inputs.begin; i < it.inputs.end; ++i)
        if (later(applied_[i])) from = std::min(from, it.at);
    undo_from(from);
    for (const Input& in : pending_) {
      if (later(in) && in.kind == Kind::start) {
        release(*slot_of(in.id));
        cells_[static_cast<std::size_t>(in.id - first_cell_)] = gone;
      }
    }
    std::erase_if(pending_, later);
    std::make_heap(pending_.begin(), pending_.end());
    next_order_ = checkpoint.inputs;
    now_ = to_ps(checkpoint.now);
    run(now_);
  }

  void commit(Time gvt) {
    PHANTORA_EXPECTS(gvt <= now(), "only the past is committed");
    catch_up();
    if (to_ps(gvt) <= committed_) return;
    committed_ = to_ps(gvt);
    std::size_t dropped = 0;
    while (dropped < instants_.size() && instants_[dropped].at < committed_) {
      const Part ended = instants_[dropped].ended;
      for (std::uint64_t i = ended.begin; i < ended.end; ++i) {
        const Slot slot = ended_[i];
        const Progress& progress = progress_[slot];
        cells_[static_cast<std::size_t>(progress.id - first_cell_)] =
            progress.remaining == finished ? progress.since + progress.latency.count() : gone;
        release(slot);
      }
      last_dropped_ = instants_[dropped].at;
      ++dropped;
    }
    if (dropped > 0) {
      instants_.erase(instants_.begin(), instants_.begin() + static_cast<std::ptrdiff_t>(dropped));
      Instant first = here(committed_);
      for (const Instant& it : instants_) {
        first.before.begin = std::min(first.before.begin, it.before.begin);
        first.inputs.begin = std::min(first.inputs.begin, it.inputs.begin);
        first.routes.begin = std::min(first.routes.begin, it.routes.begin);
        first.ended.begin = std::min(first.ended.begin, it.ended.begin);
      }
      before_.drop_before(first.before.begin);
      applied_.drop_before(first.inputs.begin);
      routes_.drop_before(first.routes.begin);
      ended_.drop_before(first.ended.begin);
    }
    for (FlowObserver* it : *observers_) it->on_commit(gvt);
  }

  void forget(std::uint64_t id) {
    const Ps cell = cell_of(id);
    PHANTORA_EXPECTS(cell >= 0 || cell <= gone,
                     "a flow is forgotten after it ended in committed time");
    cells_[static_cast<std::size_t>(id - first_cell_)] = forgotten;
    while (!cells_.empty() && cells_.front() == forgotten) {
      cells_.pop_front();
      ++first_cell_;
    }
  }

  [[nodiscard]] Subscription subscribe(FlowObserver& observer) {
    observers_->push_back(&observer);
    return Subscription{
        std::shared_ptr<void>{nullptr, [list = std::weak_ptr{observers_}, it = &observer](void*) {
                                if (const auto alive = list.lock()) std::erase(*alive, it);
                              }}};
  }

  [[nodiscard]] const FlowStatistics& statistics() const noexcept { return statistics_; }

 private:
  // Cells of flows that have no slot: a completion (>= 0), or one of these.
  static constexpr Ps gone = std::numeric_limits<Ps>::min() + 1;
  static constexpr Ps forgotten = std::numeric_limits<Ps>::min();

  void check_committed(Time at) const {
    if (to_ps(at) < committed_)
      throw CommitError{"a change at " + std::to_string(to_ps(at)) +
                        " ps is told after a commit at " + std::to_string(committed_) + " ps"};
  }

  [[nodiscard]] Ps cell_of(std::uint64_t id) const {
    PHANTORA_EXPECTS(id < first_cell_ + cells_.size(), "a flow of this network");
    return id < first_cell_ ? forgotten : cells_[static_cast<std::size_t>(id - first_cell_)];
  }
  [[nodiscard]] std::optional<Slot> slot_of(std::uint64_t id) const {
    const Ps cell = cell_of(id);
    if (cell >= 0 || cell <= gone) return std::nullopt;
    return static_cast<Slot>(-1 - cell);
  }

  void tell(const Input& input) {
    pending_.push_back(input);
    std::push_heap(pending_.begin(), pending_.end());
  }

  [[nodiscard]] Ps last_instant() const noexcept {
    return instants_.empty() ? last_dropped_ : std::max(last_dropped_, instants_.back().at);
  }
  [[nodiscard]] Ps next_instant() const noexcept {
    return std::min(pending_.empty() ? none : pending_.front().at, ends_.earliest());
  }

  /// Makes the present consistent with changes told about the past.
  void catch_up() noexcept {
    if (pending_.empty() || pending_.front().at >= now_) return;
    try {
      run(now_);
    } catch (...) {  // from an observer: next_event() cannot throw, the next advance_to() does
      error_ = std::current_exception();
    }
  }

  void run(Ps until) {
    if (!pending_.empty() && pending_.front().at <= until && !instants_.empty() &&
        pending_.front().at <= instants_.back().at) {
      ++statistics_.rollbacks;
      if (!observers_->empty() || !selective_) undo_from(pending_.front().at);
    }
    for (Ps next = next_instant(); next <= until; next = next_instant())
      while (!execute(next)) {
      }
  }

  /// An instant of which nothing has been written yet.
  [[nodiscard]] Instant here(Ps at) const noexcept {
    return {at,
            {before_.end(), before_.end()},
            {applied_.end(), applied_.end()},
            {routes_.end(), routes_.end()},
            {ended_.end(), ended_.end()}};
  }
  void close(Instant& instant) const noexcept {
    instant.before.end = before_.end();
    instant.inputs.end = applied_.end();
    instant.routes.end = routes_.end();
    instant.ended.end = ended_.end();
  }

  /// @return false if later instants were in the way; they have been undone.
  bool execute(Ps at) {
    ++statistics_.events;
    statistics_.replayed_events += at <= furthest_;
    furthest_ = std::max(furthest_, at);
    Instant instant = here(at);
    solver_.set_instant(at);
    closed_.clear();
    ends_.for_each_at(at, [&](Slot slot) { end(slot, at, finished); });
    bool links_changed = false;
    while (!pending_.empty() && pending_.front().at == at) {
      std::pop_heap(pending_.begin(), pending_.end());
      Input input = pending_.back();
      pending_.pop_back();
      links_changed |= apply(input);
      applied_.push(input);
    }
    if (links_changed) reroute();
    const auto& changes = solver_.solve();
    statistics_.touched_incidences = solver_.touched_incidences();
    const std::vector<std::uint32_t> conflicts = find_conflicts(at);
    if (!conflicts.empty()) {
      close(instant);
      undo(instant);
      solver_.settle();
      for (const std::uint32_t link : conflicts) undo_touching(link, at);
      return false;
    }
    for (const MaxMin::Touched& touched : solver_.touched_links()) note_touch(touched, at);
    for (const MaxMin::Change& change : changes) {
      const double rate = solver_.rate(change.flow);
      statistics_.rate_changes += rate != change.rate;
      if (!solver_.present(change.flow)) continue;
      Progress& progress = progress_[change.flow];
      if (!change.key.filling()) remember(change.flow, change.key);
      if (rate != change.rate) {
        progress.remaining = std::max(
            0.0, progress.remaining - change.rate * to_seconds(Duration{at - progress.since}));
        progress.since = at;
        ends_.set(change.flow, drained(at, progress.remaining, rate));
      }
    }
    if (!observers_->empty()) report(at, changes);
    solver_.settle();
    close(instant);
    instants_.insert(std::upper_bound(instants_.begin(), instants_.end(), at,
                                      [](Ps t, const Instant& it) { return t < it.at; }),
                     instant);
    return true;
  }

  /// The links where a solve does not hold at its instant, or not beside later ones.
  [[nodiscard]] std::vector<std::uint32_t> find_conflicts(Ps at) {
    std::vector<std::uint32_t> conflicts(solver_.conflicts().begin(), solver_.conflicts().end());
    if (!conflicts.empty()) return conflicts;
    for (const MaxMin::Change& change : solver_.changes()) {
      const FillingKey now = solver_.key(change.flow);
      const auto capped = [](FillingKey key) {
        return !key.filling() && key.link() == FillingKey::cap_link;
      };
      if (capped(change.key) || capped(now))
        solver_.for_each_link(change.flow, [&](std::uint32_t l) { closed_.push_back(l); });
    }
    std::sort(closed_.begin(), closed_.end());
    for (const MaxMin::Touched& touched : solver_.touched_links()) {
      if (solver_.stamp(touched.link) < at) continue;
      const std::int64_t change = solver_.residual(touched.link) - touched.residual;
      const bool decides = !touched.open || !solver_.open(touched.link) || closed(touched.link);
      if (decides || !stays_open(touched.link, first_touch(touched.link, at), change, 0))
        conflicts.push_back(touched.link);
    }
    return conflicts;
  }

  [[nodiscard]] bool closed(std::uint32_t link) const {
    return std::binary_search(closed_.begin(), closed_.end(), link);
  }

  /// The first touch of a link at or after an instant.
  [[nodiscard]] std::size_t first_touch(std::uint32_t link, Ps at) const {
    const TouchList& touches = touches_[link];
    std::size_t i = touches.size();
    while (i > 0 && touches[i - 1].at >= at) --i;
    return i;
  }

  /// Whether the touches from the `first` on stay what they are if the residual changes there.
  /// After the last of them too: `change_after` is what is yet to come to the residual of now.
  [[nodiscard]] bool stays_open(std::uint32_t link, std::size_t first, std::int64_t change,
                                std::int64_t change_after) const {
    const TouchList& touches = touches_[link];
    if (!solver_.open_with(link, solver_.residual(link) + change_after)) return false;
    for (std::size_t i = first; i < touches.size(); ++i)
      if (!touches[i].open || !solver_.open_with(link, touches[i].residual + change)) return false;
    return true;
  }

  void note_touch(const MaxMin::Touched& touched, Ps at) {
    TouchList& touches = touches_[touched.link];
    const bool open = touched.open && solver_.open(touched.link) && !closed(touched.link);
    if (touches.last() < at) {
      touches.push({at, touched.residual, open}, committed_);
      solver_.set_stamp(touched.link, at);
      return;
    }
    // Later touches find another residual.
    const std::size_t first = first_touch(touched.link, at);
    const std::int64_t change = solver_.residual(touched.link) - touched.residual;
    const Touch touch{at, touches[first].residual, open};
    for (std::size_t i = first; i < touches.size(); ++i) touches[i].residual += change;
    touches.insert(first, touch);
  }

  /// Forgets the i-th touch of a link; what it did to the residual has been undone.
  void drop_touch(std::uint32_t link, std::size_t i, std::int64_t change) {
    TouchList& touches = touches_[link];
    for (std::size_t k = i + 1; k < touches.size(); ++k) touches[k].residual -= change;
    touches.erase(i);
    solver_.set_stamp(link, touches.last());
  }

  /// What the i-th touch of a link did to its residual.
  [[nodiscard]] std::int64_t change_of(std::uint32_t link, std::size_t i) const {
    const TouchList& touches = touches_[link];
    return (i + 1 < touches.size() ? touches[i + 1].residual : solver_.residual(link)) -
           touches[i].residual;
  }

  /// Undoes the instants from `at` on that touched the link.
  void undo_touching(std::uint32_t link, Ps at) {
    while (solver_.stamp(link) >= at) {
      const Ps last = solver_.stamp(link);
      undo_at(last);
      // It may have looked at the link without changing a flow there.
      if (touches_[link].last() == last) drop_touch(link, touches_[link].size() - 1, 0);
    }
  }

  /// Undoes an instant, and before it all later ones that depend on it.
  void undo_at(Ps at) {
    const auto range = [&] {
      return std::equal_range(instants_.begin(), instants_.end(), at, ByTime{});
    };
    auto [first, last] = range();
    if (first == last) return;
    if (undoing_ == links_of_undone_.size()) links_of_undone_.emplace_back();
    std::vector<std::uint32_t>& links = links_of_undone_[undoing_++];
    links.clear();
    for (auto it = first; it != last; ++it) collect_links(*it, links);
    std::sort(links.begin(), links.end());
    links.erase(std::unique(links.begin(), links.end()), links.end());
    for (const std::uint32_t link : links) {
      const std::size_t mine = first_touch(link, at), next = first_touch(link, at + 1);
      bool open = true;
      std::int64_t change = 0;
      for (std::size_t k = mine; k < next; ++k) {
        open &= touches_[link][k].open;
        change += change_of(link, k);
      }
      if (next < touches_[link].size() && (!open || !stays_open(link, next, -change, -change)))
        undo_touching(link, at + 1);
    }
    // What is left of later touches only sees other residuals.
    std::tie(first, last) = range();
    for (auto it = last; it != first;) undo(*--it);
    instants_.erase(first, last);
    solver_.settle();
    for (const std::uint32_t link : links) {
      for (std::size_t i;
           i = first_touch(link, at), i < touches_[link].size() && touches_[link][i].at == at;) {
        const bool is_last = i + 1 == touches_[link].size();
        const std::int64_t change =
            is_last ? 0 : touches_[link][i + 1].residual - touches_[link][i].residual;
        drop_touch(link, i, change);
      }
    }
    --undoing_;
  }

  void collect_links(const Instant& instant, std::vector<std::uint32_t>& links) {
    for (std::uint64_t i = instant.before.begin; i < instant.before.end; ++i)
      solver_.for_each_link(before_[i].slot(), [&](std::uint32_t l) { links.push_back(l); });
    for (std::uint64_t i = instant.inputs.begin; i < instant.inputs.end; ++i)
      if (applied_[i].kind == Kind::capacity)
        links.push_back(static_cast<std::uint32_t>(applied_[i].id));
  }

  void remember(Slot slot, FillingKey key) {
    const Progress& progress = progress_[slot];
    before_.push({progress.since, progress.remaining, key.level,
                  std::uint64_t{slot} << 40 | (key.order & ((std::uint64_t{1} << 40) - 1))});
  }
  void remember_not_running(Slot slot) {
    before_.push({Before::not_running, 0.0, 0.0, std::uint64_t{slot} << 40});
  }
  void remember_links(Slot slot) {
    before_.push({Before::unchanged, 0.0, 0.0, std::uint64_t{slot} << 40});
  }

  /// Takes a flow out of the network, for good unless undone.
  void end(Slot slot, Ps at, double how) {
    Progress& progress = progress_[slot];
    if (solver_.present(slot)) {
      const FillingKey key = solver_.key(slot);
      // A flow that started at this very instant has its record already.
      if (!key.filling()) remember(slot, key);
      solver_.remove(slot);
    } else {
      remember_not_running(slot);
    }
    progress.since = at;
    progress.remaining = how;
    ends_.set(slot, none);
    ended_.push(slot);
  }

  /// Makes the instant depend on the flow's links even if it changes nothing there.
  void touch_links(Slot slot) {
    solver_.for_each_link(slot, [&](std::uint32_t link) {
      solver_.look_at(link);
      closed_.push_back(link);
    });
  }

  /// @return whether a link went down or came up.
  bool apply(Input& input) {
    if (input.kind == Kind::capacity) {
      const auto link = static_cast<std::uint32_t>(input.id);
      input.previous = solver_.capacity(link);
      solver_.set_capacity(link, input.value);
      closed_.push_back(link);
      const bool was_up = input.previous > 0, is_up = input.value > 0;
      if (was_up && !is_up) down_.push_back(link);
      if (!was_up && is_up) std::erase(down_, link);
      return was_up != is_up;
    }
    const auto slot = slot_of(input.id);
    if (!slot) return false;
    Progress& progress = progress_[*slot];
    switch (input.kind) {
      case Kind::start:
        if (progress.remaining == cancelled) {
          remember_links(*slot);
          touch_links(*slot);
          break;
        }
        remember_not_running(*slot);
        progress.since = input.at;
        progress.remaining = input.value;
        choose_route(*slot);
        solver_.insert(*slot);
        break;
      case Kind::cancel:
        if (progress.remaining >= 0 || progress.remaining == not_started) {
          end(*slot, input.at, cancelled);
        } else {
          remember_links(*slot);
        }
        touch_links(*slot);
        break;
      case Kind::cap:
        input.previous = solver_.cap(*slot);
        remember_links(*slot);
        solver_.set_cap(*slot, input.value);
        touch_links(*slot);
        break;
      case Kind::capacity:
        break;
    }
    return false;
  }

  [[nodiscard]] RouteRequest request(const EndPoints& ends) {
    return {.src = ends.src,
            .dst = ends.dst,
            .key = ends.key,
            .capacity = [this](LinkId link) { return solver_.capacity(link.value); },
            .load = [this](LinkId link) { return solver_.weight(link.value); }};
  }

  /// Gives a flow another route, unless the router finds none or the same.
  void take_route(Slot slot, const EndPoints& ends) {
    Route route;
    try {
      route = (ends.router ? ends.router.get() : view_.router())->route(request(ends));
    } catch (const RouteError&) {
      return;  // it stalls on the link that is down until a link comes up
    }
    merge_links(route.links);
    std::vector<LinkUse> old = solver_.uses(slot);
    if (old == route.links) return;
    Progress& progress = progress_[slot];
    routes_.push({slot, std::move(old), progress.latency});
    progress.latency = route.latency + ends.latency;
    if (solver_.present(slot)) {
      // Undoing takes it off its links even where neither its rate nor its bottleneck changes.
      if (!solver_.key(slot).filling()) remember(slot, solver_.key(slot));
      solver_.remove(slot);
      solver_.redirect(slot, route.links);
      solver_.insert(slot);
    } else {
      solver_.redirect(slot, route.links);
    }
  }

  void choose_route(Slot slot) {
    if (!view_.router() || (down_.empty() && !view_.router()->depends_on_load())) return;
    const auto ends = end_points_.find(slot);
    if (ends == end_points_.end() || (ends->second.router && down_.empty())) return;
    take_route(slot, ends->second);
  }

  /// Moves routed flows off the links that are down, in an order of their own.
  void reroute() {
    std::vector<Slot> stalled;
    for (const std::uint32_t link : down_)
      for (const Slot slot : solver_.flows_on(link))
        if (end_points_.contains(slot)) stalled.push_back(slot);
    std::sort(stalled.begin(), stalled.end(), [&](Slot a, Slot b) {
      const EndPoints &x = end_points_.at(a), &y = end_points_.at(b);
      return std::tie(x.key, x.src, x.dst, progress_[a].id) <
             std::tie(y.key, y.src, y.dst, progress_[b].id);
    });
    stalled.erase(std::unique(stalled.begin(), stalled.end()), stalled.end());
    for (const Slot slot : stalled) take_route(slot, end_points_.at(slot));
  }

  /// Undoes everything from an instant on.
  void undo_from(Ps at) {
    if (instants_.empty() || instants_.back().at < at) return;
    Ps first = at;
    while (!instants_.empty() && instants_.back().at >= at) {
      first = instants_.back().at;
      undo_at(first);
    }
    for (FlowObserver* it : *observers_) it->on_rollback(to_time(first));
  }

  /// Restores what an instant, or an attempt at one, has changed; nothing later stands on it.
  void undo(const Instant& instant) {
    for (std::uint64_t i = instant.inputs.end; i-- > instant.inputs.begin;) {
      const Input& input = applied_[i];
      if (input.kind == Kind::capacity) {
        const auto link = static_cast<std::uint32_t>(input.id);
        const bool was_up = input.previous > 0, is_up = input.value > 0;
        solver_.set_capacity(link, input.previous);
        if (was_up && !is_up) std::erase(down_, link);
        if (!was_up && is_up) down_.push_back(link);
      } else if (input.kind == Kind::cap) {
        if (const auto slot = slot_of(input.id)) solver_.restore_cap(*slot, input.previous);
      }
      tell(input);
    }
    for (std::uint64_t i = instant.routes.end; i-- > instant.routes.begin;) {
      const Rerouted& it = routes_[i];
      if (solver_.present(it.slot)) solver_.withdraw(it.slot);
      solver_.redirect(it.slot, it.links);
      progress_[it.slot].latency = it.latency;
    }
    // Of an attempt, the solver knows what it has changed; else this is empty.
    for (std::size_t i = 0; i < solver_.changes().size(); ++i) {
      const MaxMin::Change change = solver_.changes()[i];
      if (!change.key.filling()) {
        solver_.restore(change.flow, change.key);
      } else if (solver_.present(change.flow)) {
        solver_.withdraw(change.flow);
      }
    }
    for (std::uint64_t i = instant.before.end; i-- > instant.before.begin;) {
      const Before& it = before_[i];
      const Slot slot = it.slot();
      Progress& progress = progress_[slot];
      if (it.since == Before::unchanged) continue;
      if (it.since == Before::not_running) {
        if (solver_.present(slot)) solver_.withdraw(slot);
        progress.remaining = not_started;
        ends_.set(slot, none);
      } else {
        solver_.restore(slot, it.key());
        progress.since = it.since;
        progress.remaining = it.remaining;
        ends_.set(slot, drained(it.since, it.remaining, solver_.rate(slot)));
      }
    }
    if (instant.before.end == before_.end()) before_.cut_back(instant.before.begin);
    if (instant.inputs.end == applied_.end()) applied_.cut_back(instant.inputs.begin);
    if (instant.routes.end == routes_.end()) routes_.cut_back(instant.routes.begin);
    if (instant.ended.end == ended_.end()) ended_.cut_back(instant.ended.begin);
  }

  void release(Slot slot) {
    end_points_.erase(slot);
    solver_.erase(slot);
  }

  void report(Ps at, const std::vector<MaxMin::Change>& changes) {
    const Time time = to_time(at);
    for (FlowObserver* it : *observers_) {
      for (const MaxMin::Change& change : changes) {
        const Progress& progress = progress_[change.flow];
        const FlowId id{progress.id};
        if (change.key.filling()) it->on_flow_start(id, time);
        if (solver_.rate(change.flow) != change.rate)
          it->on_rate_change(id, time, Bandwidth{solver_.rate(change.flow)});
        if (progress.remaining == finished) it->on_flow_finish(id, time + progress.latency);
      }
      for (const MaxMin::Touched& touched : solver_.touched_links())
        it->on_link_load(LinkId{touched.link}, time, Bandwidth{solver_.load(touched.link)});
    }
  }

  NetworkView view_;
  MaxMin solver_;
  EarliestEnd ends_;
  std::vector<Progress> progress_;
  std::unordered_map<Slot, EndPoints> end_points_;
  std::vector<std::uint32_t> down_;
  std::deque<Ps> cells_;  ///< of each flow: -1 - slot while it has one, else see `gone`
  std::uint64_t first_cell_ = 0;
  std::vector<Input> pending_;
  std::uint64_t next_order_ = 0;

  struct ByTime {
    bool operator()(const Instant& a, Ps b) const noexcept { return a.at < b; }
    bool operator()(Ps a, const Instant& b) const noexcept { return a < b.at; }
  };
  std::vector<Instant> instants_;  ///< by time; those at one time in the order of execution
  Trail<Before> before_;
  Trail<Input> applied_;
  Trail<Rerouted> routes_;
  Trail<Slot> ended_;
  std::shared_ptr<std::vector<FlowObserver*>> observers_;
  std::vector<TouchList> touches_;     ///< of each link, by time
  std::vector<std::uint32_t> closed_;  ///< links on which the instant being executed depends anyway
  std::deque<std::vector<std::uint32_t>> links_of_undone_;  ///< of each undo in progress, for reuse
  std::size_t undoing_ = 0;
  bool selective_ = true;

  Ps now_ = 0;
  Ps committed_ = 0;
  Ps last_dropped_ = 0;
  Ps furthest_ = -1;
  std::exception_ptr error_;
  FlowStatistics statistics_;
};

FlowNetwork::FlowNetwork(NetworkView network) : impl_{std::make_unique<Impl>(std::move(network))} {}
FlowNetwork::FlowNetwork(FlowNetwork&&) noexcept = default;
FlowNetwork& FlowNetwork::operator=(FlowNetwork&&) noexcept = default;
FlowNetwork::~FlowNetwork() = default;

FlowId FlowNetwork::start(FlowSpec spec) { return impl_->start(std::move(spec)); }
void FlowNetwork::cancel(FlowId flow, Time at) { impl_->change(Kind::cancel, at, flow.value, 0); }
void FlowNetwork::set_rate_cap(FlowId flow, Time at, Bandwidth cap) {
  PHANTORA_EXPECTS(cap > Bandwidth{0.0}, "a rate cap is positive");
  impl_->change(Kind::cap, at, flow.value, cap.bytes_per_second());
}
void FlowNetwork::set_capacity(LinkId link, Time at, Bandwidth capacity) {
  PHANTORA_EXPECTS(capacity >= Bandwidth{0.0}, "a capacity is not negative");
  impl_->change(Kind::capacity, at, link.value, capacity.bytes_per_second());
}
Time FlowNetwork::now() const noexcept { return impl_->now(); }
Time FlowNetwork::next_event() const noexcept { return impl_->next_event(); }
void FlowNetwork::advance_to(Time until) { impl_->advance(until); }
std::optional<Time> FlowNetwork::completion(FlowId flow) const {
  return impl_->completion(flow.value);
}
Bandwidth FlowNetwork::rate(FlowId flow) const { return Bandwidth{impl_->rate(flow.value)}; }
Bandwidth FlowNetwork::load(LinkId link) const { return Bandwidth{impl_->load(link.value)}; }
std::optional<LinkId> FlowNetwork::bottleneck(FlowId flow) const {
  return impl_->bottleneck(flow.value);
}
std::vector<LinkUse> FlowNetwork::links(FlowId flow) const { return impl_->links(flow.value); }
Checkpoint FlowNetwork::checkpoint() const { return impl_->checkpoint(); }
void FlowNetwork::rollback(const Checkpoint& checkpoint) { impl_->rollback(checkpoint); }
void FlowNetwork::commit(Time gvt) { impl_->commit(gvt); }
void FlowNetwork::forget(FlowId flow) { impl_->forget(flow.value); }
Subscription FlowNetwork::subscribe(FlowObserver& observer) { return impl_->subscribe(observer); }
const FlowStatistics& FlowNetwork::statistics() const noexcept { return impl_->statistics(); }

}  // namespace phantora
