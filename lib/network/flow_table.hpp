#pragma once

#include "network/progress.hpp"
#include "network/room.hpp"

#include <phantora/error.hpp>

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <vector>

namespace phantora::network {

/// What the caller knows a flow by, and what completes it after its last byte has left.
struct Identity {
  std::uint64_t id = 0;
  Duration latency{};
};

/// Flows by their ids, which are never used again, and by the slots in which they are kept while
/// they are to come, are running, or may have to be taken back.
class FlowTable {
 public:
  /// Keeps a new flow in a slot. @return its id
  std::uint64_t add(Slot slot, Work work, Duration latency) {
    const std::uint64_t id = end();
    cells_.push_back(-1 - static_cast<Ps>(slot));
    if (slot == progress_.size()) {
      make_room(progress_, 1);
      make_room(identities_, 1);
      progress_.emplace_back();
      identities_.emplace_back();
    }
    progress_[slot] = {};
    progress_[slot].mark = static_cast<Service>(work);
    identities_[slot] = {id, latency};
    return id;
  }

  /// One past the last id.
  [[nodiscard]] std::uint64_t end() const noexcept { return first_cell_ + cells_.size(); }
  /// The first id that has not been forgotten together with all before.
  [[nodiscard]] std::uint64_t begin() const noexcept { return first_cell_; }
  [[nodiscard]] std::size_t slots() const noexcept { return progress_.size(); }

  [[nodiscard]] Progress& progress(Slot slot) noexcept { return progress_[slot]; }
  [[nodiscard]] const Progress& progress(Slot slot) const noexcept { return progress_[slot]; }
  [[nodiscard]] Identity& identity(Slot slot) noexcept { return identities_[slot]; }
  [[nodiscard]] const Identity& identity(Slot slot) const noexcept { return identities_[slot]; }

  /// The slot in which a flow is kept; nothing if none is.
  [[nodiscard]] std::optional<Slot> kept_in(std::uint64_t id) const { return slot_in(cell_of(id)); }
  /// The slot of a flow; nothing if the flow ended in committed time.
  [[nodiscard]] std::optional<Slot> slot_of(std::uint64_t id) const {
    const auto slot = kept_in(id);
    if (slot && progress_[*slot].ended() && progress_[*slot].since < committed_)
      return std::nullopt;
    return slot;
  }
  [[nodiscard]] std::optional<Time> completion(std::uint64_t id) const {
    const Ps cell = cell_of(id);
    if (cell >= 0) return to_time(cell);
    const auto slot = slot_in(cell);
    if (!slot || progress_[*slot].state() != State::finished) return std::nullopt;
    return to_time(progress_[*slot].since) + identities_[*slot].latency;
  }

  /// Frees a flow's slot; of the flow no more is kept than when it completed.
  void release(Slot slot) {
    const Progress progress = std::exchange(progress_[slot], {});
    const Identity& identity = identities_[slot];
    cells_[static_cast<std::size_t>(identity.id - first_cell_)] =
        progress.state() == State::finished ? progress.since + identity.latency.count() : gone;
  }
  /// Forgets a flow that has no slot.
  void forget(std::uint64_t id) {
    cells_[static_cast<std::size_t>(id - first_cell_)] = forgotten;
    while (!cells_.empty() && cells_.front() == forgotten) {
      cells_.pop_front();
      ++first_cell_;
    }
  }

  /// Nothing before this instant will change.
  [[nodiscard]] Ps committed() const noexcept { return committed_; }
  void commit(Ps at) noexcept { committed_ = at; }

 private:
  // Cells of flows that have no slot: a completion (>= 0), or one of these.
  static constexpr Ps gone = std::numeric_limits<Ps>::min() + 1;
  static constexpr Ps forgotten = std::numeric_limits<Ps>::min();

  [[nodiscard]] Ps cell_of(std::uint64_t id) const {
    PHANTORA_EXPECTS(id < end(), "a flow of this network");
    return id < first_cell_ ? forgotten : cells_[static_cast<std::size_t>(id - first_cell_)];
  }
  [[nodiscard]] static std::optional<Slot> slot_in(Ps cell) noexcept {
    if (cell >= 0 || cell <= gone) return std::nullopt;
    return static_cast<Slot>(-1 - cell);
  }

  std::deque<Ps> cells_;  ///< of each flow: -1 - slot while it has one, else see `gone`
  std::uint64_t first_cell_ = 0;
  std::vector<Progress> progress_;
  std::vector<Identity> identities_;
  Ps committed_ = 0;
};

}  // namespace phantora::network
