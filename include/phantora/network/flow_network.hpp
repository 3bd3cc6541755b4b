#pragma once

#include <phantora/ids.hpp>
#include <phantora/network/network_view.hpp>
#include <phantora/subscription.hpp>
#include <phantora/units.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace phantora {

/// No limit of its own: only the links bound the rate.
inline constexpr Bandwidth unlimited{std::numeric_limits<double>::infinity()};

/// A transfer to simulate.
struct FlowSpec {
  NodeId src{};                 ///< where it begins
  NodeId dst{};                 ///< where it ends
  Bytes size{};                 ///< > 0, and at most 2^59 per share
  std::optional<Time> start{};  ///< nothing: now()
  /// Chooses among equal routes, and orders flows that are otherwise alike.
  std::uint64_t key = 0;
  /// Weight in the fair sharing: channels or queue pairs (> 0).
  double shares = 1;
  Bandwidth rate_cap = unlimited;  ///< > 0
  /// Added after the last byte has left, on top of the latency of a routed flow's path.
  Duration latency{};
  /// Empty: routed from src to dst. Otherwise these links, no others; repeated ones add up.
  std::vector<LinkUse> links{};
  /// Finds other links where one of those named is down; null: the flow then stalls. Not asked in a
  /// network without routes.
  std::shared_ptr<const Router> router{};
};

/// Watches a FlowNetwork. Traces and reports write only here.
///
/// While it is told, it may subscribe observers and end subscriptions, but not ask or change the
/// network. What it throws comes out of the call that simulated: see FlowNetwork.
class FlowObserver {
 public:
  FlowObserver() = default;
  FlowObserver(const FlowObserver&) = default;
  FlowObserver& operator=(const FlowObserver&) = default;
  virtual ~FlowObserver() = default;
  /// The flow begins to move.
  virtual void on_flow_start(FlowId, Time) {}
  /// `completion` includes the latency, so it may lie after the instant of the call.
  virtual void on_flow_finish(FlowId, Time /*completion*/) {}
  /// The bytes per second of the flow from this instant on.
  virtual void on_rate_change(FlowId, Time, Bandwidth) {}
  /// The bytes per second that the link carries from this instant on.
  virtual void on_link_load(LinkId, Time, Bandwidth) {}
  /// Whether to be told of starts and rates, which costs a look at each flow whose rate changes.
  [[nodiscard]] virtual bool wants_rates() const { return true; }
  /// Whether to be told of loads, which costs a look at each link of each flow whose rate changes.
  [[nodiscard]] virtual bool wants_link_loads() const { return true; }
  /// Discard what you recorded at or after this instant; it is told again.
  virtual void on_rollback(Time) {}
  /// Nothing before this instant changes any more.
  virtual void on_commit(Time) {}
};

/// A state to return to; valid for the network that made it, until a commit() beyond it.
struct Checkpoint {
  Time now{};                ///< the instant to return to
  std::uint64_t inputs = 0;  ///< changes told before
  std::uint64_t flows = 0;   ///< the first id that had not been given
};

/// Work done by a FlowNetwork since its construction.
struct FlowStatistics {
  std::uint64_t events = 0;              ///< instants solved, replays included
  std::uint64_t replayed_events = 0;     ///< of these, solved again because of a change in the past
  std::uint64_t rate_changes = 0;        ///< rates whose bits changed
  std::uint64_t touched_incidences = 0;  ///< (flow, link) and (group, link) pairs looked at
  std::uint64_t rollbacks = 0;           ///< times that the past was changed
};

/// Fluid model of flows that share links under weighted max-min fairness.
///
/// The rates r solve max-min of r(f) / shares(f), subject to sum of bytes_per_byte(f, l) * r(f)
/// <= capacity(l) on each link l and r(f) <= rate_cap(f). They change only at events: a flow
/// starts, ends or is cancelled, a cap or a capacity changes. Between two events every flow moves
/// rate * dt bytes, counted in integers; it ends at the first whole picosecond (but for a 64th of
/// one) by which all have left, after that of its last change of rate. Results do not depend, to
/// the bit, on the order in which events at different or equal instants are told. Not thread-safe;
/// distinct instances are independent.
///
/// The past may be changed, for what-if questions, jobs told late and optimistic synchronisation; a
/// Session never does. Changes told about the past take effect with the next call that advances the
/// time, commits, or asks: next_event() and the questions below it then simulate up to now() again,
/// which may take long, tells the observers, and throws what these throw. The instant at which one
/// threw is done.
///
/// @invariant On each link the sum of the load is at most the capacity (to rounding); each flow
/// has its cap or a saturated link on which its rate per share is greatest.
class FlowNetwork {
 public:
  /// An empty network at the instant 0.
  explicit FlowNetwork(NetworkView network);
  FlowNetwork(FlowNetwork&&) noexcept;
  FlowNetwork& operator=(FlowNetwork&&) noexcept;
  ~FlowNetwork();

  /// Tells of a flow and returns its id. It takes effect when the time advances to its start.
  ///
  /// A `spec.start` before now() changes the past: the effect is as if it had been told before.
  ///
  /// @throws RouteError  if no path joins src to dst.
  /// @throws CommitError if the start lies before the last commit().
  /// @throws ArgumentError if a member of the spec is out of its range.
  FlowId start(FlowSpec spec);

  /// Ends a flow at an instant, where it has no completion unless it has ended before.
  /// @throws CommitError if `at` lies before the last commit().
  void cancel(FlowId flow, Time at);
  /// Changes a flow's rate cap (> 0) from an instant on.
  /// @throws CommitError if `at` lies before the last commit().
  void set_rate_cap(FlowId flow, Time at, Bandwidth cap);
  /// Changes a link's capacity from an instant on; 0 takes it down. Routed flows on a link that is
  /// down take another route if one is up; others stall (rate 0, this link their bottleneck) until
  /// a link comes up.
  /// @throws CommitError if `at` lies before the last commit().
  void set_capacity(LinkId link, Time at, Bandwidth capacity);

  /// The instant up to which everything is simulated.
  [[nodiscard]] Time now() const noexcept;
  /// The earliest instant after what has been simulated when something changes; `never` when idle.
  /// May equal now() after a start(now()).
  [[nodiscard]] Time next_event() const;
  /// Runs all events with time <= until; now() becomes `until`, or the last event if `until` is
  /// `never`. Flows that are stalled then stay so.
  void advance_to(Time until);

  /// When the flow's last byte arrives, once its last byte has left by now(): the instant may lie
  /// after now() by the latency of its path. Nothing while it runs, or if it was cancelled.
  [[nodiscard]] std::optional<Time> completion(FlowId flow) const;
  /// Bytes per second at now(); 0 before the start and after the end.
  [[nodiscard]] Bandwidth rate(FlowId flow) const;
  /// Bytes per second that the link carries at now().
  [[nodiscard]] Bandwidth load(LinkId link) const;
  /// The link that holds the flow's rate at now(); nothing if it is its own cap, or not running.
  [[nodiscard]] std::optional<LinkId> bottleneck(FlowId flow) const;

  /// The links that the flow uses at now(), merged and sorted; empty once it ended in committed
  /// time.
  [[nodiscard]] std::vector<LinkUse> links(FlowId flow) const;

  /// The present state, for rollback().
  [[nodiscard]] Checkpoint checkpoint() const;
  /// Forgets everything told since the checkpoint and returns to its instant.
  /// @throws CommitError if a commit() beyond its instant has happened, or beyond the start of a
  ///   flow told since.
  void rollback(const Checkpoint& checkpoint);
  /// Promises that nothing before `gvt` (<= now()) will be told or asked to change: frees history.
  /// Completions stay known until forgotten with forget().
  void commit(Time gvt);
  /// Drops a flow that has ended before the last commit(); its id must not be used again.
  void forget(FlowId flow);

  /// Bytes kept for changes in the past, besides the flows themselves, which stay as long as they
  /// may be brought back; commit() frees both. O(links).
  [[nodiscard]] std::size_t history_bytes() const noexcept;

  /// Tells the observer of everything from now on. Costs nothing while nobody subscribes.
  [[nodiscard]] Subscription subscribe(FlowObserver& observer);
  /// Work done so far.
  [[nodiscard]] const FlowStatistics& statistics() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace phantora
