#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace phantora::rank {

/// What this process has been told of the completion of markers, so that it need not ask again: in
/// a stream, whatever is before a marker that has been reached has been reached too. Knows the
/// latest markers only, and those of the first streams; of others it says that it does not know.
class ReachedMarkers {
 public:
  /// `marker` was appended to `stream`, behind its markers of smaller numbers. Markers of one
  /// stream are told one after the other.
  void recorded(std::uint64_t stream, std::uint64_t marker) noexcept {
    const bool fits = stream < streams && marker >> marker_bits == 0;
    entry_of(marker).store(fits ? stream << marker_bits | marker : 0, std::memory_order_release);
  }
  /// `marker` is complete at `at_ps` of virtual time.
  void reached(std::uint64_t marker, std::int64_t at_ps) noexcept {
    const std::uint64_t stream = stream_of(marker);
    if (stream == 0) return;
    // The instant first: who sees the marker sees an instant that is late enough.
    raise(latest_[stream].at_ps, at_ps);
    raise(latest_[stream].marker, marker);
  }
  /// Whether `marker` is known to be complete at `now_ps`.
  [[nodiscard]] bool knows(std::uint64_t marker, std::int64_t now_ps) const noexcept {
    const std::uint64_t stream = stream_of(marker);
    return stream != 0 && latest_[stream].marker.load(std::memory_order_acquire) >= marker &&
           latest_[stream].at_ps.load(std::memory_order_relaxed) <= now_ps;
  }

 private:
  static constexpr std::size_t streams = 1024, markers = 1 << 14;
  static constexpr unsigned marker_bits = 48;

  std::atomic<std::uint64_t>& entry_of(std::uint64_t marker) noexcept {
    return recorded_[marker % markers];
  }
  /// 0: not known.
  [[nodiscard]] std::uint64_t stream_of(std::uint64_t marker) const noexcept {
    const std::uint64_t entry = recorded_[marker % markers].load(std::memory_order_acquire);
    const std::uint64_t stream = entry >> marker_bits;
    return entry == (stream << marker_bits | marker) ? stream : 0;
  }
  template <class T>
  static void raise(std::atomic<T>& value, T to) noexcept {
    T seen = value.load(std::memory_order_relaxed);
    while (seen < to && !value.compare_exchange_weak(seen, to, std::memory_order_release)) {
    }
  }

  struct Latest {
    std::atomic<std::uint64_t> marker{0};
    std::atomic<std::int64_t> at_ps{0};
  };
  std::array<Latest, streams> latest_{};
  std::array<std::atomic<std::uint64_t>, markers> recorded_{};
};

}  // namespace phantora::rank
