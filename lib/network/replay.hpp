#pragma once

#include "network/link_history.hpp"
#include "network/recorded.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace phantora::network {

/// Replay by difference: executes a change told late at its instant, and of what came after only
/// what differs.
///
/// This is for callers of FlowNetwork that change the past: what-if questions, jobs told late,
/// optimistic synchronisation. The conservative engine does not need it: a Session tells only of
/// its present instant and observes the network, so that at most this one instant is undone and
/// executed again.
///
/// A late change is executed on the network as it was then, but only there: a link that has to be
/// evaluated is rewound first, which takes all its flows, and the keys of the links that stop them,
/// back to the instant. From there the replay goes through the instants at which something happens
/// to these. Flows and groups become, as a guess, what the journal says they became. The guess
/// holds wherever a link carries only flows that are in step with their past. Links with a flow
/// that has diverged are evaluated if anything changed on them, and MaxMin repairs what does not
/// agree. A link to which such a flow comes is rewound too, at the first instant from which its
/// history does not rule out that it is saturated. So all links agree at every instant, and the
/// state in which they do is unique: it is that of execution in order.
class Replay {
 public:
  Replay(MaxMin& solver, FlowTable& flows, Records& records, Motion& motion, Recorded& recorded,
         std::size_t links);

  [[nodiscard]] bool active() const noexcept { return end_ >= 0; }
  /// The last instant that a replay may find otherwise.
  [[nodiscard]] Ps end() const noexcept { return end_; }

  /// Begins at `at`, when `last` is the last instant that has been executed.
  void begin(Ps at, Ps last);
  void finish();

  /// Lets the flows and groups in the replay become at `at` what is recorded that they became; the
  /// flows that are `due` end. @return whether links have to be evaluated.
  bool follow_record(Ps at, std::span<const Slot> due);
  /// Takes a link, its flows and the groups that those are in back to their recorded state after
  /// `at`.
  void rewind_link(std::uint32_t link, Ps at);
  /// Takes a flow back to `at`, at which something told late changes it.
  void part_from_past(Slot slot, Ps at);
  /// Takes a link back to `at`, at which its capacity changes: what its flows became with another
  /// is no good guess.
  void rewind_capacity(std::uint32_t link, Ps at) {
    rewind_link(link, at);
    ++diverged_on_[link];
  }
  /// Rewinds the links to which diverged flows have come, or will later, when they may be
  /// saturated. @return whether there is a link that has been rewound.
  bool rewind_affected(Ps at);
  /// Lowers the residuals in the histories of the links that need no rewinding by what diverged
  /// flows may put on them.
  void allow_for_affected(Ps at);

  // What a later replay will need of the present, also while none is active.

  /// Adds the states of the touched links after `at` to their histories.
  void note_states(Ps at);
  /// Begins the histories of all links anew, at what the links are now.
  void note_all_states();
  /// Forgets what a link was from an instant on.
  void forget_from(std::uint32_t link, Ps at);
  /// What a flow is allowed on an eased link is still what it was allowed before that was undone.
  void allow_for_eased(std::uint32_t link) {
    if (solver_.eased(link)) histories_[link].lower(solver_.residual(link));
  }
  [[nodiscard]] std::size_t history_bytes() const noexcept;

 private:
  void flag(std::uint32_t link, std::uint8_t as) {
    if (flags_[link] == 0) flagged_.push_back(link);
    flags_[link] |= as;
  }
  /// Flows that have ended after the instant at which the replay began: all that were on this link,
  /// and others, since links share 64 lists.
  [[nodiscard]] std::vector<Slot>& departed_from(std::uint32_t link) {
    return departed_[link % departed_.size()];
  }
  [[nodiscard]] std::int64_t state_of(std::uint32_t link) const;
  void note_state(std::uint32_t link, Ps at);
  void follow_record(Followed& group, Ps at);
  void follow_record(Rewound& flow, Ps at, std::span<const Slot> due);
  bool compare(Rewound& flow);
  template <class Visit>
  void compare(Followed& group, Visit visit);
  void note_affected(Slot slot, std::uint32_t from, Ps at);
  void forget_affected();

  MaxMin& solver_;
  FlowTable& flows_;
  Records& records_;
  Motion& motion_;
  Recorded& recorded_;

  static constexpr std::uint8_t rewound = 1, visited = 2, affected = 4;
  Table<LinkHistory> histories_;
  Ps end_ = -1;                             ///< negative if no replay is active
  std::vector<std::uint8_t> flags_;         ///< of links: what the replay has to do with them
  std::vector<std::uint32_t> flagged_;      ///< links with a flag
  std::vector<std::uint32_t> diverged_on_;  ///< of each link, how many flows have diverged
  std::array<std::vector<Slot>, 64> departed_;
  std::vector<Slot> flows_on_;  ///< of a link that is being rewound

  // Of the present instant.
  std::vector<std::uint64_t> due_records_;
  std::vector<std::uint32_t> due_links_;
  std::vector<Slot> replayed_flows_, newly_diverged_;
  std::vector<std::uint32_t> replayed_groups_;
  std::vector<std::uint32_t> affected_;
  std::vector<std::int64_t> excess_;  ///< of affected links: load that is not allowed for
};

}  // namespace phantora::network
