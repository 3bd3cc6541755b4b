#pragma once

#include "network/work.hpp"

#include <cstdint>

namespace phantora::network {

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

}  // namespace phantora::network
