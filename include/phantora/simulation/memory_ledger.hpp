#pragma once

#include <phantora/units.hpp>

#include <atomic>
#include <cstdint>

namespace phantora {

/// Device memory of one GPU: what is held, and the most that was. Lock-free, so that threads can
/// share one, and processes one that lies in memory which they share (`phantora run` has it there).
class MemoryLedger {
 public:
  MemoryLedger() noexcept : MemoryLedger{Bytes{}} {}
  /// @param held  before the first allocation (GpuModel::context_memory).
  explicit MemoryLedger(Bytes held) noexcept : held_{held.count()}, peak_{held.count()} {}
  /// What the other holds at this instant.
  MemoryLedger(const MemoryLedger& other) noexcept
      : held_{other.held().count()}, peak_{other.peak().count()} {}
  /// Likewise.
  MemoryLedger& operator=(const MemoryLedger& other) noexcept {
    held_ = other.held().count();
    peak_ = other.peak().count();
    return *this;
  }

  /// Takes memory, whatever the GPU has.
  void allocate(Bytes size) noexcept { raise_peak(held_ += size.count()); }
  /// Takes memory if no more than `capacity` is held then. @return whether it did.
  bool allocate_within(Bytes capacity, Bytes size) noexcept {
    std::int64_t held = held_.load();
    do {
      if (size.count() > capacity.count() || held > capacity.count() - size.count()) return false;
    } while (!held_.compare_exchange_weak(held, held + size.count()));
    raise_peak(held + size.count());
    return true;
  }
  /// Gives memory back.
  void free(Bytes size) noexcept { held_ -= size.count(); }
  /// Now.
  [[nodiscard]] Bytes held() const noexcept { return Bytes{held_.load()}; }
  /// The most that was held.
  [[nodiscard]] Bytes peak() const noexcept { return Bytes{peak_.load()}; }

 private:
  void raise_peak(std::int64_t held) noexcept {
    std::int64_t peak = peak_.load();
    while (peak < held && !peak_.compare_exchange_weak(peak, held)) {
    }
  }

  static_assert(std::atomic<std::int64_t>::is_always_lock_free);
  std::atomic<std::int64_t> held_, peak_;
};

}  // namespace phantora
