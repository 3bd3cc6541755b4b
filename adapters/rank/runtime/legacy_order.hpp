#pragma once

#include "channel/wire.hpp"
#include "rank/runtime/spin_lock.hpp"
#include "rank/runtime/timeline.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

namespace phantora::rank {

/// The rule of the legacy default stream (CUDA programming guide, "default stream"): it waits for
/// all blocking streams of its device, and they for it. Streams made with cudaStreamNonBlocking
/// take no part. Says which joins come before an operation; who asks carries them out, in time and
/// in data. Thread-safe.
class LegacyOrder {
 public:
  /// What is appended to `later` from now on starts after all that is in `earlier`, which are so
  /// many operations.
  struct Join {
    Stream* earlier = nullptr;
    Stream* later = nullptr;
    std::uint64_t operations = 0;
  };

  void add(Stream& stream);
  /// `stream` gets no more operations. What it has is still waited for, once.
  void remove(Stream& stream);
  /// Whether there can be joins before an operation on `stream`: mostly not. Takes no lock.
  [[nodiscard]] bool concerns(const Stream& stream) const noexcept {
    if (blocking_.load(std::memory_order_relaxed) == 0 || !takes_part(stream)) return false;
    if (stream.legacy) return true;
    const Stream* const legacy = device_of(stream).legacy.load(std::memory_order_acquire);
    return legacy != nullptr && stream.legacy_joined.load(std::memory_order_acquire) <
                                    legacy->operations.load(std::memory_order_relaxed);
  }
  /// The joins that come before the next operation on `stream`. A thread that asks before they are
  /// carried out gets them too: its operation must not be ahead of them.
  [[nodiscard]] std::vector<Join> before(Stream& stream);
  /// `join` was carried out.
  void joined(const Join& join);
  /// `stream` gets an operation.
  static void operation(Stream& stream) noexcept {
    stream.operations.fetch_add(1, std::memory_order_relaxed);
  }

 private:
  struct Device {
    std::atomic<Stream*> legacy{nullptr};
    std::vector<Stream*> blocking{};
  };
  static bool takes_part(const Stream& stream) noexcept {
    return stream.legacy || stream.flags == 0;
  }
  void forget(Stream& stream);
  Device& device_of(const Stream& stream) {
    return devices_.at(static_cast<std::size_t>(stream.device));
  }
  [[nodiscard]] const Device& device_of(const Stream& stream) const {
    return devices_.at(static_cast<std::size_t>(stream.device));
  }

  SpinLock lock_{};
  std::array<Device, channel::max_gpus_per_host> devices_{};
  std::atomic<int> blocking_{0};  ///< streams on all devices: mostly none
};

}  // namespace phantora::rank
