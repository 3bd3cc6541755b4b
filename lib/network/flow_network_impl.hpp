#pragma once

#include "network/flow_reports.hpp"
#include "network/flow_routes.hpp"
#include "network/flow_table.hpp"
#include "network/input.hpp"
#include "network/motion.hpp"
#include "network/records.hpp"
#include "network/replay.hpp"
#include "network/trail.hpp"

#include <phantora/network/flow_network.hpp>

#include <optional>
#include <vector>

namespace phantora {

/// Time on top of MaxMin. The words are explained in lib/network/README.md.
///
/// flow_network.cpp has what the caller asks and tells, events.cpp what happens at an instant,
/// undo.cpp how all since an instant is taken back.
///
/// What is told late is replayed by difference, see Replay. Everything from the late change on is
/// undone instead where dependence goes further than flows that share links: observers want to be
/// told in order, routes may follow load, links that are down move flows; and where a cancel or
/// another cap or capacity lies in the time to be replayed, since caps and capacities of the past
/// are not kept for rewound links.
class FlowNetwork::Impl {
 public:
  explicit Impl(NetworkView network);

  FlowId start(FlowSpec spec);
  void change(network::Kind kind, Time at, std::uint64_t id, double value);

  [[nodiscard]] Time now() const noexcept { return network::to_time(now_); }
  [[nodiscard]] Time next_event();
  void advance(Time until);

  [[nodiscard]] std::optional<Time> completion(std::uint64_t id);
  [[nodiscard]] double rate(std::uint64_t id);
  [[nodiscard]] double load(std::uint32_t link);
  [[nodiscard]] std::optional<LinkId> bottleneck(std::uint64_t id);
  [[nodiscard]] std::vector<LinkUse> links(std::uint64_t id);

  [[nodiscard]] Checkpoint checkpoint() const { return {now(), next_order_, flows_.end()}; }
  void rollback(const Checkpoint& checkpoint);
  void commit(Time gvt);
  void forget(std::uint64_t id);
  [[nodiscard]] std::size_t history_bytes() const noexcept;

  [[nodiscard]] Subscription subscribe(FlowObserver& observer) {
    return reports_.subscribe(observer);
  }
  [[nodiscard]] const FlowStatistics& statistics() const noexcept { return statistics_; }

 private:
  using Slot = network::Slot;
  using Ps = network::Ps;
  using Input = network::Input;

  void check_committed(Time at) const;
  void check(const FlowSpec& spec) const;
  void tell(const Input& input);
  [[nodiscard]] Input take_input();
  void release(Slot slot);

  // events.cpp
  void catch_up();
  void run(Ps until);
  [[nodiscard]] Ps next_instant() const noexcept;
  [[nodiscard]] bool only_caps_are_late();
  void go_on_at_last_instant();
  void execute(Ps at);
  void solve(Ps at);
  void leave_unnoted(Ps at);
  void end(Slot slot, Ps at, network::State how);
  [[nodiscard]] bool apply(Input& input);
  void apply_capacity(Input& input);

  // undo.cpp
  [[nodiscard]] bool replays_by_difference(network::Kind kind, Ps at, std::uint64_t id,
                                           double value) const;
  [[nodiscard]] Ps start_of(Slot slot) const;
  void undo_from(Ps at);
  [[nodiscard]] Ps undo_records(Ps at);
  [[nodiscard]] Ps undo(Slot slot, Ps at);
  void undo(const network::Followed& group, Ps at);
  void take_back(const Input& input);
  void forget_from(std::uint32_t link, Ps at);

  NetworkView view_;
  MaxMin solver_;
  network::FlowTable flows_;
  network::Records records_;
  FlowStatistics statistics_;
  network::Motion motion_;
  network::Recorded recorded_;
  network::Replay replay_;
  network::FlowRoutes routes_;
  network::FlowReports reports_;

  std::vector<Input> pending_;  ///< a heap of what has been told and is to come
  Trail<Input> applied_;        ///< but for starts: of those the journal says enough
  std::uint64_t next_order_ = 0;
  Ps now_ = 0;
  Ps last_instant_ = -1;        ///< the last that has been executed
  bool links_changed_ = false;  ///< whether a link went down or came up at the present instant
  std::vector<Slot> due_;       ///< flows that end at the present instant

  // How to go back.
  bool selective_ = true;       ///< what is told late may be replayed by difference
  bool undo_for_late_ = false;  ///< an input is pending that cannot be
  Ps last_other_ = -1;          ///< the last instant with another input than starts
  /// The last instant whose states of links have not been noted: what is told of it, or of before,
  /// undoes all since.
  Ps unnoted_ = -1;
  bool states_noted_ = true;              ///< those of the present are
  std::vector<std::uint32_t> forgotten_;  ///< links whose histories are being cut back
};

}  // namespace phantora
