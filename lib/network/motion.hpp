#pragma once

#include "network/earliest_end.hpp"
#include "network/flow_table.hpp"
#include "network/records.hpp"
#include "network/table.hpp"

#include <phantora/network/flow_network.hpp>

#include <vector>

namespace phantora::network {

class Recorded;

/// How far flows are, and which of them end next.
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
/// `replayed_` is null unless a change told late is being replayed. A reader of the ordinary path
/// may skip the lines that ask for it.
class Motion {
 public:
  Motion(MaxMin& solver, FlowTable& flows, Records& records, FlowStatistics& statistics,
         std::size_t links)
      : solver_{solver},
        flows_{flows},
        records_{records},
        statistics_{statistics},
        groups_(links) {}

  /// When the next flow ends; `none` if none does.
  [[nodiscard]] Ps next_end() const noexcept {
    return std::min(ends_.earliest(), cap_ends_.earliest());
  }
  /// Finds the flows whose last byte leaves at `at`, before anything else happens at that instant.
  void find_due(Ps at, std::vector<Slot>& due);

  /// Lets flows and groups take over what MaxMin has solved for `at`.
  void take_over(Ps at);
  /// Finds when the first flow of each stale group ends.
  void find_ends(Ps at);

  /// Starts a flow, or withdraws one that has not started.
  void begin(Slot slot, Ps at, State becomes);
  /// Takes a running flow out of its group at `at`; from then on its mark is the work that is left.
  void leave_group(Slot slot, std::uint32_t from, Ps at);
  /// Has the work counted that a flow has done by its own cap, before that cap changes at `at`.
  void rebase_at_cap(Slot slot, Ps at);
  /// Notes that the last record of a flow is of its end.
  void note_end(Slot slot) { records_.moves[flows_.progress(slot).last].ends = 1; }

  /// Has the group's next end found again.
  void stale(std::uint32_t link) {
    if (groups_[link].stale) return;
    groups_[link].stale = true;
    stale_.push_back(link);
  }
  /// And the group's earliest mark, too.
  void forget_first(std::uint32_t link) {
    groups_[link].first_known = false;
    stale(link);
  }

  [[nodiscard]] Group& group(std::uint32_t link) noexcept { return groups_[link]; }
  [[nodiscard]] const Group& group(std::uint32_t link) const noexcept { return groups_[link]; }
  /// The service of a group at an instant in or after which nothing has happened to it.
  [[nodiscard]] Service service_at(std::uint32_t link, Ps at) const;

  [[nodiscard]] Work cap_pace(Slot slot) const noexcept {
    return pace_of(solver_.cap(slot) / solver_.shares(slot));
  }
  void find_cap_end(Slot slot);
  void drop_cap_end(Slot slot) {
    if (cap_ends_.get(slot) != none) cap_ends_.set(slot, none);
  }

  /// Says that the present instant is one of the past, or of the present again (null).
  void replay(Recorded* replayed) noexcept { replayed_ = replayed; }

 private:
  void shift(std::uint32_t link, Ps at);
  void count_rate_change(const MaxMin::Move& move, std::uint32_t to);
  void join_group(Slot slot, std::uint32_t to, Ps at);
  void find_end(std::uint32_t link, Ps at);
  [[nodiscard]] Work pace_at(std::uint32_t link) const;
  [[nodiscard]] bool counts(Slot slot, std::uint32_t link) const;
  [[nodiscard]] Work record_move(Slot slot, std::uint32_t from, Ps at);
  void record_shift(std::uint32_t link, FillingKey key, Ps at);

  MaxMin& solver_;
  FlowTable& flows_;
  Records& records_;
  FlowStatistics& statistics_;
  Table<Group> groups_;   ///< of each link
  EarliestEnd ends_;      ///< of each link's group
  EarliestEnd cap_ends_;  ///< of each flow that its own cap holds
  std::vector<std::uint32_t> stale_;
  Recorded* replayed_ = nullptr;
};

}  // namespace phantora::network
