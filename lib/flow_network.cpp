#include "earliest_end.hpp"
#include "link_history.hpp"
#include "max_min.hpp"
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

// How many changes ahead memory is asked for.
constexpr std::size_t ahead = 8;

constexpr Time to_time(Ps ps) noexcept { return Time{Duration{ps}}; }
constexpr Ps to_ps(Time t) noexcept { return t.time_since_epoch().count(); }

/// When `bytes` have drained at `rate`, rounded up to a whole picosecond; none if they never do.
Ps drained(Ps since, double bytes, double rate) noexcept {
  // The quotient of three roundings may lie 2 units in the last place above a whole number.
  const double ps = bytes / rate * 1e12 * (1 - 0x1p-50);
  // 9.2e18 ps is just inside the range of int64; at rate 0 this is infinite.
  if (!(ps < 9.2e18 - static_cast<double>(since))) return none;
  const auto whole = static_cast<Ps>(ps);
  return since + whole + (static_cast<double>(whole) < ps ? 1 : 0);
}

/// What a flow is doing; in place of the bytes that remain where there are none to move.
constexpr double not_started = -3, cancelled = -2, finished = -1;

/// A flow's progress: `remaining` bytes at `since`, when something of the flow changed last.
struct Progress {
  Ps since = 0;
  double remaining = not_started;
  std::uint64_t last = 0;  ///< its record of `since` in the journal, counted from 1
};

/// What else there is to know of a flow.
struct Identity {
  std::uint64_t id = 0;
  Duration latency{};
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

/// A record of the journal: what a flow was before an instant that changed it.
///
/// The instant is not in the record: it is that since when the flow was what it is, in the flow or
/// in its next record.
struct Before {
  double remaining;  ///< or not_started
  double level;
  std::uint64_t slot_and_order;  ///< 24 bits of slot, 40 of FillingKey::order
  std::uint32_t age;             ///< for how long it was that, in ps; or long_age
  std::uint32_t back;            ///< the flow's record before is so many before this one; 0 if none

  static constexpr std::uint32_t long_age = std::numeric_limits<std::uint32_t>::max();

  [[nodiscard]] Slot slot() const noexcept { return static_cast<Slot>(slot_and_order >> 40); }
  [[nodiscard]] FillingKey key() const noexcept {
    return {level, slot_and_order & ((std::uint64_t{1} << 40) - 1)};
  }
};
static_assert(sizeof(Before) == 32);

/// The age of a record that does not fit there.
struct LongAge {
  std::uint64_t record;
  Ps age;
};

/// All records before this one are of instants before this one.
struct Page {
  Ps at;
  std::uint64_t record;
};

/// A record of a flow, and the instant.
struct Past {
  std::uint64_t record;
  Ps at;
};

/// The route that a flow had before an instant that changed it.
struct Rerouted {
  Ps at;
  Slot slot;
  std::vector<LinkUse> links;
  Duration latency;
};

/// A flow in a replay, beside what it was in the past as that was known before.
struct Rewound {
  Slot slot;
  bool differs;     ///< its progress is not what it was: its records are void
  bool astray;      ///< neither is its key
  double counted;   ///< the rate up to which the histories of its links allow for it, if it differs
  FillingKey last;  ///< its key in the end; filling if it was not there
  std::vector<Past> future;  ///< its records, the next one at the back
};

/// Something due at an instant, for the earliest first.
struct Due {
  Ps at;
  std::uint64_t what;
  bool operator<(const Due& other) const noexcept { return other.at < at; }
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
/// Each instant leaves in the journal what every flow that it changed was before. Restoring that
/// computes nothing, so it is exact.
///
/// Replay by difference. A change told late is executed at its instant on the network as it was
/// then, but only there: a link that has to be evaluated is rewound first, which takes all its
/// flows back to the instant. From there the replay goes through the instants at which something
/// happens on rewound links. A flow adopts, as a guess, what the journal says it became. The guess
/// holds wherever a link carries only flows that are in step with their past. Links with a flow
/// that has gone astray are evaluated if anything changed on them, and MaxMin repairs what does not
/// agree. A link to which a stray flow comes is rewound too, at the first instant from which its
/// history does not rule out that it is saturated. So all links agree at every instant, and the
/// state in which they do is unique: it is that of execution in order.
///
/// Everything from the late change on is undone where dependence goes further than flows that share
/// links: observers want to be told in order, routes may follow load, links that are down move
/// flows; and where a cancel or another cap or capacity lies in the time to be replayed, since caps
/// and capacities of the past are not kept for rewound links.
class FlowNetwork::Impl {
 public:
  explicit Impl(NetworkView network)
      : view_{std::move(network)},
        solver_{view_.capacities()},
        observers_{std::make_shared<std::vector<FlowObserver*>>()},
        marks_(view_.link_count()),
        left_(view_.link_count()),
        stray_on_(view_.link_count()),
        excess_(view_.link_count()) {
    for (std::uint32_t link = 0; link < view_.link_count(); ++link)
      histories_.emplace_back(solver_.residual(link));
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
    if (slot >= progress_.size()) {
      progress_.resize(slot + 1);
      identities_.resize(slot + 1);
      rewound_of_.resize(slot + 1);
    }
    progress_[slot] = {};
    identities_[slot] = {id, latency};
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
    if (to_ps(at) <= last_instant_ && !replays_by_difference(kind, to_ps(at), id, value))
      undo_for_late_ = true;
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
    run(until == never ? none - 1 : std::max(now_, to_ps(until)));
    now_ = std::max(now_, until == never ? last_instant_ : to_ps(until));
  }

  [[nodiscard]] std::optional<Time> completion(std::uint64_t id) {
    catch_up();
    const Ps cell = cell_of(id);
    if (cell >= 0) return to_time(cell);
    if (cell <= gone) return std::nullopt;
    const Progress& progress = progress_[static_cast<Slot>(-1 - cell)];
    if (progress.remaining != finished) return std::nullopt;
    return to_time(progress.since) + identities_[static_cast<Slot>(-1 - cell)].latency;
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
    for (std::uint64_t i = applied_.begin(); i < applied_.end(); ++i)
      if (later(applied_[i])) from = std::min(from, applied_[i].at);
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
    while (!ended_.empty() && ended_.front().at < committed_) {
      const Due ended = ended_.front();
      std::pop_heap(ended_.begin(), ended_.end());
      ended_.pop_back();
      const auto slot = slot_of(ended.what);
      if (!slot) continue;
      // A replay may have found another end for it.
      const Progress& progress = progress_[*slot];
      if (progress.remaining >= 0 || progress.since != ended.at) continue;
      cells_[static_cast<std::size_t>(ended.what - first_cell_)] =
          progress.remaining == finished ? progress.since + identities_[*slot].latency.count()
                                         : gone;
      release(*slot);
    }
    const auto old = [&](const auto& it) { return it.at < committed_; };
    drop_records();
    applied_.drop_while(old);
    routes_.drop_while(old);
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

  [[nodiscard]] std::size_t history_bytes() const noexcept {
    std::size_t bytes = before_.size() * sizeof(Before) + pages_.size() * sizeof(Page) +
                        long_ages_.size() * sizeof(LongAge) + applied_.size() * sizeof(Input) +
                        routes_.size() * sizeof(Rerouted) + ended_.size() * sizeof(Due);
    for (const std::vector<Slot>& left : left_) bytes += left.size() * sizeof(Slot);
    for (const LinkHistory& history : histories_) bytes += history.bytes();
    return bytes;
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

  [[nodiscard]] Ps next_instant() const noexcept {
    return std::min({pending_.empty() ? none : pending_.front().at,
                     agenda_.empty() ? none : agenda_.front().at, ends_.earliest()});
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
    if (!pending_.empty() && pending_.front().at <= std::min(until, last_instant_)) {
      ++statistics_.rollbacks;
      const bool by_difference = !undo_for_late_ && last_other_ < pending_.front().at;
      if (!observers_->empty() || !selective_ || !by_difference) undo_from(pending_.front().at);
    }
    for (Ps next = next_instant(); next <= until; next = next_instant()) execute(next);
    finish_replay();
  }

  void execute(Ps at) {
    if (at > replay_end_) finish_replay();
    if (at <= last_instant_) replay_end_ = last_instant_;
    solver_.set_instant(at);
    bool changes = adopt(at);
    ends_.for_each_at(at, [&](Slot slot) {
      end(slot, at, finished);
      changes = true;
    });
    bool links_changed = false;
    while (!pending_.empty() && pending_.front().at == at) {
      std::pop_heap(pending_.begin(), pending_.end());
      Input input = pending_.back();
      pending_.pop_back();
      links_changed |= apply(input);
      applied_.push(input);
      changes = true;
    }
    if (links_changed) reroute(at);
    if (changes) {
      ++statistics_.events;
      statistics_.replayed_events += at <= last_instant_;
      solve(at);
    }
    for (const std::uint32_t link : solver_.touched_links()) note_state(link, at);
    if (!observers_->empty()) report(at);
    solver_.settle();
    last_instant_ = std::max(last_instant_, at);
  }

  void solve(Ps at) {
    for (;;) {
      if (const auto link = solver_.solve()) {
        rewind_link(*link, at);
      } else if (!replaying() || !rewind_affected(at)) {
        break;
      }
    }
    statistics_.touched_incidences = solver_.touched_incidences();
    const std::span<const MaxMin::Change> changes = solver_.changes();
    for (std::size_t i = 0; i < changes.size(); ++i) {
      if (i + ahead < changes.size()) {
        solver_.prefetch(changes[i + ahead].flow);
        __builtin_prefetch(&progress_[changes[i + ahead].flow], 1);
        ends_.prefetch(changes[i + ahead].flow);
      }
      const MaxMin::Change& change = changes[i];
      if (!solver_.differs(change)) continue;
      statistics_.rate_changes += solver_.rate(change.flow) != change.rate;
      if (solver_.present(change.flow)) move_on(change, at);
    }
    allow_for_affected(at);
  }

  /// Brings a flow's progress to an instant that changes it.
  void move_on(const MaxMin::Change& change, Ps at) {
    const Slot slot = change.flow;
    const std::uint64_t records = before_.end();
    const double rate_before = record(slot, at, change.key, change.rate);
    Progress& progress = progress_[slot];
    if (before_.end() == records && is_as_before(slot, rate_before)) {
      // The instant had changed it, and now does not.
      progress.last = previous(progress.last);
    } else {
      progress.remaining = std::max(
          0.0, progress.remaining - rate_before * to_seconds(Duration{at - progress.since}));
      progress.since = at;
    }
    ends_.set(slot, drained(progress.since, progress.remaining, solver_.rate(slot)));
  }

  /// Whether a flow is what it was before its last record.
  [[nodiscard]] bool is_as_before(Slot slot, double rate_before) const {
    const Before& before = before_[progress_[slot].last - 1];
    return before.remaining != not_started && before.key() == solver_.key(slot) &&
           rate_before == solver_.rate(slot);
  }

  /// Sees to it that the journal says what a flow is before an instant that changes it, and that
  /// its progress is that of then.
  /// @param key, rate  of the flow, until the change.
  /// @return its rate before the instant.
  double record(Slot slot, Ps at, FillingKey key, double rate) {
    if (replaying()) {
      const std::uint32_t index = rewound_of_[slot];
      Rewound& flow = index == 0 ? add_rewound(slot, key) : rewound_[index - 1];
      if (!flow.differs)
        differ(flow, flow.future.empty() ? std::nullopt : std::optional{flow.future.back()}, rate);
    }
    Progress& progress = progress_[slot];
    // The instant may have changed it already.
    std::uint64_t first = 0;
    Ps age = 0;
    for (std::uint64_t it = progress.last; it > before_.begin() && progress.since - age == at;
         it = previous(it)) {
      first = it;
      age += age_of(it);
    }
    if (first == 0) {
      push_record(slot, at, progress.remaining, key);
      return rate;
    }
    const Before& before = before_[first - 1];
    progress.last = first;
    if (before.remaining == not_started) return 0;
    progress.since = at - age_of(first);
    progress.remaining = before.remaining;
    return solver_.rate_at(slot, before.key());
  }
  void record_not_running(Slot slot, Ps at) { push_record(slot, at, not_started, {0.0, 0}); }
  /// The caller has the flow's progress begin at the instant.
  void push_record(Slot slot, Ps at, double remaining, FillingKey key) {
    constexpr std::uint64_t order = (std::uint64_t{1} << 40) - 1;
    const std::uint64_t record = before_.end() + 1;
    Progress& progress = progress_[slot];
    std::uint32_t short_age = 0, back = 0;
    if (remaining != not_started) {
      const Ps age = at - progress.since;
      short_age = static_cast<std::uint32_t>(std::min<Ps>(age, Before::long_age));
      if (short_age == Before::long_age) long_ages_.push({record, age});
    }
    if (progress.last > before_.begin()) {
      PHANTORA_EXPECTS(record - progress.last <= std::numeric_limits<std::uint32_t>::max(),
                       "fewer than 2^32 rate changes are uncommitted");
      back = static_cast<std::uint32_t>(record - progress.last);
    }
    before_.push(
        {remaining, key.level, std::uint64_t{slot} << 40 | (key.order & order), short_age, back});
    progress.last = record;
    if (latest_recorded_ < at) {
      if (pages_.empty() || record > pages_.back().record + records_per_page)
        pages_.push({at, record});
      latest_recorded_ = at;
    }
  }

  [[nodiscard]] std::uint64_t previous(std::uint64_t record) const noexcept {
    const std::uint32_t back = before_[record - 1].back;
    return back == 0 ? 0 : record - back;
  }
  /// For how long a flow had been what it was before a record.
  [[nodiscard]] Ps age_of(std::uint64_t record) const noexcept {
    const std::uint32_t age = before_[record - 1].age;
    if (age != Before::long_age) return age;
    return long_ages_.find_first([&](const LongAge& it) { return it.record >= record; })->age;
  }

  /// A flow's progress before a record.
  [[nodiscard]] Progress before(const Past& past) const noexcept {
    return {past.at - age_of(past.record), before_[past.record - 1].remaining,
            previous(past.record)};
  }

  /// Drops the records of committed instants, but for some.
  void drop_records() {
    std::uint64_t kept = latest_recorded_ < committed_ ? before_.end() : before_.begin();
    pages_.drop_while([&](const Page& it) {
      if (it.at > committed_) return false;
      kept = std::max(kept, it.record - 1);
      return true;
    });
    before_.drop_to(kept);
    long_ages_.drop_while([&](const LongAge& it) { return it.record <= kept; });
  }

  void note_state(std::uint32_t link, Ps at) {
    if (solver_.stamp(link) >= at) return;  // not rewound, see allow_for_affected()
    histories_[link].push(at, solver_.open(link) ? solver_.residual(link) : LinkHistory::closed,
                          committed_);
    if (!(marks_[link] & rewound)) solver_.set_stamp(link, at);
  }

  /// Whether a change told late, other than a start, can be replayed without undoing all since.
  [[nodiscard]] bool replays_by_difference(Kind kind, Ps at, std::uint64_t id, double value) const {
    // Nothing would evaluate a flow that is in step with its past, but not with its cap.
    if (kind == Kind::cap) return false;
    if (kind == Kind::capacity)
      return value > 0 && solver_.capacity(static_cast<std::uint32_t>(id)) > 0;
    // A flow whose start is to come has nothing yet to be taken back to.
    const Slot slot = *slot_of(id);
    Progress past = progress_[slot];
    while (past.last > before_.begin() && past.since > at) past = before({past.last, past.since});
    return past.remaining != not_started;
  }

  // ---- Replay by difference -------------------------------------------------------------------

  [[nodiscard]] bool replaying() const noexcept { return replay_end_ >= 0; }

  void finish_replay() {
    if (!replaying()) return;
    for (const std::uint32_t link : marked_) {
      // At the latest.
      if (marks_[link] & rewound) solver_.set_stamp(link, replay_end_);
      marks_[link] = 0;
      stray_on_[link] = 0;
    }
    marked_.clear();
    for (std::size_t i = 0; i < rewound_count_; ++i) rewound_of_[rewound_[i].slot] = 0;
    rewound_count_ = 0;
    replay_end_ = -1;
    ordered_from_ = before_.end();
  }

  void mark(std::uint32_t link, std::uint8_t as) {
    if (marks_[link] == 0) marked_.push_back(link);
    marks_[link] |= as;
  }

  /// Takes a link back to the state after an instant, as far as that is known from before.
  void rewind_link(std::uint32_t link, Ps at) {
    replay_end_ = std::max(replay_end_, at);
    mark(link, rewound);
    solver_.set_stamp(link, std::numeric_limits<Ps>::min());
    flows_on_.clear();
    solver_.for_each_flow(link, [&](Slot slot) { flows_on_.push_back(slot); });
    for (const Slot slot : flows_on_) rewind(slot, at);
    for (const Slot slot : left_[link]) rewind(slot, at);
    histories_[link].forget_after(at);
    solver_.reconsider(link);
  }

  void rewind(Slot slot, Ps at) {
    if (rewound_of_[slot] != 0) return;
    std::uint64_t it = progress_[slot].last;
    Ps changed = progress_[slot].since;
    if (it <= before_.begin() || changed <= at) return;
    Rewound& flow = add_rewound(slot, solver_.key(slot));
    for (; it > before_.begin() && changed > at; it = previous(it)) {
      flow.future.push_back({it, changed});
      changed -= age_of(it);
    }
    take_past_key(flow);
    schedule(flow.future.back().at, rewound_of_[slot] - 1);
  }

  Rewound& add_rewound(Slot slot, FillingKey last) {
    if (rewound_count_ == rewound_.size()) rewound_.emplace_back();
    Rewound& flow = rewound_[rewound_count_++];
    rewound_of_[slot] = static_cast<std::uint32_t>(rewound_count_);
    flow.slot = slot;
    flow.differs = flow.astray = false;
    flow.counted = 0;
    flow.last = last;
    flow.future.clear();
    return flow;
  }

  /// What a flow was, as that was known before; filling if it was not there.
  [[nodiscard]] FillingKey past_key(const Rewound& flow) const {
    if (flow.future.empty()) return flow.last;
    const Before& before = before_[flow.future.back().record - 1];
    return before.remaining == not_started ? FillingKey{} : before.key();
  }

  void take_past_key(const Rewound& flow) {
    const FillingKey key = past_key(flow);
    if (!key.filling()) {
      solver_.restore(flow.slot, key);
    } else if (solver_.present(flow.slot)) {
      solver_.withdraw(flow.slot);
    }
  }

  void schedule(Ps at, std::uint64_t index) {
    agenda_.push_back({at, index});
    std::push_heap(agenda_.begin(), agenda_.end());
  }

  /// Lets the flows in the replay become at an instant what they became before.
  /// @return whether that leaves anything to do.
  bool adopt(Ps at) {
    adopted_.clear();
    strays_.clear();
    due_links_.clear();
    while (!agenda_.empty() && agenda_.front().at == at) {
      const std::uint64_t what = agenda_.front().what;
      std::pop_heap(agenda_.begin(), agenda_.end());
      agenda_.pop_back();
      if (what >= link_due) {
        due_links_.push_back(static_cast<std::uint32_t>(what - link_due));
      } else {
        adopt(rewound_[what], at);
      }
    }
    bool evaluate = false;
    for (const std::uint32_t link : due_links_) {
      if (stray_on_[link] == 0 || (marks_[link] & rewound)) continue;
      rewind_link(link, at);
      evaluate = true;
    }
    for (const Slot slot : adopted_) {
      solver_.for_each_link(slot, [&](std::uint32_t link) {
        if (stray_on_[link] == 0 || !(marks_[link] & rewound)) return;
        solver_.reconsider(link);
        evaluate = true;
      });
    }
    return evaluate || !strays_.empty() || !solver_.changes().empty();
  }

  void adopt(Rewound& flow, Ps at) {
    const Past first = flow.future.back();
    while (!flow.future.empty() && flow.future.back().at == at) flow.future.pop_back();
    if (!flow.future.empty()) schedule(flow.future.back().at, rewound_of_[flow.slot] - 1);
    const FillingKey key = past_key(flow);
    if (!flow.differs) {
      const double rate = solver_.rate(flow.slot);
      if (!key.filling() ||
          drained(at - age_of(first.record), before_[first.record - 1].remaining, rate) == at) {
        take_past_key(flow);
        adopted_.push_back(flow.slot);
        return;
      }
      // It ended at once when its rate changed: that may be otherwise now.
      differ(flow, first, rate);
      const Progress& progress = progress_[flow.slot];
      ends_.set(flow.slot, drained(progress.since, progress.remaining, rate));
    } else if (!flow.astray && !key.filling() && ends_.get(flow.slot) != at) {
      solver_.guess(flow.slot, key);
      adopted_.push_back(flow.slot);
    }
    if (compare(flow)) strays_.push_back(flow.slot);
  }

  /// Notes whether a flow is in step with its past. @return whether it has gone astray just now.
  bool compare(Rewound& flow) {
    const bool astray = solver_.key(flow.slot) != past_key(flow);
    if (astray == flow.astray) return false;
    flow.astray = astray;
    solver_.for_each_link(flow.slot, [&](std::uint32_t link) {
      mark(link, visited);
      stray_on_[link] += astray ? 1 : std::uint32_t(-1);
    });
    return astray;
  }

  /// From here on the progress of a flow is not what it was. The first of its records that are void
  /// is `from`; its rate was, until now, `rate`.
  void differ(Rewound& flow, std::optional<Past> from, double rate) {
    flow.differs = true;
    flow.counted = least_rate(flow, rate);
    if (!from) return;
    progress_[flow.slot] = before(*from);
  }

  /// Takes a flow back to an instant that something told late changes it at.
  void part_from_past(Slot slot, Ps at) {
    rewind(slot, at);
    const std::uint32_t index = rewound_of_[slot];
    if (index == 0) return;  // nothing has happened to it since
    Rewound& flow = rewound_[index - 1];
    if (flow.differs || flow.future.empty()) return;
    const double rate = solver_.rate(slot);
    differ(flow, flow.future.back(), rate);
    const Progress& progress = progress_[slot];
    ends_.set(slot,
              solver_.present(slot) ? drained(progress.since, progress.remaining, rate) : none);
  }

  /// The least rate that a flow had, as that was known before, from now on.
  [[nodiscard]] double least_rate(const Rewound& flow, double rate) const {
    if (flow.last.filling()) return 0;
    for (const Past& it : flow.future)
      rate = std::min(rate, solver_.rate_at(flow.slot, before_[it.record - 1].key()));
    return std::min(rate, solver_.rate_at(flow.slot, flow.last));
  }

  /// Rewinds the links to which stray flows have come, or will later, when they may be saturated.
  /// @return whether there is a link that has been rewound.
  bool rewind_affected(Ps at) {
    for (const MaxMin::Change& change : solver_.changes())
      if (solver_.key(change.flow) != past_key(change))
        note_affected(change.flow, counted_rate(change), at);
    for (const Slot slot : strays_)
      note_affected(slot, rewound_[rewound_of_[slot] - 1].counted, at);
    bool any = false;
    for (const std::uint32_t link : affected_) {
      const Ps until = histories_[link].first_below(at, solver_.margin(link) + excess_[link]);
      if (until <= at) {
        rewind_link(link, at);
        any = true;
      } else if (until != LinkHistory::never) {
        schedule(until, link_due + link);
      }
    }
    if (any) forget_affected();
    return any;
  }

  void note_affected(Slot slot, double counted, Ps at) {
    const double rate = solver_.rate(slot);
    solver_.for_each_use(slot, [&](std::uint32_t link, double amount) {
      if (solver_.stamp(link) < at) return;
      if (!(marks_[link] & affected)) affected_.push_back(link);
      mark(link, affected);
      if (rate > counted)
        excess_[link] += solver_.units(link, rate, amount) - solver_.units(link, counted, amount);
    });
  }

  [[nodiscard]] FillingKey past_key(const MaxMin::Change& change) const {
    const std::uint32_t index = rewound_of_[change.flow];
    return index == 0 ? change.key : past_key(rewound_[index - 1]);
  }
  [[nodiscard]] double counted_rate(const MaxMin::Change& change) const {
    const std::uint32_t index = rewound_of_[change.flow];
    if (index == 0) return change.rate;
    const Rewound& flow = rewound_[index - 1];
    return flow.differs ? flow.counted : least_rate(flow, change.rate);
  }

  /// Has the histories of the links that stay as they are allow for the changes.
  void allow_for_affected(Ps at) {
    if (!replaying()) return;
    for (const std::uint32_t link : affected_) histories_[link].lower_from(at, excess_[link]);
    forget_affected();
    const auto allow_for = [&](Slot slot) {
      const std::uint32_t index = rewound_of_[slot];
      if (index == 0) return;
      Rewound& flow = rewound_[index - 1];
      compare(flow);
      if (flow.astray) flow.counted = std::max(flow.counted, solver_.rate(slot));
    };
    for (const MaxMin::Change& change : solver_.changes()) allow_for(change.flow);
    for (const Slot slot : strays_) allow_for(slot);
  }
  void forget_affected() {
    for (const std::uint32_t link : affected_) {
      excess_[link] = 0;
      marks_[link] &= static_cast<std::uint8_t>(~affected);
    }
    affected_.clear();
  }

  // ---- Events -----------------------------------------------------------------------------------

  /// Takes a flow out of the network, for good unless undone.
  void end(Slot slot, Ps at, double how) {
    Progress& progress = progress_[slot];
    if (solver_.present(slot)) {
      record(slot, at, solver_.key(slot), solver_.rate(slot));
      solver_.remove(slot);
    } else {
      record_not_running(slot, at);
    }
    progress.since = at;
    progress.remaining = how;
    ends_.set(slot, none);
    ended_.push_back({at, identities_[slot].id});
    std::push_heap(ended_.begin(), ended_.end());
    solver_.for_each_link(slot, [&](std::uint32_t link) { note_left(link, slot); });
  }

  /// Keeps a flow known to a link that it has left. The list may name other flows besides.
  void note_left(std::uint32_t link, Slot slot) {
    std::vector<Slot>& left = left_[link];
    // A replay may end a flow that had ended before.
    if (replaying() && std::find(left.begin(), left.end(), slot) != left.end()) return;
    if (left.size() == left.capacity()) {
      std::erase_if(left, [&](Slot it) {
        return progress_[it].remaining >= 0 || progress_[it].remaining == not_started ||
               progress_[it].since < committed_;
      });
    }
    left.push_back(slot);
  }

  /// @return whether a link went down or came up.
  bool apply(Input& input) {
    if (input.kind != Kind::start) last_other_ = std::max(last_other_, input.at);
    if (input.kind == Kind::capacity) {
      const auto link = static_cast<std::uint32_t>(input.id);
      if (solver_.stamp(link) >= input.at) {
        rewind_link(link, input.at);
        ++stray_on_[link];  // what its flows became with another capacity is no guess
      }
      input.previous = solver_.capacity(link);
      solver_.set_capacity(link, input.value);
      const bool was_up = input.previous > 0, is_up = input.value > 0;
      if (was_up && !is_up) down_.push_back(link);
      if (!was_up && is_up) std::erase(down_, link);
      return was_up != is_up;
    }
    const auto slot = slot_of(input.id);
    if (!slot) return false;
    if (replaying() && input.kind == Kind::cancel) part_from_past(*slot, input.at);
    Progress& progress = progress_[*slot];
    switch (input.kind) {
      case Kind::start:
        if (progress.remaining == cancelled) break;
        record_not_running(*slot, input.at);
        progress.since = input.at;
        progress.remaining = input.value;
        choose_route(*slot, input.at);
        solver_.insert(*slot);
        break;
      case Kind::cancel:
        if (progress.remaining >= 0 || progress.remaining == not_started)
          end(*slot, input.at, cancelled);
        break;
      case Kind::cap:
        input.previous = solver_.cap(*slot);
        solver_.set_cap(*slot, input.value);
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
  void take_route(Slot slot, const EndPoints& ends, Ps at) {
    Route route;
    try {
      route = (ends.router ? ends.router.get() : view_.router())->route(request(ends));
    } catch (const RouteError&) {
      return;  // it stalls on the link that is down until a link comes up
    }
    merge_links(route.links);
    std::vector<LinkUse> old = solver_.uses(slot);
    if (old == route.links) return;
    Duration& latency = identities_[slot].latency;
    routes_.push({at, slot, std::move(old), latency});
    latency = route.latency + ends.latency;
    if (solver_.present(slot)) {
      solver_.remove(slot);
      solver_.redirect(slot, route.links);
      solver_.insert(slot);
    } else {
      solver_.redirect(slot, route.links);
    }
  }

  void choose_route(Slot slot, Ps at) {
    if (!view_.router() || (down_.empty() && !view_.router()->depends_on_load())) return;
    const auto ends = end_points_.find(slot);
    if (ends == end_points_.end() || (ends->second.router && down_.empty())) return;
    take_route(slot, ends->second, at);
  }

  /// Moves routed flows off the links that are down, in an order of their own.
  void reroute(Ps at) {
    std::vector<Slot> stalled;
    for (const std::uint32_t link : down_)
      solver_.for_each_flow(link, [&](Slot slot) {
        if (end_points_.contains(slot)) stalled.push_back(slot);
      });
    std::sort(stalled.begin(), stalled.end(), [&](Slot a, Slot b) {
      const EndPoints &x = end_points_.at(a), &y = end_points_.at(b);
      return std::tie(x.key, x.src, x.dst, identities_[a].id) <
             std::tie(y.key, y.src, y.dst, identities_[b].id);
    });
    stalled.erase(std::unique(stalled.begin(), stalled.end()), stalled.end());
    for (const Slot slot : stalled) take_route(slot, end_points_.at(slot), at);
  }

  /// Undoes everything from an instant on.
  void undo_from(Ps at) {
    if (last_instant_ < at) return;
    Ps first = none;
    for (std::uint64_t i = applied_.end(); i-- > applied_.begin();) {
      if (applied_[i].at < at) continue;
      first = std::min(first, applied_[i].at);
      take_back(applied_[i]);
    }
    applied_.erase_if([&](const Input& it) { return it.at >= at; });
    while (!routes_.empty() && routes_.back().at >= at) {
      take_back(routes_.back(), at);
      routes_.cut_back(routes_.end() - 1);
    }
    std::uint64_t kept = before_.begin();
    for (std::uint64_t i = before_.end(); i > before_.begin(); --i) {
      const Slot slot = before_[i - 1].slot();
      if (progress_[slot].last != i) continue;  // void, or before a record that is kept
      const Ps recorded = progress_[slot].since;
      if (recorded < at) {
        kept = std::max(kept, i);
        if (i > ordered_from_) break;
      } else {
        first = std::min(first, recorded);
        take_back(slot, at);
      }
    }
    cut_records(kept);
    ordered_from_ = std::min(ordered_from_, kept);
    solver_.settle();
    last_instant_ = at - 1;
    latest_recorded_ = std::min(latest_recorded_, last_instant_);
    last_other_ = std::min(last_other_, last_instant_);
    undo_for_late_ = false;
    for (FlowObserver* it : *observers_) it->on_rollback(to_time(first));
  }

  void take_back(const Input& input) {
    if (input.kind == Kind::capacity) {
      const auto link = static_cast<std::uint32_t>(input.id);
      const bool was_up = input.previous > 0, is_up = input.value > 0;
      solver_.set_capacity(link, input.previous);
      forget_from(link, input.at);
      if (was_up && !is_up) std::erase(down_, link);
      if (!was_up && is_up) down_.push_back(link);
    } else if (input.kind == Kind::cap) {
      if (const auto slot = slot_of(input.id)) solver_.restore_cap(*slot, input.previous);
    }
    tell(input);
  }

  void take_back(const Rerouted& route, Ps from) {
    const auto forget = [&](std::uint32_t link) { forget_from(link, from); };
    const bool present = solver_.present(route.slot);
    const FillingKey key = solver_.key(route.slot);
    solver_.for_each_link(route.slot, forget);
    if (present) solver_.withdraw(route.slot);
    solver_.redirect(route.slot, route.links);
    if (present) solver_.restore(route.slot, key);
    identities_[route.slot].latency = route.latency;
  }

  /// Takes back what a flow's last record is of.
  void take_back(Slot slot, Ps from) {
    Progress& progress = progress_[slot];
    const FillingKey key = before_[progress.last - 1].key();
    progress = before({progress.last, progress.since});
    if (progress.remaining == not_started) {
      if (solver_.present(slot)) solver_.withdraw(slot);
      ends_.set(slot, none);
    } else {
      solver_.restore(slot, key);
      ends_.set(slot, drained(progress.since, progress.remaining, solver_.rate(slot)));
    }
    solver_.for_each_link(slot, [&](std::uint32_t link) { forget_from(link, from); });
  }

  /// Drops the last records.
  void cut_records(std::uint64_t to) {
    before_.cut_back(to);
    const auto cut = [&](const auto& it) { return it.record > to; };
    long_ages_.cut_while(cut);
    pages_.cut_while(cut);
  }

  void forget_from(std::uint32_t link, Ps at) {
    if (solver_.stamp(link) < at) return;
    histories_[link].forget_after(at - 1);
    solver_.set_stamp(link, at - 1);
  }

  void release(Slot slot) {
    end_points_.erase(slot);
    solver_.erase(slot);
  }

  void report(Ps at) {
    const Time time = to_time(at);
    for (FlowObserver* it : *observers_) {
      for (const MaxMin::Change& change : solver_.changes()) {
        if (!solver_.differs(change)) continue;
        const Identity& flow = identities_[change.flow];
        const FlowId id{flow.id};
        if (change.key.filling()) it->on_flow_start(id, time);
        if (solver_.rate(change.flow) != change.rate)
          it->on_rate_change(id, time, Bandwidth{solver_.rate(change.flow)});
        if (progress_[change.flow].remaining == finished)
          it->on_flow_finish(id, time + flow.latency);
      }
      for (const std::uint32_t link : solver_.touched_links())
        it->on_link_load(LinkId{link}, time, Bandwidth{solver_.load(link)});
    }
  }

  NetworkView view_;
  MaxMin solver_;
  EarliestEnd ends_;
  std::vector<Progress> progress_;
  std::vector<Identity> identities_;
  std::unordered_map<Slot, EndPoints> end_points_;
  std::vector<std::uint32_t> down_;
  std::deque<Ps> cells_;  ///< of each flow: -1 - slot while it has one, else see `gone`
  std::uint64_t first_cell_ = 0;
  std::vector<Input> pending_;
  std::uint64_t next_order_ = 0;

  Trail<Before> before_;
  Trail<LongAge> long_ages_;
  Trail<Page> pages_;
  static constexpr std::uint64_t records_per_page = 64;
  Ps latest_recorded_ = -1;  ///< the last instant with a record
  Trail<Input> applied_;
  Trail<Rerouted> routes_;
  std::vector<Due> ended_;  ///< a heap of flows by their ends, and of ends that are void
  std::shared_ptr<std::vector<FlowObserver*>> observers_;
  std::vector<LinkHistory> histories_;
  bool selective_ = true;

  // Of links: what a replay has to do with them.
  static constexpr std::uint8_t rewound = 1, visited = 2, affected = 4;
  static constexpr std::uint64_t link_due = std::uint64_t{1} << 32;  ///< plus the link, in agenda_
  Ps replay_end_ = -1;  ///< the last instant that a replay may find otherwise; negative if none
  std::vector<std::uint8_t> marks_;
  std::vector<std::uint32_t> marked_;
  std::vector<std::vector<Slot>> left_;  ///< of each link, flows that ended in uncommitted time
  std::vector<Rewound> rewound_;         ///< the first rewound_count_ are in use
  std::size_t rewound_count_ = 0;
  std::vector<std::uint32_t> rewound_of_;  ///< of each flow, counted from 1; 0 if not rewound
  std::vector<Due> agenda_;  ///< a heap of rewound flows by their next records, and of links
  std::vector<Slot> adopted_, strays_, flows_on_;
  std::vector<std::uint32_t> due_links_;
  std::vector<std::uint32_t> stray_on_;  ///< of each link, how many flows have gone astray
  std::vector<std::uint32_t> affected_;
  std::vector<std::int64_t> excess_;  ///< of affected links: load that is not allowed for
  std::uint64_t ordered_from_ = 0;    ///< from this record on, the journal is in order of time

  Ps now_ = 0;
  Ps committed_ = 0;
  Ps last_instant_ = -1;
  Ps last_other_ = -1;          ///< the last instant with another input than starts
  bool undo_for_late_ = false;  ///< an input is pending that cannot be replayed by difference
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
std::size_t FlowNetwork::history_bytes() const noexcept { return impl_->history_bytes(); }
Subscription FlowNetwork::subscribe(FlowObserver& observer) { return impl_->subscribe(observer); }
const FlowStatistics& FlowNetwork::statistics() const noexcept { return impl_->statistics(); }

}  // namespace phantora
