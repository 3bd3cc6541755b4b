#pragma once

#include "rank/runtime/spin_lock.hpp"

#include <phantora/units.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

/// PyTorch's profiler reads the processor's time stamp counter, which nothing can intercept, and
/// translates its readings into time when it has finished
/// (c10::ApproximateClockToUnixTimeConverter, by a straight line through readings of both clocks).
/// Virtual time is no straight line over real time: where we know what a reading corresponds to, we
/// translate.
namespace phantora::rank {

/// Nanoseconds since 1970 of a reading of the counter.
using TickConverter = std::function<std::int64_t(std::uint64_t)>;

class ProgramTicks {
 public:
  /// From here on it is known what readings correspond to; what was known before is forgotten.
  void begin(Time now);
  void end() noexcept;
  /// It is `now` on the calling thread.
  void sample(Time now);
  /// Nothing if readings are not known now.
  [[nodiscard]] std::optional<TickConverter> converter(Time now, std::int64_t epoch_ns);

 private:
  struct Sample {
    std::uint64_t ticks = 0;
    std::int64_t at_ps = 0;
  };
  SpinLock mutex_{};
  bool known_ = false;
  std::vector<Sample> samples_{};
};

/// Whether this program translates readings by what we put in place of PyTorch's own way.
bool ticks_are_translated();

/// An instant as if it were a reading of the counter, which our converter takes for what it is: the
/// counter itself does not come that far. An instant of virtual time is often between two readings.
constexpr std::uint64_t instant_as_ticks(std::int64_t ns_since_1970) noexcept {
  return std::uint64_t{1} << 63U | static_cast<std::uint64_t>(ns_since_1970);
}

}  // namespace phantora::rank
