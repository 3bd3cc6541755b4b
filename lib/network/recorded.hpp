#pragma once

#include "network/motion.hpp"

#include <algorithm>
#include <vector>

namespace phantora::network {

/// A flow that has been taken back, and what is recorded of it from the present instant on.
struct Rewound {
  Slot slot;
  bool detached;   ///< its progress is the replay's: what is recorded of the flow is void
  bool diverged;   ///< its bottleneck, or the key of that, is not the recorded one
  double counted;  ///< the rate up to which the histories of its links allow for it, if detached
  std::uint32_t last;        ///< the flow's bottleneck after its last record
  std::vector<Past> future;  ///< the flow's records, the next one at the back
};

/// A group whose key has been taken back, and what is recorded of it from the present instant on.
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

/// The flows and groups that have been taken back to the present instant of a replay, or are being
/// undone, and what is recorded of them from there on.
class Recorded {
 public:
  Recorded(MaxMin& solver, FlowTable& flows, Records& records, Motion& motion, std::size_t links)
      : solver_{solver}, flows_{flows}, records_{records}, motion_{motion}, followed_of_(links) {}

  /// Has room for all flows that there are.
  void add_slots() {
    if (rewound_of_.size() == flows_.slots()) return;
    make_room(rewound_of_, 1);
    rewound_of_.resize(flows_.slots());
  }
  void set_instant(Ps at) noexcept { now_ = at; }

  /// The flow as it was taken back; null if it was not. Valid until another is.
  [[nodiscard]] Rewound* flow(Slot slot) noexcept {
    return rewound_of_[slot] == 0 ? nullptr : &rewound_[rewound_of_[slot] - 1];
  }
  [[nodiscard]] const Rewound* flow(Slot slot) const noexcept {
    return rewound_of_[slot] == 0 ? nullptr : &rewound_[rewound_of_[slot] - 1];
  }
  /// A link's group as it was taken back; null if it was not, or the bottleneck is no link. Valid
  /// until another is.
  [[nodiscard]] Followed* group(std::uint32_t link) noexcept {
    return link >= MaxMin::own_cap || followed_of_[link] == 0 ? nullptr
                                                              : &followed_[followed_of_[link] - 1];
  }
  [[nodiscard]] const Followed* group(std::uint32_t link) const noexcept {
    return link >= MaxMin::own_cap || followed_of_[link] == 0 ? nullptr
                                                              : &followed_[followed_of_[link] - 1];
  }
  [[nodiscard]] Rewound& flow_at(std::uint64_t index) noexcept { return rewound_[index]; }
  [[nodiscard]] Followed& group_at(std::uint64_t index) noexcept { return followed_[index]; }
  [[nodiscard]] std::size_t groups() const noexcept { return followed_count_; }

  /// Takes a flow back to its recorded state after `at`, if it has changed since.
  void rewind(Slot slot, Ps at);
  /// Takes the key of a link back to what it was after `at`, if it has changed since.
  void follow(std::uint32_t link, Ps at);
  /// Gives a flow its recorded bottleneck.
  void take_past(const Rewound& flow);

  /// Lets all go, once the present instant is the present again: all marks are of the present.
  void finish();
  /// Lets go of the flow that was rewound last.
  void drop_last_flow() { rewound_of_[rewound_[--rewound_count_].slot] = 0; }
  /// Lets go of all groups.
  void drop_groups() {
    for (std::size_t i = 0; i < followed_count_; ++i) followed_of_[followed_[i].link] = 0;
    followed_count_ = 0;
  }

  /// The recorded bottleneck of a flow at the present instant; none if the flow was not running.
  [[nodiscard]] std::uint32_t past_bottleneck(const Rewound& flow) const {
    return flow.future.empty() ? flow.last : records_.moves[flow.future.back().record].bottleneck;
  }
  /// The recorded key of a link at the present instant.
  [[nodiscard]] FillingKey past_key(const Followed& group) const {
    return group.future.empty() ? group.last : records_.shifts[group.future.back().record].key();
  }
  /// The recorded work that was left of a flow at `at`, an instant between the present one and the
  /// flow's next record: what is left at the end of the record, and what its groups moved until
  /// then.
  [[nodiscard]] Work past_left(const Rewound& flow, Ps at) const;
  /// The least recorded rate of a flow, from the present instant on.
  [[nodiscard]] double least_rate(const Rewound& flow) const;
  [[nodiscard]] double least_rate(Slot slot, std::uint32_t bottleneck) const;

  /// Makes the progress of a flow what is recorded of it before its next record.
  void take_back(const Rewound& flow);
  /// Makes the service of a group what is recorded of it before its next record.
  void take_back(const Followed& group);
  /// From here on a flow has its own progress in the replay: what is recorded of it is void.
  void detach(Rewound& flow);

  static constexpr std::uint64_t link_due = std::uint64_t{1} << 32;
  static constexpr std::uint64_t group_due = std::uint64_t{1} << 33;
  /// @param what  the index of a flow, of a group plus group_due, or a link plus link_due
  void schedule(Ps at, std::uint64_t what) {
    agenda_.push_back({at, what});
    std::push_heap(agenda_.begin(), agenda_.end());
  }
  void schedule_next(const Rewound& flow) {
    if (!flow.future.empty()) schedule(flow.future.back().at, rewound_of_[flow.slot] - 1);
  }
  void schedule_next(const Followed& group) {
    if (!group.future.empty())
      schedule(group.future.back().at, group_due + (followed_of_[group.link] - 1));
  }
  [[nodiscard]] Ps next() const noexcept { return agenda_.empty() ? none : agenda_.front().at; }
  std::uint64_t pop() {
    const std::uint64_t what = agenda_.front().what;
    std::pop_heap(agenda_.begin(), agenda_.end());
    agenda_.pop_back();
    return what;
  }
  void clear_agenda() noexcept { agenda_.clear(); }

  // Motion asks all that follows, while the present instant is one of the past.

  [[nodiscard]] Service service_at(std::uint32_t link, Ps at) const {
    const Followed* known = group(link);
    return known && !known->detached ? past_service(*known, at)
                                     : motion_.group(link).service_at(at);
  }
  [[nodiscard]] Work pace_at(std::uint32_t link) const {
    const Followed* known = group(link);
    return known && !known->detached ? pace_of(past_key(*known)) : motion_.group(link).pace;
  }
  /// Whether a flow has been taken back and does what is recorded of it. Its progress is then still
  /// that of the replay's end.
  [[nodiscard]] bool in_step(Slot slot) const {
    const Rewound* known = flow(slot);
    return known && !known->detached;
  }
  /// Whether this flow's end has to be looked for: false while its recorded past still tells it.
  [[nodiscard]] bool counts(Slot slot, std::uint32_t link) const {
    const Rewound* known = flow(slot);
    return known ? known->detached : !group(link);
  }
  /// Notes that a group's end has been found.
  void note_found(std::uint32_t link) { found_.push_back(link); }
  /// A flow is about to do something that is not recorded of it.
  void part(Slot slot, std::uint32_t from) {
    Rewound* known = flow(slot);
    Rewound& parting = known ? *known : add_flow(slot, from);
    if (!parting.detached) detach(parting);
  }
  /// A link is about to get a key that is not recorded of it.
  void part(std::uint32_t link, FillingKey key) {
    Followed* known = group(link);
    Followed& parting = known ? *known : add_group(link, key);
    if (!parting.detached) detach(parting);
  }

 private:
  Rewound& add_flow(Slot slot, std::uint32_t last);
  Followed& add_group(std::uint32_t link, FillingKey last);
  void detach(Followed& group);
  [[nodiscard]] Service past_service(const Followed& group, Ps at) const;
  [[nodiscard]] Service past_service(std::uint32_t link, Ps at) const;
  [[nodiscard]] double least_level(std::uint32_t link) const;

  MaxMin& solver_;
  FlowTable& flows_;
  Records& records_;
  Motion& motion_;
  Ps now_ = -1;                   ///< the instant that is being executed
  std::vector<Rewound> rewound_;  ///< the first rewound_count_ are in use
  std::size_t rewound_count_ = 0;
  std::vector<std::uint32_t> rewound_of_;  ///< of each flow, counted from 1; 0 if not rewound
  std::vector<Followed> followed_;         ///< the first followed_count_ are in use
  std::size_t followed_count_ = 0;
  std::vector<std::uint32_t> followed_of_;  ///< of each link, counted from 1; 0 if not followed
  std::vector<std::uint32_t> found_;        ///< the groups whose ends have been found
  std::vector<Due> agenda_;  ///< a heap of the flows' and groups' next records, and of links
};

}  // namespace phantora::network
