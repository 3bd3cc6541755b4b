#pragma once

#include <phantora/units.hpp>

#include <algorithm>
#include <optional>

namespace phantora {

/// The threads of a process that take part in time, and how early any of them may issue work: what
/// Session::advance asks of each process.
///
/// Told of every thread once, by what it does now:
///
///     HostProcess process;
///     process.runs(Time{3us});
///     process.waits(Time{1us});   // another thread will wake it, and hand over its clock
///     process.bound();            // 3 us
class HostProcess {
 public:
  /// It may issue work from its clock on: it runs, or will go on there by itself.
  void runs(Time clock) noexcept { running_ = std::min(running_, clock); }
  /// It is in a call that the session answers.
  void is_blocked() noexcept { blocked_ = true; }
  /// It waits for another thread of the process, or for what nobody sees.
  /// @param wakes  where its clock will stand if nothing wakes it before.
  void waits(Time clock, Time wakes = never) noexcept {
    waiting_ = std::max(waiting_.value_or(clock), clock);
    wakes_ = std::min(wakes_, wakes);
  }

  /// The latest clock of those that wait; nothing if none does.
  [[nodiscard]] std::optional<Time> waiting_at() const noexcept { return waiting_; }

  /// Nothing will be issued before this; nothing if no thread was told of.
  ///
  /// Threads that run decide, else the session does where one is blocked. Where all wait, whatever
  /// wakes them is not seen, and they go on no earlier than the one that has come furthest.
  /// @param ranks_wake  only other processes can wake those that wait, which go on no earlier
  ///   than those processes are, or by themselves.
  [[nodiscard]] std::optional<Time> bound(bool ranks_wake = false) const noexcept {
    if (running_ != never) return running_;
    if (blocked_) return never;
    return waiting_ && ranks_wake ? wakes_ : waiting_;
  }

 private:
  Time running_ = never, wakes_ = never;
  std::optional<Time> waiting_{};
  bool blocked_ = false;
};

}  // namespace phantora
