#include "network/earliest_end.hpp"
#include "network/journal.hpp"
#include "network/link_history.hpp"
#include "network/max_min.hpp"
#include "network/room.hpp"
#include "network/table.hpp"
#include "network/trail.hpp"
#include "observer_list.hpp"

#include <phantora/error.hpp>
#include <phantora/network/flow_network.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace phantora {
namespace {

using Slot = MaxMin::Slot;
using Ps = std::int64_t;

constexpr Ps none = EarliestEnd::none;

/// What a flow is still to move per share: an integer, in units of 2^-27 byte per second times a
/// picosecond. So a sum of parts does not depend on the instants that part it.
using Work = Int128;

/// What a group has moved per share since some instant; a mark is its value when a flow ends. Only
/// differences of two mean anything, so that a service may wrap around.
__extension__ typedef unsigned __int128 Service;

// A level above 64 MiB/s is a whole number of units per picosecond, since it has 53 bits; one of a
// byte per second is rounded by 4e-9 of it.
constexpr int unit_bits = 27;

constexpr Time to_time(Ps ps) noexcept { return Time{Duration{ps}}; }
constexpr Ps to_ps(Time t) noexcept { return t.time_since_epoch().count(); }

[[nodiscard]] Work work_of(double bytes, double shares) noexcept {
  constexpr Work unit = Work{1'000'000'000'000} << unit_bits;
  const auto whole = static_cast<std::int64_t>(shares);
  if (static_cast<double>(whole) == shares) return static_cast<Work>(bytes) * unit / whole;
  return static_cast<Work>(bytes / shares * static_cast<double>(unit));
}

/// Units per picosecond at a level in bytes per second and share.
[[nodiscard]] Work pace_of(double level) noexcept {
  const double pace = level * (std::int64_t{1} << unit_bits) + 0.5;
  if (pace < 0x1p62) return static_cast<std::int64_t>(pace);
  return static_cast<Work>(std::min(pace, 0x1p90));
}
/// The pace of the flows that a link with this key stops; 0 if the link has stopped none so far.
[[nodiscard]] Work pace_of(FillingKey key) noexcept {
  return key.filling() ? Work{0} : pace_of(key.level);
}

/// A flow has ended when no more than this is left of it: what it moves in a 64th of a picosecond.
/// Levels are rounded to 53 bits, so after up to two minutes an exact end is off by less.
[[nodiscard]] Work slack(Work pace) noexcept { return pace >> 6; }

/// First whole picosecond after `at` by which `left` has been moved at `pace`; `none` if never.
[[nodiscard]] Ps end_after(Ps at, Work left, Work pace) noexcept {
  if (pace == 0) return none;
  const Work rest = left - slack(pace);
  if (rest <= pace) return at + 1;
  const Work ps = (rest + pace - 1) / pace;
  return ps < none - at ? at + static_cast<Ps>(ps) : none;
}

/// What a group of this pace moves in `time`.
[[nodiscard]] Service served(Work pace, Ps time) noexcept {
  return static_cast<Service>(pace) * static_cast<Service>(time);
}

/// What a flow with this mark still has to move when the service of its group is `now`.
[[nodiscard]] Work left_until(Service mark, Service now) noexcept {
  return static_cast<Work>(mark - now);
}

/// A flow that is withdrawn was cancelled before its start.
enum class State : std::uint8_t { not_started, running, finished, cancelled, withdrawn };

/// A flow's progress.
struct Progress {
  /// In the group of a link: the service of that group at which the flow ends. Otherwise the work
  /// that was left of the flow at `since`.
  Service mark = 0;
  Ps since = 0;                 ///< when the flow took its bottleneck, or its state
  std::uint64_t last : 56 = 0;  ///< the flow's record of `since` in the journal
  std::uint64_t state_ : 8 = 0;

  [[nodiscard]] State state() const noexcept { return static_cast<State>(state_); }
  void record(std::uint64_t record) noexcept { last = record & ((std::uint64_t{1} << 56) - 1); }
  void become(State state) noexcept { state_ = static_cast<std::uint8_t>(state); }
  [[nodiscard]] bool ended() const noexcept { return state() > State::running; }
};
static_assert(sizeof(Progress) == 32);

/// How far the flows that a link stops are, which move on together.
struct Group {
  Service service = 0;     ///< at `since`
  Work pace = 0;           ///< units per picosecond
  Service first = 0;       ///< the earliest mark of the flows, if `first_known`
  Ps since = 0;            ///< since when the link has its key
  std::uint64_t last = 0;  ///< the link's record of `since` in the journal
  bool first_known = false;
  bool stale = false;  ///< the group's next end is to be found

  [[nodiscard]] Service service_at(Ps at) const noexcept {
    return service + served(pace, at - since);
  }
};

/// What the caller knows a flow by, and what completes it after its last byte has left.
struct Identity {
  std::uint64_t id = 0;
  Duration latency{};
};

enum class Kind : std::uint8_t { start, cancel, cap, capacity };

/// Something told by the caller. At one instant starts come before cancels and those before changes
/// of caps and capacities; changes of one thing at one instant apply in the order they were told.
struct Input {
  Ps at;
  std::uint64_t order;    ///< among starts, or among the others
  std::uint64_t id;       ///< flow or link
  double value = 0.0;     ///< what a cap or a capacity becomes
  double previous = 0.0;  ///< what the cap or capacity was, once this is applied
  Kind kind;
  bool operator<(const Input& other) const noexcept {  // as a heap: the earliest on top
    if (at != other.at) return other.at < at;
    if (kind != other.kind) return other.kind < kind;
    return other.order < order;
  }
};

/// What a flow was before an instant that gave it another bottleneck, or another state. The work
/// that was left then follows from what was left later, see Impl::past_left().
struct Moved {
  std::uint32_t slot : 24;
  std::uint32_t ends : 1 = 0;  ///< whether the flow ends at the instant
  std::uint32_t bottleneck;    ///< none if the flow was not running
  std::uint32_t age = 0, back = 0;
  static constexpr std::uint32_t max_back = std::numeric_limits<std::uint32_t>::max();

  Moved(Slot of, std::uint32_t from) : slot{of & 0xFFFFFF}, bottleneck{from} {}
};
static_assert(sizeof(Moved) == 16);

/// The key of a link before an instant that changed it.
struct [[gnu::packed]] alignas(4) Shifted {
  double level;  ///< infinite if the link had no key
  std::uint64_t link : 24;
  std::uint64_t depth : 16;
  std::uint64_t back : 24 = 0;
  std::uint32_t age = 0;
  static constexpr std::uint32_t max_back = (1U << 24) - 1;

  Shifted(std::uint32_t of, FillingKey key)
      : level{key.level}, link{of & 0xFFFFFF}, depth{key.depth() & FillingKey::max_depth} {}
  [[nodiscard]] FillingKey key() const noexcept {
    if (level == std::numeric_limits<double>::infinity()) return {};
    return {level, std::uint64_t{depth} << 24 | link};
  }
};
static_assert(sizeof(Shifted) == 20);

/// A record of a flow, and the instant that it is of.
struct Past {
  std::uint64_t record;
  Ps at;
};

/// A record of a link, the instant that it is of, and the service of the link's group then.
struct PastShift {
  std::uint64_t record;
  Ps at;
  Service service;
};

/// The route that a flow had before an instant that changed it.
struct Rerouted {
  Ps at;
  Slot slot;
  std::vector<LinkUse> links;
  Duration latency;
};

/// A flow in a replay, and what is recorded of it from the present instant on.
struct Rewound {
  Slot slot;
  bool detached;   ///< its progress is the replay's: what is recorded of the flow is void
  bool diverged;   ///< its bottleneck, or the key of that, is not the recorded one
  double counted;  ///< the rate up to which the histories of its links allow for it, if detached
  std::uint32_t last;        ///< the flow's bottleneck after its last record
  std::vector<Past> future;  ///< the flow's records, the next one at the back
};

/// A group in a replay, and what is recorded of it from the present instant on.
struct Followed {
  std::uint32_t link;
  bool detached;    ///< its service is the replay's: what is recorded of the group is void
  bool diverged;    ///< its key is not the recorded one
  Group end;        ///< the group after its last record
  FillingKey last;  ///< the key after its last record
  double least;     ///< of the recorded levels
  std::vector<PastShift> future;
};

/// A record or a link that a replay has to look at, sorted for the earliest first.
struct Due {
  Ps at;
  std::uint64_t what;
  bool operator<(const Due& other) const noexcept { return other.at < at; }
};

struct EndPoints {
  NodeId src, dst;
  std::uint64_t key;
  Duration latency;                      ///< on top of the route's
  std::shared_ptr<const Router> router;  ///< the flow's own, in place of the network's
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
/// The words are explained in lib/network/README.md.
///
/// The flows that a link stops form a group, and a group moves on as one: each of its flows ends
/// when the group's service reaches the mark that the flow was given when it joined. So an event
/// costs what it changes of links' keys and flows' bottlenecks, and nothing for the flows that only
/// follow. Service is counted in integers: what a flow has moved does not depend on the instants at
/// which that was looked at.
///
/// Each instant leaves in the journal which key each link had that it changed, and which bottleneck
/// each flow. Services, and what was left of flows, follow from these and the present.
///
/// Replay by difference. This is for callers of FlowNetwork that change the past: what-if
/// questions, jobs told late, optimistic synchronisation. The conservative engine does not enter
/// it: a Session tells only of its present instant and observes the network, so that at most this
/// one instant is undone and executed again. On that path replaying() is false throughout, and a
/// reader may skip whatever asks for it.
///
/// A change told late is executed at its instant on the network as it was then, but only there: a
/// link that has to be evaluated is rewound first, which takes all its flows, and the keys of the
/// links that stop them, back to the instant. From there the replay goes through the instants at
/// which something happens to these. Flows and groups become, as a guess, what the journal says
/// they became. The guess holds wherever a link carries only flows that are in step with their
/// past. Links with a flow that has diverged are evaluated if anything changed on them, and MaxMin
/// repairs what does not agree. A link to which such a flow comes is rewound too, at the first
/// instant from which its history does not rule out that it is saturated. So all links agree at
/// every instant, and the state in which they do is unique: it is that of execution in order.
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
        groups_(view_.link_count()),
        flags_(view_.link_count()),
        followed_of_(view_.link_count()),
        diverged_on_(view_.link_count()),
        excess_(view_.link_count()) {
    histories_.reserve(view_.link_count());
    for (std::uint32_t link = 0; link < view_.link_count(); ++link)
      histories_.emplace_back(solver_.residual(link));
    if (view_.router() && view_.router()->depends_on_load()) selective_ = false;
  }

  FlowId start(FlowSpec spec) {
    PHANTORA_EXPECTS(spec.size > Bytes{0}, "a flow has a size");
    PHANTORA_EXPECTS(spec.shares > 0 && std::isfinite(spec.shares), "shares are positive");
    PHANTORA_EXPECTS(spec.rate_cap > Bandwidth{0.0}, "a rate cap is positive");
    PHANTORA_EXPECTS(spec.latency >= Duration{0}, "a latency is not negative");
    const Time start = spec.start.value_or(now());
    PHANTORA_EXPECTS(start >= Time{}, "time starts at 0");
    check_committed(start);
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
    PHANTORA_EXPECTS(static_cast<double>(spec.size.count()) / spec.shares <= 0x1p59,
                     "a flow has at most 2^59 bytes per share");
    const Slot slot = solver_.create(spec.links, spec.shares, spec.rate_cap.bytes_per_second());
    const std::uint64_t id = first_cell_ + cells_.size();
    cells_.push_back(-1 - static_cast<Ps>(slot));
    if (slot == progress_.size()) {
      make_room(progress_, 1);
      make_room(identities_, 1);
      make_room(rewound_of_, 1);
      progress_.emplace_back();
      identities_.emplace_back();
      rewound_of_.emplace_back();
    }
    progress_[slot] = {};
    progress_[slot].mark =
        static_cast<Service>(work_of(static_cast<double>(spec.size.count()), spec.shares));
    identities_[slot] = {id, latency};
    if (routed)
      end_points_.insert_or_assign(slot, EndPoints{spec.src, spec.dst, spec.key, spec.latency, {}});
    else if (spec.router && view_.router())
      end_points_.insert_or_assign(
          slot, EndPoints{spec.src, spec.dst, spec.key, spec.latency, std::move(spec.router)});
    tell({.at = to_ps(start), .order = id, .id = id, .kind = Kind::start});
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
    tell({.at = to_ps(at), .order = next_order_++, .id = id, .value = value, .kind = kind});
  }

  [[nodiscard]] Time now() const noexcept { return to_time(now_); }

  [[nodiscard]] Time next_event() {
    catch_up();
    const Ps next = next_instant();
    return next == none ? never : to_time(next);
  }

  void advance(Time until) {
    run(until == never ? none - 1 : std::max(now_, to_ps(until)));
    now_ = std::max(now_, until == never ? last_instant_ : to_ps(until));
  }

  [[nodiscard]] std::optional<Time> completion(std::uint64_t id) {
    catch_up();
    const Ps cell = cell_of(id);
    if (cell >= 0) return to_time(cell);
    const auto slot = slot_in(cell);
    if (!slot || progress_[*slot].state() != State::finished) return std::nullopt;
    return to_time(progress_[*slot].since) + identities_[*slot].latency;
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
    const std::uint32_t link = solver_.bottleneck(*slot);
    if (link >= MaxMin::own_cap) return std::nullopt;
    return LinkId{link};
  }

  [[nodiscard]] std::vector<LinkUse> links(std::uint64_t id) {
    catch_up();
    const auto slot = slot_of(id);
    return slot ? solver_.uses(*slot) : std::vector<LinkUse>{};
  }

  [[nodiscard]] Checkpoint checkpoint() const {
    return {now(), next_order_, first_cell_ + cells_.size()};
  }

  void rollback(const Checkpoint& checkpoint) {
    PHANTORA_EXPECTS(checkpoint.now <= now(), "a checkpoint lies in the past");
    check_committed(checkpoint.now);
    const auto later = [&](const Input& in) {
      return in.order >= (in.kind == Kind::start ? checkpoint.flows : checkpoint.inputs);
    };
    Ps from = to_ps(checkpoint.now) + 1;
    for (std::uint64_t i = applied_.begin(); i < applied_.end(); ++i)
      if (later(applied_[i])) from = std::min(from, applied_[i].at);
    const std::uint64_t flows = first_cell_ + cells_.size();
    for (std::uint64_t id = std::max(checkpoint.flows, first_cell_); id < flows; ++id)
      if (const auto slot = slot_of(id)) from = std::min(from, start_of(*slot));
    undo_from(from);
    for (const Input& in : pending_)
      if (later(in) && in.kind == Kind::start) release(*slot_of(in.id));
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
    if (last_instant_ < committed_) solver_.allow_easing(true);
    moves_.drop_before(committed_, [&](std::uint64_t record) {
      const Moved& move = moves_[record];
      if (move.ends && progress_[move.slot].last == record) release(move.slot);
    });
    shifts_.drop_before(committed_, [](std::uint64_t) {});
    const auto old = [&](const auto& item) { return item.at < committed_; };
    applied_.drop_while(old);
    routes_.drop_while(old);
    observers_.for_each([&](FlowObserver* observer) { observer->on_commit(gvt); });
  }

  void forget(std::uint64_t id) {
    PHANTORA_EXPECTS(!slot_of(id), "a flow is forgotten after it ended in committed time");
    if (const auto slot = slot_in(cell_of(id))) release(*slot);
    cells_[static_cast<std::size_t>(id - first_cell_)] = forgotten;
    while (!cells_.empty() && cells_.front() == forgotten) {
      cells_.pop_front();
      ++first_cell_;
    }
  }

  [[nodiscard]] std::size_t history_bytes() const noexcept {
    std::size_t bytes = moves_.bytes() + shifts_.bytes() + applied_.size() * sizeof(Input) +
                        routes_.size() * sizeof(Rerouted);
    for (const LinkHistory& history : histories_) bytes += history.bytes();
    return bytes;
  }

  [[nodiscard]] Subscription subscribe(FlowObserver& observer) {
    return observers_.subscribe(observer);
  }

  [[nodiscard]] const FlowStatistics& statistics() const noexcept { return statistics_; }

 private:
  /// A flow that observers are to hear of, and of what.
  struct Told {
    Slot slot;
    bool rate_changes, starts;
  };

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
  [[nodiscard]] static std::optional<Slot> slot_in(Ps cell) noexcept {
    if (cell >= 0 || cell <= gone) return std::nullopt;
    return static_cast<Slot>(-1 - cell);
  }
  /// The slot of a flow; nothing if the flow ended in committed time.
  [[nodiscard]] std::optional<Slot> slot_of(std::uint64_t id) const {
    const auto slot = slot_in(cell_of(id));
    if (slot && progress_[*slot].ended() && progress_[*slot].since < committed_)
      return std::nullopt;
    return slot;
  }

  /// Calls visit(past) for each record of a flow after an instant, the last one first.
  template <class Visit>
  void look_back(const Progress& progress, Ps after, Visit visit) const {
    Past past{progress.last, progress.since};
    while (moves_.keeps(past.record) && past.at > after) {
      visit(past);
      past.at -= moves_.age(past.record);
      past.record = moves_.previous(past.record);
    }
  }

  /// When a flow started; none if it did not. @throws CommitError if it started in committed time
  [[nodiscard]] Ps start_of(Slot slot) const {
    const Progress& progress = progress_[slot];
    if (progress.state() == State::not_started || progress.state() == State::withdrawn) return none;
    Ps start = none;
    look_back(progress, -1, [&](const Past& past) {
      if (moves_[past.record].bottleneck == MaxMin::none) start = past.at;
    });
    if (start != none) return start;
    throw CommitError{"a flow told since the checkpoint has started in committed time"};
  }

  void tell(const Input& input) {
    pending_.push_back(input);
    std::push_heap(pending_.begin(), pending_.end());
  }

  [[nodiscard]] Ps next_instant() const noexcept {
    return std::min({pending_.empty() ? none : pending_.front().at,
                     agenda_.empty() ? none : agenda_.front().at, ends_.earliest(),
                     cap_ends_.earliest()});
  }

  /// Makes the present consistent with changes told about the past.
  void catch_up() {
    if (!pending_.empty() && pending_.front().at < now_) run(now_);
  }

  void run(Ps until) {
    if (!pending_.empty() && pending_.front().at <= std::min(until, last_instant_)) {
      ++statistics_.rollbacks;
      const bool by_difference = !undo_for_late_ && last_other_ < pending_.front().at;
      if (!observers_.empty() || !selective_ || !by_difference) undo_from(pending_.front().at);
    }
    for (;;) {
      const Ps next = next_instant();
      if (replaying() && next > replay_end_) {
        finish_replay();
      } else if (next <= until) {
        execute(next);
      } else {
        return;
      }
    }
  }

  void execute(Ps at) {
    if (at <= last_instant_ && !replaying()) begin_replay(at);
    solver_.set_instant(at);
    solver_.tell_of_all(loads_wanted());
    now_solved_ = at;
    find_due(at);
    bool changes = follow_record(at) || !due_.empty();
    for (const Slot slot : due_) end(slot, at, State::finished);
    links_changed_ = false;
    while (!pending_.empty() && pending_.front().at == at) {
      std::pop_heap(pending_.begin(), pending_.end());
      Input input = pending_.back();
      pending_.pop_back();
      if (apply(input)) applied_.push(input);
      changes = true;
    }
    if (links_changed_) reroute(at);
    if (changes) {
      ++statistics_.events;
      statistics_.replayed_events += at <= last_instant_;
      solve(at);
    }
    find_ends(at);
    const auto touched = solver_.touched_links();
    for (std::size_t i = 0; i < touched.size(); ++i) {
      constexpr std::size_t ahead = 8;  // memory is asked for
      if (i + ahead < touched.size()) __builtin_prefetch(&histories_[touched[i + ahead]], 1);
      note_state(touched[i], at);
    }
    const auto settle = [&] {
      solver_.settle();
      last_instant_ = std::max(last_instant_, at);
    };
    try {
      if (!observers_.empty()) report(at);
    } catch (...) {
      settle();
      throw;
    }
    settle();
  }

  /// Finds the flows whose last byte leaves at `at`, before anything else happens at that instant.
  void find_due(Ps at) {
    due_.clear();
    ends_.for_each_at(at, [&](std::uint32_t link) {
      stale(link);
      const Service now = service_at(link, at);
      const Work enough = slack(pace_at(link));
      solver_.for_each_in_group(link, [&](Slot slot) {
        if (counts(slot, link) && left_until(progress_[slot].mark, now) <= enough)
          due_.push_back(slot);
      });
    });
    cap_ends_.for_each_at(at, [&](Slot slot) { due_.push_back(slot); });
    // By id: groups keep their flows in no order that means anything.
    std::sort(due_.begin(), due_.end(),
              [&](Slot a, Slot b) { return identities_[a].id < identities_[b].id; });
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
    // All flows that move leave before any group moves on.
    for (const MaxMin::Move& move : solver_.moves()) {
      const std::uint32_t to = solver_.bottleneck(move.flow);
      if (to != move.from && to != MaxMin::none) leave_group(move.flow, move.from, at);
    }
    for (const std::uint32_t link : solver_.shifts())
      if (solver_.key(link) != solver_.key_before(link)) shift(link, at);
    for (const MaxMin::Move& move : solver_.moves()) {
      const std::uint32_t to = solver_.bottleneck(move.flow);
      // A flow that stays in a link's group is counted with the group, in shift(). One that stays
      // at its own cap has the rate of that cap, which may have changed.
      if (to != move.from || to == MaxMin::own_cap) count_rate_change(move, to);
      if (to != move.from) {
        if (to != MaxMin::none) join_group(move.flow, to, at);
      } else if (to == MaxMin::own_cap && !in_step(move.flow)) {
        find_cap_end(move.flow);
      }
    }
    allow_for_affected(at);
  }

  /// Gives a group the pace of its link's new key.
  void shift(std::uint32_t link, Ps at) {
    const FillingKey before = solver_.key_before(link);
    record_shift(link, before, at);
    Group& group = groups_[link];
    group.service = group.service_at(at);
    group.since = at;
    group.pace = pace_of(solver_.key(link));
    stale(link);
    if (solver_.key(link).level != before.level)
      statistics_.rate_changes += solver_.group_size(link);
  }

  /// shift() has counted every flow of the group; one that joined at this event must not count
  /// twice.
  void count_rate_change(const MaxMin::Move& move, std::uint32_t to) {
    if (to < MaxMin::own_cap && solver_.key(to).level != solver_.key_before(to).level)
      --statistics_.rate_changes;
    statistics_.rate_changes +=
        solver_.rate(move.flow) != solver_.rate_before(move.flow, move.from);
  }

  /// Takes a flow out of its group at `at`; from then on its mark is the work that is left.
  void leave_group(Slot slot, std::uint32_t from, Ps at) {
    const Service mark = progress_[slot].mark;
    progress_[slot].mark = static_cast<Service>(record_move(slot, from, at));
    if (from < MaxMin::own_cap) {
      Group& group = groups_[from];
      if (mark == group.first) group.first_known = false;
      stale(from);
    } else if (from == MaxMin::own_cap) {
      drop_cap_end(slot);
    }
  }

  /// Puts a flow whose mark is the work that is left into a group at `at`, the present instant.
  void join_group(Slot slot, std::uint32_t to, Ps at) {
    Progress& progress = progress_[slot];
    if (to == MaxMin::own_cap) {
      find_cap_end(slot);
      return;
    }
    progress.mark += service_at(to, at);
    Group& group = groups_[to];
    if (left_until(progress.mark, group.first) < 0) group.first = progress.mark;
    stale(to);
  }

  [[nodiscard]] Work cap_pace(Slot slot) const noexcept {
    return pace_of(solver_.cap(slot) / solver_.shares(slot));
  }
  void find_cap_end(Slot slot) {
    const Progress& progress = progress_[slot];
    const bool at_once = solver_.cap(slot) == std::numeric_limits<double>::infinity();
    cap_ends_.set(slot, at_once ? progress.since
                                : end_after(progress.since, static_cast<Work>(progress.mark),
                                            cap_pace(slot)));
  }

  void drop_cap_end(Slot slot) {
    if (cap_ends_.get(slot) != none) cap_ends_.set(slot, none);
  }

  void stale(std::uint32_t link) {
    if (groups_[link].stale) return;
    groups_[link].stale = true;
    stale_.push_back(link);
  }

  /// Finds when the first flow of each stale group ends.
  void find_ends(Ps at) {
    for (const std::uint32_t link : stale_) {
      groups_[link].stale = false;
      find_end(link, at);
    }
    stale_.clear();
  }

  void find_end(std::uint32_t link, Ps at) {
    Group& group = groups_[link];
    if (replaying()) found_.push_back(link);
    const Service now = service_at(link, at);
    if (!group.first_known || replaying()) {
      group.first_known = false;
      Work least = 0;
      solver_.for_each_in_group(link, [&](Slot slot) {
        if (!counts(slot, link)) return;
        const Work left = left_until(progress_[slot].mark, now);
        if (!group.first_known || left < least) least = left;
        group.first_known = true;
      });
      group.first = now + static_cast<Service>(least);
    }
    ends_.set(link, group.first_known ? end_after(at, left_until(group.first, now), pace_at(link))
                                      : none);
  }

  /// The service of a group at an instant in or after which nothing has happened to it.
  [[nodiscard]] Service service_at(std::uint32_t link, Ps at) const {
    const Followed* group = followed(link);
    return group && !group->detached ? past_service(*group, at) : groups_[link].service_at(at);
  }
  /// The pace of a group from the present instant on.
  [[nodiscard]] Work pace_at(std::uint32_t link) const {
    const Followed* group = followed(link);
    return group && !group->detached ? pace_of(past_key(*group)) : groups_[link].pace;
  }
  /// Whether a replay must look for this flow's end: false while its recorded past still tells it.
  [[nodiscard]] bool counts(Slot slot, std::uint32_t link) const {
    if (!replaying()) return true;
    return rewound_flow(slot) ? !in_step(slot) : !followed(link);
  }
  /// Whether a flow is in a replay and does there what is recorded of it. Its progress is then
  /// still that of the replay's end.
  [[nodiscard]] bool in_step(Slot slot) const {
    const Rewound* flow = rewound_flow(slot);
    return flow && !flow->detached;
  }

  /// Journals the flow's bottleneck before it leaves its group at `at`, and rebases its progress to
  /// `at`. @return the work that is left of the flow.
  Work record_move(Slot slot, std::uint32_t from, Ps at) {
    if (replaying()) {
      Rewound* known = rewound_flow(slot);
      Rewound& flow = known ? *known : add_rewound(slot, from);
      if (!flow.detached) detach(flow);
    }
    Progress& progress = progress_[slot];
    Work left = static_cast<Work>(progress.mark);
    if (from < MaxMin::own_cap) {
      left = left_until(progress.mark, service_at(from, at));
    } else if (from == MaxMin::own_cap) {
      left -= cap_pace(slot) * (at - progress.since);
    }
    // One record tells of an instant, however often that changes the flow.
    if (progress.since != at || !moves_.keeps(progress.last)) {
      progress.record(moves_.push({slot, from}, at, progress.last, at - progress.since));
      progress.since = at;
    }
    return left;
  }
  /// Journals a start or a withdrawal.
  void record_not_started(Slot slot, Ps at, State becomes) {
    Progress& progress = progress_[slot];
    progress.record(moves_.push({slot, MaxMin::none}, at, 0, 0));
    progress.since = at;
    progress.become(becomes);
  }

  /// Journals the key of a link before it changes at `at`.
  void record_shift(std::uint32_t link, FillingKey key, Ps at) {
    if (replaying()) {
      Followed* known = followed(link);
      Followed& group = known ? *known : add_followed(link, key);
      if (!group.detached) detach(group);
    }
    Group& group = groups_[link];
    if (group.since != at || !shifts_.keeps(group.last))
      group.last = shifts_.push({link, key}, at, group.last, at - group.since);
  }

  /// Adds a link's state after `at` to its history.
  void note_state(std::uint32_t link, Ps at) {
    if (solver_.stamp(link) >= at) return;  // not rewound, see allow_for_affected()
    histories_[link].push(at, solver_.open(link) ? solver_.residual(link) : LinkHistory::closed,
                          committed_);
    if (!(flags_[link] & rewound)) solver_.set_stamp(link, at);
  }

  /// Whether a change told late, other than a start, can be replayed without undoing all since.
  [[nodiscard]] bool replays_by_difference(Kind kind, Ps at, std::uint64_t id, double value) const {
    // Links are evaluated where flows have diverged; nothing would evaluate those of a flow whose
    // record was made under another cap.
    if (kind == Kind::cap) return false;
    if (kind == Kind::capacity)
      return value > 0 && solver_.capacity(static_cast<std::uint32_t>(id)) > 0;
    // A flow whose start is to come has nothing yet to be taken back to.
    const Slot slot = *slot_of(id);
    const Progress& progress = progress_[slot];
    if (progress.state() == State::not_started) return false;
    bool starts_later = false;
    look_back(progress, at, [&](const Past& past) {
      starts_later |= moves_[past.record].bottleneck == MaxMin::none;
    });
    return !starts_later;
  }

  // ---- Replay by difference -------------------------------------------------------------------

  [[nodiscard]] bool replaying() const noexcept { return replay_end_ >= 0; }

  /// What the replay knows of a flow; null if the flow is not in it. Valid until another is added.
  [[nodiscard]] Rewound* rewound_flow(Slot slot) noexcept {
    return rewound_of_[slot] == 0 ? nullptr : &rewound_[rewound_of_[slot] - 1];
  }
  [[nodiscard]] const Rewound* rewound_flow(Slot slot) const noexcept {
    return rewound_of_[slot] == 0 ? nullptr : &rewound_[rewound_of_[slot] - 1];
  }
  /// What the replay knows of a link's group; null if the group is not in it, or the bottleneck is
  /// no link. Valid until another is added.
  [[nodiscard]] Followed* followed(std::uint32_t link) noexcept {
    return link >= MaxMin::own_cap || followed_of_[link] == 0 ? nullptr
                                                              : &followed_[followed_of_[link] - 1];
  }
  [[nodiscard]] const Followed* followed(std::uint32_t link) const noexcept {
    return link >= MaxMin::own_cap || followed_of_[link] == 0 ? nullptr
                                                              : &followed_[followed_of_[link] - 1];
  }

  /// Begins a replay at `at`, and lists for each link the flows that have left it since by ending.
  void begin_replay(Ps at) {
    replay_end_ = last_instant_;
    // Until all that may be replayed is committed, no link is eased: that one has changed last at
    // the latest instant.
    solver_.allow_easing(false);
    solver_.count_exactly([&](std::uint32_t link) { solver_.set_stamp(link, last_instant_); });
    for (std::uint64_t i = moves_.first_since(at); i <= moves_.end(); ++i) {
      const Slot slot = moves_[i].slot;
      if (!moves_[i].ends || progress_[slot].last != i || progress_[slot].since <= at) continue;
      solver_.for_each_link(slot, [&](std::uint32_t link) { departed_from(link).push_back(slot); });
    }
  }

  /// Flows that have ended after the instant at which the replay began: all that were on this link,
  /// and others, since links share 64 lists.
  [[nodiscard]] std::vector<Slot>& departed_from(std::uint32_t link) {
    return departed_[link % departed_.size()];
  }

  void finish_replay() {
    for (std::vector<Slot>& flows : departed_) flows.clear();
    for (const std::uint32_t link : flagged_) {
      // The last instant that may have touched the link.
      if (flags_[link] & rewound) solver_.set_stamp(link, replay_end_);
      flags_[link] = 0;
      diverged_on_[link] = 0;
    }
    flagged_.clear();
    for (std::size_t i = 0; i < rewound_count_; ++i) {
      rewound_of_[rewound_[i].slot] = 0;
      // The flow may not have come back to the group that it was in.
      if (rewound_[i].last < MaxMin::own_cap) found_.push_back(rewound_[i].last);
    }
    rewound_count_ = 0;
    for (std::size_t i = 0; i < followed_count_; ++i) {
      followed_of_[followed_[i].link] = 0;
      found_.push_back(followed_[i].link);
    }
    followed_count_ = 0;
    const Ps end = std::exchange(replay_end_, -1);
    // All marks are of the present again.
    for (const std::uint32_t link : found_) {
      groups_[link].first_known = false;
      stale(link);
    }
    found_.clear();
    find_ends(end);
  }

  void flag(std::uint32_t link, std::uint8_t as) {
    if (flags_[link] == 0) flagged_.push_back(link);
    flags_[link] |= as;
  }

  /// Takes a link, its flows and the groups that those are in back to their recorded state after
  /// `at`.
  void rewind_link(std::uint32_t link, Ps at) {
    replay_end_ = std::max(replay_end_, at);
    flag(link, rewound);
    solver_.set_stamp(link, std::numeric_limits<Ps>::min());
    flows_on_.clear();
    solver_.for_each_flow(link, [&](Slot slot) { flows_on_.push_back(slot); });
    for (const Slot slot : departed_from(link))
      if (solver_.uses_link(slot, link)) flows_on_.push_back(slot);
    for (const Slot slot : flows_on_) rewind(slot, at);
    for (const Slot slot : flows_on_) follow(solver_.bottleneck(slot), at);
    follow(link, at);
    histories_[link].forget_after(at);
    solver_.reconsider(link);
  }

  void rewind(Slot slot, Ps at) {
    if (rewound_flow(slot)) return;
    const Progress& progress = progress_[slot];
    if (!moves_.keeps(progress.last) || progress.since <= at) return;
    Rewound& flow = add_rewound(slot, solver_.bottleneck(slot));
    look_back(progress, at, [&](const Past& past) { flow.future.push_back(past); });
    take_past(flow);
    schedule(flow.future.back().at, rewound_of_[slot] - 1);
  }

  Rewound& add_rewound(Slot slot, std::uint32_t last) {
    if (rewound_count_ == rewound_.size()) rewound_.emplace_back();
    Rewound& flow = rewound_[rewound_count_++];
    rewound_of_[slot] = static_cast<std::uint32_t>(rewound_count_);
    flow.slot = slot;
    flow.detached = flow.diverged = false;
    flow.counted = 0;
    flow.last = last;
    flow.future.clear();
    return flow;
  }

  /// The recorded bottleneck of a flow at the present instant; none if the flow was not running.
  [[nodiscard]] std::uint32_t past_bottleneck(const Rewound& flow) const {
    return flow.future.empty() ? flow.last : moves_[flow.future.back().record].bottleneck;
  }

  void take_past(const Rewound& flow) {
    const std::uint32_t bottleneck = past_bottleneck(flow);
    if (bottleneck != MaxMin::none) {
      solver_.restore(flow.slot, bottleneck);
    } else if (solver_.present(flow.slot)) {
      solver_.withdraw(flow.slot);
    }
  }

  /// Takes the key of a link back to what it was after `at`, if it has changed since.
  void follow(std::uint32_t link, Ps at) {
    if (link >= MaxMin::own_cap || followed(link)) return;
    if (!shifts_.keeps(groups_[link].last) || groups_[link].since <= at) return;
    Followed& group = add_followed(link, solver_.key(link));
    look_back(link, at, [&](const PastShift& change) {
      group.future.push_back(change);
      group.least = std::min(group.least, shifts_[change.record].key().level);
    });
    solver_.restore_key(link, past_key(group));
    schedule(group.future.back().at, group_due + (followed_of_[link] - 1));
  }

  Followed& add_followed(std::uint32_t link, FillingKey last) {
    if (followed_count_ == followed_.size()) followed_.emplace_back();
    Followed& group = followed_[followed_count_++];
    followed_of_[link] = static_cast<std::uint32_t>(followed_count_);
    group.link = link;
    group.detached = group.diverged = false;
    group.end = groups_[link];
    group.last = last;
    group.least = last.level;
    group.future.clear();
    return group;
  }

  /// The recorded key of a link at the present instant.
  [[nodiscard]] FillingKey past_key(const Followed& group) const {
    return group.future.empty() ? group.last : shifts_[group.future.back().record].key();
  }

  /// Calls visit(change) for each change of the key of a link after an instant, the last one first.
  template <class Visit>
  void look_back(std::uint32_t link, Ps after, Visit visit) const {
    const Group& group = groups_[link];
    PastShift change{group.last, group.since, group.service};
    while (shifts_.keeps(change.record) && change.at > after) {
      visit(change);
      const Ps age = shifts_.age(change.record);
      change.service -= served(pace_of(shifts_[change.record].key()), age);
      change.at -= age;
      change.record = shifts_.previous(change.record);
    }
  }

  /// The service of a group at `at`, which lies between this change of its key and the one before.
  [[nodiscard]] Service service_before(const PastShift& change, Ps at) const {
    return change.service - served(pace_of(shifts_[change.record].key()), change.at - at);
  }

  /// The recorded service of a group at an instant not before the present one.
  [[nodiscard]] Service past_service(const Followed& group, Ps at) const {
    const auto next =
        std::partition_point(group.future.begin(), group.future.end(),
                             [&](const PastShift& change) { return change.at >= at; });
    return next == group.future.begin() ? group.end.service_at(at)
                                        : service_before(*(next - 1), at);
  }
  [[nodiscard]] Service past_service(std::uint32_t link, Ps at) const {
    if (const Followed* group = followed(link)) return past_service(*group, at);
    Service service = groups_[link].service_at(at);
    look_back(link, at, [&](const PastShift& change) { service = service_before(change, at); });
    return service;
  }

  /// The recorded work that was left of a flow at `at`, an instant between the present one and the
  /// flow's next record: what is left at the end of the record, and what its groups moved until
  /// then.
  [[nodiscard]] Work past_left(const Rewound& flow, Ps at) const {
    const Progress& end = progress_[flow.slot];
    const Ps last = flow.future.empty() ? at : flow.future.front().at;
    Service left = end.mark - (flow.last < MaxMin::own_cap ? past_service(flow.last, last) : 0);
    for (std::size_t i = 0; i < flow.future.size(); ++i) {
      const Ps until = flow.future[i].at;
      const Ps from = i + 1 < flow.future.size() ? flow.future[i + 1].at : at;
      const std::uint32_t bottleneck = moves_[flow.future[i].record].bottleneck;
      if (bottleneck < MaxMin::own_cap) {
        left += past_service(bottleneck, until) - past_service(bottleneck, from);
      } else if (bottleneck == MaxMin::own_cap) {
        left += served(cap_pace(flow.slot), until - from);
      }
    }
    return static_cast<Work>(left);
  }

  void schedule(Ps at, std::uint64_t index) {
    agenda_.push_back({at, index});
    std::push_heap(agenda_.begin(), agenda_.end());
  }

  /// Lets the flows and groups in the replay become at `at` what is recorded that they became.
  /// @return whether links have to be evaluated.
  bool follow_record(Ps at) {
    replayed_flows_.clear();
    replayed_groups_.clear();
    newly_diverged_.clear();
    due_links_.clear();
    due_records_.clear();
    while (!agenda_.empty() && agenda_.front().at == at) {
      const std::uint64_t what = agenda_.front().what;
      std::pop_heap(agenda_.begin(), agenda_.end());
      agenda_.pop_back();
      if (what >= group_due) {
        follow_record(followed_[what - group_due], at);
      } else if (what >= link_due) {
        due_links_.push_back(static_cast<std::uint32_t>(what - link_due));
      } else {
        due_records_.push_back(what);
      }
    }
    for (const std::uint64_t index : due_records_) follow_record(rewound_[index], at);
    bool evaluate = false;
    for (const std::uint32_t link : due_links_) {
      if (diverged_on_[link] == 0 || (flags_[link] & rewound)) continue;
      rewind_link(link, at);
      evaluate = true;
    }
    const auto reconsider = [&](std::uint32_t link) {
      if (diverged_on_[link] == 0 || !(flags_[link] & rewound)) return;
      solver_.reconsider(link);
      evaluate = true;
    };
    for (const Slot slot : replayed_flows_) solver_.for_each_link(slot, reconsider);
    for (const std::uint32_t link : replayed_groups_) solver_.for_each_crossed(link, reconsider);
    return evaluate || !newly_diverged_.empty() || !solver_.moves().empty() ||
           !solver_.shifts().empty();
  }

  void follow_record(Followed& group, Ps at) {
    while (!group.future.empty() && group.future.back().at == at) group.future.pop_back();
    if (!group.future.empty())
      schedule(group.future.back().at, group_due + (followed_of_[group.link] - 1));
    const FillingKey key = past_key(group);
    if (!group.detached) {
      solver_.restore_key(group.link, key);
      replayed_groups_.push_back(group.link);
      stale(group.link);
    } else if (!group.diverged || solver_.group_size(group.link) == 0) {
      solver_.guess_key(group.link, key);
      replayed_groups_.push_back(group.link);
    }
    compare(group, [&](Slot slot) { newly_diverged_.push_back(slot); });
  }

  void follow_record(Rewound& flow, Ps at) {
    const Past first = flow.future.back();
    while (!flow.future.empty() && flow.future.back().at == at) flow.future.pop_back();
    if (!flow.future.empty()) schedule(flow.future.back().at, rewound_of_[flow.slot] - 1);
    const std::uint32_t to = past_bottleneck(flow);
    if (!flow.detached) {
      take_past(flow);
      follow(to, at);
      replayed_flows_.push_back(flow.slot);
      if (const Followed* group = followed(to); group && group->detached) {
        // That group's service is another than recorded, so the flow needs a mark of its own.
        const auto left = static_cast<Service>(past_left(flow, at));
        flow.detached = true;
        flow.counted = least_rate(flow);
        Progress& progress = progress_[flow.slot];
        drop_cap_end(flow.slot);
        progress.become(State::running);
        progress.since = at;
        progress.record(first.record);
        progress.mark = service_at(to, at) + left;
        stale(to);
      }
    } else if (!flow.diverged && to != MaxMin::none &&
               std::find(due_.begin(), due_.end(), flow.slot) == due_.end()) {
      solver_.guess(flow.slot, to);
      follow(to, at);
      replayed_flows_.push_back(flow.slot);
    }
    if (compare(flow)) newly_diverged_.push_back(flow.slot);
  }

  /// Notes whether a flow has its recorded bottleneck and that its recorded key. @return whether
  /// the flow has diverged just now.
  bool compare(Rewound& flow) {
    const std::uint32_t link = solver_.bottleneck(flow.slot);
    const Followed* group = followed(link);
    const bool diverged = link != past_bottleneck(flow) || (group && group->diverged);
    if (diverged == flow.diverged) return false;
    flow.diverged = diverged;
    solver_.for_each_link(flow.slot, [&](std::uint32_t on) {
      flag(on, visited);
      diverged_on_[on] += diverged ? 1 : std::uint32_t(-1);
    });
    return diverged;
  }

  /// Notes whether a group has its recorded key. Calls visit(slot) for each of its flows that has
  /// diverged just now.
  template <class Visit>
  void compare(Followed& group, Visit visit) {
    const bool diverged = solver_.key(group.link) != past_key(group);
    if (diverged == group.diverged) return;
    group.diverged = diverged;
    solver_.for_each_in_group(group.link, [&](Slot slot) {
      if (Rewound* flow = rewound_flow(slot); flow && compare(*flow)) visit(slot);
    });
  }

  /// From here on a flow has its own progress in the replay: what is recorded of it is void.
  void detach(Rewound& flow) {
    flow.detached = true;
    flow.counted = least_rate(flow);
    take_back(flow);
  }

  /// Makes the progress of a flow what is recorded of it before its next record.
  void take_back(const Rewound& flow) {
    if (flow.future.empty()) return;
    const Past next = flow.future.back();
    const std::uint32_t bottleneck = moves_[next.record].bottleneck;
    Progress& progress = progress_[flow.slot];
    progress.mark = static_cast<Service>(past_left(flow, next.at));
    progress.since = next.at - moves_.age(next.record);
    progress.record(moves_.previous(next.record));
    progress.become(bottleneck == MaxMin::none ? State::not_started : State::running);
    drop_cap_end(flow.slot);
    if (bottleneck == MaxMin::own_cap) {
      progress.mark += served(cap_pace(flow.slot), next.at - progress.since);
      find_cap_end(flow.slot);
    } else if (bottleneck != MaxMin::none) {
      progress.mark += past_service(bottleneck, next.at);
      stale(bottleneck);
    }
  }

  /// From here on a group has its own service in the replay, and all its flows have their own
  /// marks.
  void detach(Followed& group) {
    take_back(group);
    solver_.for_each_in_group(group.link, [&](Slot slot) {
      Rewound* known = rewound_flow(slot);
      Rewound& flow = known ? *known : add_rewound(slot, group.link);
      if (!flow.detached) detach(flow);
    });
    group.detached = true;
    stale(group.link);
  }

  /// Makes the service of a group what is recorded of it before its next record.
  void take_back(const Followed& group) {
    if (group.future.empty()) return;
    const PastShift& next = group.future.back();
    Group& now = groups_[group.link];
    now.pace = pace_of(shifts_[next.record].key());
    now.since = next.at - shifts_.age(next.record);
    now.service = service_before(next, now.since);
    now.last = shifts_.previous(next.record);
  }

  /// Takes a flow back to `at`, at which something told late changes it.
  void part_from_past(Slot slot, Ps at) {
    rewind(slot, at);
    follow(solver_.bottleneck(slot), at);
    if (in_step(slot)) detach(*rewound_flow(slot));
  }

  /// The least recorded level of a link, from the present instant on.
  [[nodiscard]] double least_level(std::uint32_t link) const {
    if (const Followed* group = followed(link)) return group->least;
    // The group is not in the replay as yet; flows that follow their records will join it.
    double least = solver_.key_before(link).level;
    look_back(link, now_solved_, [&](const PastShift& change) {
      least = std::min(least, shifts_[change.record].key().level);
    });
    return least;
  }
  [[nodiscard]] double least_rate(Slot slot, std::uint32_t bottleneck) const {
    if (bottleneck == MaxMin::none) return 0;
    if (bottleneck == MaxMin::own_cap) return solver_.cap(slot);
    return solver_.rate_at(slot, bottleneck, {least_level(bottleneck), bottleneck});
  }
  /// The least recorded rate of a flow, from the present instant on.
  [[nodiscard]] double least_rate(const Rewound& flow) const {
    double rate = least_rate(flow.slot, flow.last);
    for (const Past& past : flow.future)
      rate = std::min(rate, least_rate(flow.slot, moves_[past.record].bottleneck));
    return rate;
  }

  /// Rewinds the links to which diverged flows have come, or will later, when they may be
  /// saturated.
  /// @return whether there is a link that has been rewound.
  bool rewind_affected(Ps at) {
    for (const MaxMin::Move& move : solver_.moves()) {
      const Rewound* flow = rewound_flow(move.flow);
      const std::uint32_t past = flow ? past_bottleneck(*flow) : move.from;
      if (solver_.bottleneck(move.flow) != past) note_affected(move.flow, move.from, at);
    }
    for (const std::uint32_t link : solver_.shifts()) {
      const Followed* group = followed(link);
      const FillingKey past = group ? past_key(*group) : solver_.key_before(link);
      const bool all_diverged = solver_.key(link) != past;
      solver_.for_each_in_group(link, [&](Slot slot) {
        const Rewound* flow = rewound_flow(slot);
        if (all_diverged || (flow && flow->diverged)) note_affected(slot, link, at);
      });
    }
    for (const Slot slot : newly_diverged_) note_affected(slot, solver_.bottleneck(slot), at);
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

  /// Notes those of a flow's links that are past `at`, and by how much the flow exceeds what their
  /// histories allow for.
  /// @param from  the flow's bottleneck before the instant, for a flow that is not in the replay
  void note_affected(Slot slot, std::uint32_t from, Ps at) {
    const Rewound* flow = rewound_flow(slot);
    const double counted = !flow            ? least_rate(slot, from)
                           : flow->detached ? flow->counted
                                            : least_rate(*flow);
    const double rate = solver_.rate(slot);
    solver_.for_each_use(slot, [&](std::uint32_t link, double amount) {
      if (solver_.stamp(link) < at) return;
      if (!(flags_[link] & affected)) affected_.push_back(link);
      flag(link, affected);
      if (rate > counted)
        excess_[link] += solver_.units(link, rate, amount) - solver_.units(link, counted, amount);
    });
  }

  /// Lowers the residuals in the histories of the links that need no rewinding by what diverged
  /// flows may put on them.
  void allow_for_affected(Ps at) {
    if (!replaying()) return;
    for (const std::uint32_t link : affected_) histories_[link].lower_from(at, excess_[link]);
    forget_affected();
    const auto allow_for = [&](Slot slot) {
      Rewound* flow = rewound_flow(slot);
      if (!flow) return;
      compare(*flow);
      if (flow->diverged) flow->counted = std::max(flow->counted, solver_.rate(slot));
    };
    for (const std::uint32_t link : solver_.shifts()) {
      Followed* group = followed(link);
      if (!group) continue;
      compare(*group, [](Slot) {});
      solver_.for_each_in_group(link, allow_for);
    }
    for (const MaxMin::Move& move : solver_.moves()) allow_for(move.flow);
    for (const Slot slot : newly_diverged_) allow_for(slot);
  }
  void forget_affected() {
    for (const std::uint32_t link : affected_) {
      excess_[link] = 0;
      flags_[link] &= static_cast<std::uint8_t>(~affected);
    }
    affected_.clear();
  }

  // ---- Events -----------------------------------------------------------------------------------

  /// Takes a flow out of the network, for good unless undone.
  void end(Slot slot, Ps at, State how) {
    Progress& progress = progress_[slot];
    if (solver_.present(slot)) {
      leave_group(slot, solver_.bottleneck(slot), at);
      solver_.remove(slot);
      progress.become(how);
    } else {
      record_not_started(slot, at, State::withdrawn);
    }
    moves_[progress.last].ends = 1;
  }

  /// @return whether the input is to be kept for take_back(); of a start the journal says enough.
  bool apply(Input& input) {
    if (input.kind != Kind::start) last_other_ = std::max(last_other_, input.at);
    if (input.kind == Kind::capacity) {
      const auto link = static_cast<std::uint32_t>(input.id);
      if (solver_.stamp(link) >= input.at) {
        rewind_link(link, input.at);
        ++diverged_on_[link];  // what its flows became with another capacity is no good guess
      }
      input.previous = solver_.capacity(link);
      solver_.set_capacity(link, input.value);
      const bool was_up = input.previous > 0, is_up = input.value > 0;
      if (was_up && !is_up) down_.push_back(link);
      if (!was_up && is_up) std::erase(down_, link);
      links_changed_ |= was_up != is_up;
      return true;
    }
    const auto slot = slot_of(input.id);
    if (!slot) return true;
    if (replaying() && input.kind == Kind::cancel) part_from_past(*slot, input.at);
    Progress& progress = progress_[*slot];
    switch (input.kind) {
      case Kind::start:
        if (progress.state() == State::withdrawn) break;
        record_not_started(*slot, input.at, State::running);
        choose_route(*slot, input.at);
        solver_.insert(*slot);
        return false;
      case Kind::cancel:
        if (!progress.ended()) end(*slot, input.at, State::cancelled);
        break;
      case Kind::cap:
        input.previous = solver_.cap(*slot);
        if (solver_.bottleneck(*slot) == MaxMin::own_cap)
          progress.mark = static_cast<Service>(record_move(*slot, MaxMin::own_cap, input.at));
        solver_.set_cap(*slot, input.value);
        break;
      case Kind::capacity:
        break;
    }
    return true;
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
      return;  // the flow stalls on the link that is down until a link comes up
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

  /// Moves routed flows off the links that are down, in an order that does not depend on slots.
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
    applied_.erase_if([&](const Input& input) { return input.at >= at; });
    while (!routes_.empty() && routes_.back().at >= at) {
      take_back(routes_.back(), at);
      routes_.cut_back(routes_.end() - 1);
    }
    const std::uint64_t first_shift = shifts_.first_since(at), first_move = moves_.first_since(at);
    for (std::uint64_t i = first_shift; i <= shifts_.end(); ++i) follow(shifts_[i].link, at - 1);
    for (std::uint64_t i = first_move; i <= moves_.end(); ++i)
      if (progress_[moves_[i].slot].last == i) first = std::min(first, undo(moves_[i].slot, at));
    for (std::size_t i = 0; i < followed_count_; ++i) {
      first = std::min(first, followed_[i].future.back().at);
      undo(followed_[i], at);
    }
    followed_count_ = 0;
    agenda_.clear();
    const auto cut = [&](auto& journal, std::uint64_t from, auto is_last) {
      std::uint64_t kept = journal.end();
      while (kept >= from && !is_last(kept)) --kept;
      journal.cut_back(kept, at - 1);
    };
    cut(moves_, first_move,
        [&](std::uint64_t record) { return progress_[moves_[record].slot].last == record; });
    cut(shifts_, first_shift,
        [&](std::uint64_t record) { return groups_[shifts_[record].link].last == record; });
    find_ends(at - 1);
    // What a flow is allowed on an eased link is still what it was allowed after `at`.
    for (const std::uint32_t link : forgotten_)
      if (solver_.eased(link)) histories_[link].lower(solver_.residual(link));
    forgotten_.clear();
    solver_.settle();
    last_instant_ = at - 1;
    last_other_ = std::min(last_other_, last_instant_);
    undo_for_late_ = false;
    observers_.for_each([&](FlowObserver* observer) { observer->on_rollback(to_time(first)); });
  }

  /// Makes a flow what it was before `at`. @return the instant of the first record undone.
  Ps undo(Slot slot, Ps at) {
    const auto leave_or_join = [&](std::uint32_t bottleneck) {
      if (bottleneck >= MaxMin::own_cap) return;
      groups_[bottleneck].first_known = false;
      stale(bottleneck);
    };
    const State state = progress_[slot].state();
    leave_or_join(solver_.bottleneck(slot));
    rewind(slot, at - 1);
    const Rewound* flow = rewound_flow(slot);
    if (!flow) return none;
    const Ps next = flow->future.back().at;
    take_back(*flow);
    --rewound_count_;
    rewound_of_[slot] = 0;
    leave_or_join(solver_.bottleneck(slot));
    solver_.for_each_link(slot, [&](std::uint32_t link) { forget_from(link, at); });
    if (progress_[slot].state() == State::not_started && state != State::withdrawn) {
      const std::uint64_t id = identities_[slot].id;
      tell({.at = next, .order = id, .id = id, .kind = Kind::start});
    }
    return next;
  }

  /// Makes a group that follow() has taken back what it was before `at`.
  void undo(const Followed& group, Ps at) {
    take_back(group);
    followed_of_[group.link] = 0;
    groups_[group.link].first_known = false;
    stale(group.link);
    solver_.for_each_crossed(group.link, [&](std::uint32_t on) { forget_from(on, at); });
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
      if (const auto slot = slot_of(input.id)) {
        undo(*slot, input.at + 1);  // with the cap that the flow has had since
        solver_.restore_cap(*slot, input.previous);
      }
    }
    tell(input);
  }

  void take_back(const Rerouted& route, Ps from) {
    const auto forget = [&](std::uint32_t link) { forget_from(link, from); };
    const std::uint32_t bottleneck = solver_.bottleneck(route.slot);
    solver_.for_each_link(route.slot, forget);
    if (bottleneck != MaxMin::none) solver_.withdraw(route.slot);
    solver_.redirect(route.slot, route.links);
    if (bottleneck != MaxMin::none) solver_.restore(route.slot, bottleneck);
    identities_[route.slot].latency = route.latency;
  }

  void forget_from(std::uint32_t link, Ps at) {
    forgotten_.push_back(link);
    if (solver_.stamp(link) < at) return;
    histories_[link].forget_after(at - 1);
    solver_.set_stamp(link, at - 1);
  }

  /// Frees the slot of a flow that has ended in committed time, or was told after a checkpoint.
  void release(Slot slot) {
    const Progress progress = std::exchange(progress_[slot], {});
    const Identity& identity = identities_[slot];
    cells_[static_cast<std::size_t>(identity.id - first_cell_)] =
        progress.state() == State::finished ? progress.since + identity.latency.count() : gone;
    end_points_.erase(slot);
    solver_.erase(slot);
  }

  /// Finds the flows that observers are told of, in order of their ids.
  void gather_changes() {
    told_.clear();
    for (const MaxMin::Move& move : solver_.moves()) {
      const bool changes = solver_.rate(move.flow) != solver_.rate_before(move.flow, move.from);
      if (changes || solver_.bottleneck(move.flow) != move.from)
        told_.push_back({move.flow, changes, move.from == MaxMin::none});
    }
    for (const std::uint32_t link : solver_.shifts()) {
      solver_.for_each_in_group(link, [&](Slot slot) {
        if (!solver_.moved(slot) && solver_.rate(slot) != solver_.rate_before(slot, link))
          told_.push_back({slot, true, false});
      });
    }
    std::sort(told_.begin(), told_.end(), [&](const Told& a, const Told& b) {
      return identities_[a.slot].id < identities_[b.slot].id;
    });
  }

  [[nodiscard]] bool loads_wanted() {
    bool any = false;
    if (!observers_.empty())
      observers_.for_each([&](FlowObserver* observer) { any |= observer->wants_link_loads(); });
    return any;
  }

  void report(Ps at) {
    const Time time = to_time(at);
    gather_changes();
    // An observer is null once it has ended its subscription.
    observers_.for_each([&](FlowObserver* const& observer) {
      for (const Told& told : told_) {
        const FlowId id{identities_[told.slot].id};
        if (observer && told.starts) observer->on_flow_start(id, time);
        if (observer && told.rate_changes)
          observer->on_rate_change(id, time, Bandwidth{solver_.rate(told.slot)});
        if (observer && progress_[told.slot].state() == State::finished)
          observer->on_flow_finish(id, time + identities_[told.slot].latency);
      }
      if (!observer || !observer->wants_link_loads()) return;
      for (const std::uint32_t link : solver_.touched_links()) {
        if (!observer) return;
        observer->on_link_load(LinkId{link}, time, Bandwidth{solver_.load(link)});
      }
    });
  }

  NetworkView view_;
  MaxMin solver_;
  Table<Group> groups_;   ///< of each link
  EarliestEnd ends_;      ///< of each link's group
  EarliestEnd cap_ends_;  ///< of each flow that its own cap holds
  std::vector<std::uint32_t> stale_;
  std::vector<Progress> progress_;
  std::vector<Identity> identities_;
  std::unordered_map<Slot, EndPoints> end_points_;
  std::vector<std::uint32_t> down_;
  std::deque<Ps> cells_;  ///< of each flow: -1 - slot while it has one, else see `gone`
  std::uint64_t first_cell_ = 0;
  std::vector<Input> pending_;
  std::uint64_t next_order_ = 0;

  Journal<Moved> moves_;
  Journal<Shifted> shifts_;
  Trail<Input> applied_;
  Trail<Rerouted> routes_;
  ObserverList<FlowObserver> observers_;
  Table<LinkHistory> histories_;
  bool selective_ = true;

  // Of links: what a replay has to do with them.
  static constexpr std::uint8_t rewound = 1, visited = 2, affected = 4;
  // In agenda_: plus the link, plus the index in followed_.
  static constexpr std::uint64_t link_due = std::uint64_t{1} << 32;
  static constexpr std::uint64_t group_due = std::uint64_t{1} << 33;
  Ps replay_end_ = -1;  ///< the last instant that a replay may find otherwise; negative if none
  std::vector<std::uint8_t> flags_;
  std::vector<std::uint32_t> flagged_;
  std::array<std::vector<Slot>, 64> departed_;
  std::vector<Rewound> rewound_;  ///< the first rewound_count_ are in use
  std::size_t rewound_count_ = 0;
  std::vector<std::uint32_t> rewound_of_;  ///< of each flow, counted from 1; 0 if not rewound
  std::vector<Followed> followed_;         ///< the first followed_count_ are in use
  std::size_t followed_count_ = 0;
  std::vector<std::uint32_t> followed_of_;  ///< of each link, counted from 1; 0 if not followed
  std::vector<std::uint32_t> found_;        ///< the groups whose ends a replay has found
  std::vector<Due>
      agenda_;  ///< a heap of rewound flows and groups by their next records, and links
  std::vector<std::uint64_t> due_records_;
  std::vector<Slot> replayed_flows_, newly_diverged_, flows_on_;
  std::vector<std::uint32_t> replayed_groups_;
  std::vector<std::uint32_t> due_links_;
  std::vector<Slot> due_;
  std::vector<Told> told_;
  std::vector<std::uint32_t> diverged_on_;  ///< of each link, how many flows have diverged
  std::vector<std::uint32_t> affected_;
  std::vector<std::int64_t> excess_;      ///< of affected links: load that is not allowed for
  std::vector<std::uint32_t> forgotten_;  ///< links whose histories are being cut back
  Ps now_ = 0;
  Ps committed_ = 0;
  Ps last_instant_ = -1;
  Ps now_solved_ = -1;          ///< the instant that is being executed
  Ps last_other_ = -1;          ///< the last instant with another input than starts
  bool links_changed_ = false;  ///< whether a link went down or came up at the present instant
  bool undo_for_late_ = false;  ///< an input is pending that cannot be replayed by difference
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
Time FlowNetwork::next_event() const { return impl_->next_event(); }
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
