#pragma once

#include "network/filling_state.hpp"
#include "network/link_queue.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace phantora {

/// Weighted max-min fair rates, kept up to date while flows come and go. lib/network/README.md has
/// an example with numbers.
///
/// The rates are those of progressive filling: all levels r(f) / shares(f) grow together; when a
/// link saturates, its flows stop. A link l saturates at
///
///     level(l | F) = (capacity - load of the stopped flows F) / (weight of the others)
///
/// Exactness. Loads and weights are integers (fixed point), so their sums do not depend on the
/// order of additions and may be adjusted in place. A saturation has a key (level, depth, link): a
/// computed level that does not exceed, beyond rounding, that of every flow in F is taken to equal
/// the greatest of them, with a depth one greater. So keys strictly grow along the filling, links
/// saturate in one definite order, and the rates are a pure function of the flows present: bit for
/// bit the same however that state was reached.
///
/// Incremental. A state is the result of that filling if and only if each link agrees with it:
/// walking the link's flows by key, the link saturates at the first point where its own key comes
/// before the next flow's, and exactly the flows beyond stop there. So after a change only the
/// links whose flows changed are evaluated again, lowest level first, until all agree.
class MaxMin : public FillingState {
 public:
  explicit MaxMin(std::span<const Bandwidth> capacities);

  /// Adds a flow; its rate is unknown until solve().
  void insert(Slot flow);
  void remove(Slot flow);
  void set_cap(Slot flow, double cap);
  void set_capacity(std::uint32_t link, double capacity);

  /// Brings all rates up to date.
  ///
  /// A caller that goes back in time stamps each link with the last instant that touched the link,
  /// and says for which instant it solves. A link with that stamp or a later one has no state of
  /// that instant to evaluate: the caller has to restore it, reconsider() it and solve() again.
  /// @return the first such link, if there is one.
  [[nodiscard]] std::optional<std::uint32_t> solve();
  /// Declares the present state a solved one.
  void settle();

  // The rest is for callers that go back in time (restore.cpp).

  /// Puts the flow, present or not, into the group of a link in which solve() once left it. No link
  /// is evaluated.
  void restore(Slot flow, std::uint32_t bottleneck);
  /// Puts a flow into the group of a link as restore() does, and counts that as a change: moves()
  /// names the flow.
  void guess(Slot flow, std::uint32_t bottleneck);
  /// Removes a flow. No link is evaluated.
  void withdraw(Slot flow);
  /// Gives a link a key that solve() once left it. No link is evaluated.
  void restore_key(std::uint32_t link, FillingKey key);
  /// Gives a link a key as restore_key() does, and counts that as a change: shifts() names the
  /// link.
  void guess_key(std::uint32_t link, FillingKey key);
  /// Undoes set_cap(), but leaves the flow's bottleneck as it is.
  void restore_cap(Slot flow, double cap);

  /// Has solve() evaluate a link on which flows have been restored or withdrawn.
  void reconsider(std::uint32_t link);
  void set_instant(std::int64_t instant) noexcept { instant_ = instant; }
  void set_stamp(std::uint32_t link, std::int64_t stamp) noexcept { links_[link].stamp = stamp; }
  [[nodiscard]] std::int64_t stamp(std::uint32_t link) const noexcept { return links_[link].stamp; }
  /// Whether links may be eased, as they are from the beginning. When an eased link has changed
  /// last is not known: a caller that evaluates links of the past has to count all exactly first.
  void allow_easing(bool allowed) noexcept { easing_ = allowed; }

 private:
  /// What a change does to the key of a link: `stops` if a filling flow stopped elsewhere.
  enum class Effect : std::uint8_t { raises, stops, lowers };
  /// What assignments to one level have done to a link, until it is touched for all of them.
  struct Assigned {
    double raised = 0;  ///< weight of the flows that take more than before
    Effect effect = Effect::raises;
    bool any = false;
  };
  struct Candidate {
    FillingKey key;
    Slot flow;
    std::uint32_t use;
    bool operator<(const Candidate& other) const noexcept { return key < other.key; }
  };

  /// Whether the links that a change touches are to be evaluated.
  enum class Then : std::uint8_t { evaluate, leave };
  class Walk;
  void join_links(Slot flow, Then then);
  void leave_links(Slot flow, Then then);
  void touch(std::uint32_t link, Effect effect, double level = 0, double raised = 0);
  [[nodiscard]] double level_alone(std::uint32_t link, FillingKey key) const noexcept;
  [[nodiscard]] double open_bound(std::uint32_t link, double level, double weight) const noexcept;

  void assign(Slot flow, std::uint32_t bottleneck, std::uint32_t by, Then then);
  void reassign(Slot flow, std::uint32_t bottleneck, double rate_before, std::uint32_t by,
                Then then);
  void shift(std::uint32_t link, FillingKey key, Then then);
  void note_assigned(std::uint32_t link, Effect effect, double weight);
  void touch_assigned(double level);

  void evaluate(std::uint32_t link, double bound);
  void evaluate_alone(std::uint32_t link);
  [[nodiscard]] bool comes_later(std::uint32_t link, FillingKey key);
  void stop_own(std::uint32_t link, FillingKey key);
  void refill(std::uint32_t link, double level);

  LinkQueue queue_;
  std::vector<std::int64_t> changes_;  ///< shift(): of one flow's load, in units of each scale
  std::vector<Candidate> candidates_;
  std::vector<Assigned> assigned_;  ///< of each link
  std::vector<std::uint32_t> assigned_links_;
  static constexpr std::uint64_t first_depth_limit = 16;
  std::uint64_t depth_limit_ = first_depth_limit;
  bool guessed_ = false;   ///< a group may have flows whose caps lie below its key
  bool restored_ = false;  ///< links may have been changed that solve() has not looked at since
  bool easing_ = true;
  std::int64_t instant_ = std::numeric_limits<std::int64_t>::max();
};

/// Queues a link whose flows have changed, at a lower bound of its level. `raised` is the weight of
/// the flows that take more than before; they stop at `level_now`.
inline void MaxMin::touch(std::uint32_t index, Effect effect, double level_now, double raised) {
  Link& link = links_[index];
  if (effect == Effect::lowers) link.floor = 0;
  if (filling::surely_open(link)) return;
  if (effect == Effect::raises && queue_.queued(index)) return;
  const double bound =
      std::max(link.floor, link.weight == 0 ? open_bound(index, level_now, raised)
                                            : filling::level(link, link.residual, link.weight));
  if (bound < queue_.level(index)) queue_.set(index, bound);
}

}  // namespace phantora
