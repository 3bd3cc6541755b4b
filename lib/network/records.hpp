#pragma once

#include "network/journal.hpp"
#include "network/progress.hpp"

#include <cstdint>
#include <limits>

namespace phantora::network {

/// What a flow was before an instant that gave it another bottleneck, or another state. The work
/// that was left then follows from what was left later, see Recorded::past_left().
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

/// What flows and links' keys were before the instants that changed them, since the last commit.
/// Writing here is all that the ordinary path has to do with the past.
struct Records {
  Journal<Moved> moves;
  Journal<Shifted> shifts;

  /// Calls visit(past) for each record of a flow after an instant, the last one first.
  template <class Visit>
  void look_back(const Progress& progress, Ps after, Visit visit) const {
    Past past{progress.last, progress.since};
    while (moves.keeps(past.record) && past.at > after) {
      visit(past);
      past.at -= moves.age(past.record);
      past.record = moves.previous(past.record);
    }
  }

  /// Calls visit(change) for each change of a link's key after an instant, the last one first.
  template <class Visit>
  void look_back(const Group& group, Ps after, Visit visit) const {
    PastShift change{group.last, group.since, group.service};
    while (shifts.keeps(change.record) && change.at > after) {
      visit(change);
      const Ps age = shifts.age(change.record);
      change.service -= served(pace_of(shifts[change.record].key()), age);
      change.at -= age;
      change.record = shifts.previous(change.record);
    }
  }

  /// The service of a group at `at`, which lies between this change of its key and the one before.
  [[nodiscard]] Service service_before(const PastShift& change, Ps at) const {
    return change.service - served(pace_of(shifts[change.record].key()), change.at - at);
  }
};

}  // namespace phantora::network
