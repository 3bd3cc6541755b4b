#pragma once

#include <phantora/units.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace phantora {

/// One host thread's virtual time: measured host time while it runs, plus simulated waits.
///
/// Monotone. Not thread-safe: it belongs to its thread.
class VirtualClock {
 public:
  /// Reads the time that the calling thread has spent on a CPU; must not decrease.
  using HostTimer = std::chrono::nanoseconds (*)();

  /// @param timer  what running costs; nullptr: host time is free.
  /// @param host_scale  simulated seconds per measured second, >= 0.
  /// @param reading_cost  measured time between two calls of `timer` with nothing between them,
  ///                      >= 0; it is not charged.
  explicit VirtualClock(HostTimer timer = nullptr, double host_scale = 1.0,
                        std::chrono::nanoseconds reading_cost = {}) noexcept
      : timer_{timer}, host_scale_{host_scale}, reading_cost_{reading_cost} {}

  /// The present, including host time since resume_host().
  [[nodiscard]] Time now() noexcept {
    if (running_) book();
    return time_;
  }

  /// From here on; what has passed since resume_host() is charged at the old scale.
  void set_host_scale(double host_scale) noexcept {
    if (running_) book();
    host_scale_ = host_scale;
  }
  /// What CPU time elsewhere is multiplied by.
  [[nodiscard]] double host_scale() const noexcept { return timer_ != nullptr ? host_scale_ : 0; }
  /// The host time that has been measured so far, charged or not.
  [[nodiscard]] std::chrono::nanoseconds measured() const noexcept { return measured_; }
  /// What of now() was charged for that.
  [[nodiscard]] Duration charged() const noexcept { return charged_; }
  /// Of the host time to come `time` >= 0 is not charged: of each part of it no more than `share`.
  void leave_out(std::chrono::nanoseconds time, double share) noexcept {
    if (running_) book();
    left_out_ = time;
    share_left_out_ = share;
  }
  /// What of that is still to come.
  [[nodiscard]] std::chrono::nanoseconds left_out() const noexcept { return left_out_; }
  /// Adds modelled time, `by` >= 0.
  void advance(Duration by) noexcept { time_ += by; }
  /// Moves to `instant` if that is later than now().
  void wait_until(Time instant) noexcept {
    if (instant <= time_) return;
    // Host time up to here has passed before the wait, not after it.
    if (running_) book();
    if (instant > time_) time_ = instant;
  }
  /// From here on, host time is charged.
  void resume_host() noexcept {
    if (timer_ != nullptr) mark_ = timer_() + reading_cost_;
    running_ = true;
  }
  /// Books the host time since resume_host() and stops charging.
  void pause_host() noexcept {
    if (running_) book();
    running_ = false;
  }

 private:
  /// Charges the host time up to here.
  void book() noexcept {
    if (timer_ == nullptr) return;
    const std::chrono::nanoseconds reading = timer_();
    if (reading > mark_) {
      const std::chrono::nanoseconds measured = reading - mark_;
      measured_ += measured;
      const auto left_out =
          std::min(left_out_, std::chrono::nanoseconds{static_cast<std::int64_t>(
                                  static_cast<double>(measured.count()) * share_left_out_)});
      left_out_ -= left_out;
      const std::chrono::duration<double, std::pico> counted = measured - left_out;
      const Duration charged{static_cast<Duration::rep>(counted.count() * host_scale_)};
      charged_ += charged;
      time_ += charged;
    }
    mark_ = reading + reading_cost_;
  }

  HostTimer timer_;
  double host_scale_;
  std::chrono::nanoseconds reading_cost_;
  Time time_{};
  std::chrono::nanoseconds mark_{}, measured_{}, left_out_{};
  double share_left_out_ = 0;
  Duration charged_{};
  bool running_ = false;
};

}  // namespace phantora
