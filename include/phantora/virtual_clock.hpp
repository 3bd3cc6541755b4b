#pragma once

#include <phantora/units.hpp>

#include <chrono>

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
  explicit VirtualClock(HostTimer timer = nullptr, double host_scale = 1.0) noexcept
      : timer_{timer}, host_scale_{host_scale} {}

  /// The present, including host time since resume_host().
  [[nodiscard]] Time now() const noexcept { return time_ + (running_ ? unbooked() : Duration{}); }

  /// Adds modelled time, `by` >= 0.
  void advance(Duration by) noexcept { time_ += by; }
  /// Moves to `instant` if that is later than now().
  void wait_until(Time instant) noexcept {
    if (instant <= time_) return;
    // Host time up to here has passed before the wait, not after it.
    const bool running = running_;
    pause_host();
    if (instant > time_) time_ = instant;
    if (running) resume_host();
  }
  /// From here on, host time is charged.
  void resume_host() noexcept {
    if (timer_ != nullptr) mark_ = timer_();
    running_ = true;
  }
  /// Books the host time since resume_host() and stops charging.
  void pause_host() noexcept {
    if (running_) time_ += unbooked();
    running_ = false;
  }

 private:
  [[nodiscard]] Duration unbooked() const noexcept {
    if (timer_ == nullptr) return {};
    const std::chrono::duration<double, std::pico> measured = timer_() - mark_;
    return Duration{static_cast<Duration::rep>(measured.count() * host_scale_)};
  }

  HostTimer timer_;
  double host_scale_;
  Time time_{};
  std::chrono::nanoseconds mark_{};
  bool running_ = false;
};

}  // namespace phantora
