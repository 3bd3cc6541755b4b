#pragma once

#include <phantora/units.hpp>

#include <algorithm>

namespace phantora {

/// Device memory of one GPU: what is held, and the most that was.
class MemoryLedger {
 public:
  /// @param held  before the first allocation (GpuModel::context_memory).
  explicit MemoryLedger(Bytes held = {}) : held_{held}, peak_{held} {}
  /// Takes memory.
  void allocate(Bytes size) {
    held_ += size;
    peak_ = std::max(peak_, held_);
  }
  /// Gives memory back.
  void free(Bytes size) { held_ -= size; }
  /// Now.
  [[nodiscard]] Bytes held() const noexcept { return held_; }
  /// The most that was held.
  [[nodiscard]] Bytes peak() const noexcept { return peak_; }

 private:
  Bytes held_{}, peak_{};
};

}  // namespace phantora
