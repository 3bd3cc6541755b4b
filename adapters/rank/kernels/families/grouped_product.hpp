#pragma once

#include "rank/runtime/spin_lock.hpp"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

/// Products of groups of rows, each with a matrix of its own, in one launch (torch._grouped_mm,
/// experts of a mixture). The launch has the shapes in a table in device memory, which a kernel
/// before it fills; that kernel is told them.
namespace phantora::rank {

struct GroupedProduct {
  const std::byte* shapes = nullptr;  ///< the table
  /// Of all groups together along the side that is divided among them, of each along the others.
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t groups = 0;
  bool divides_m = false, divides_n = false, divides_k = false;
  std::size_t element = 2;  ///< bytes of one that is multiplied
};

/// The product whose table was filled last. Thread-safe.
class LastGroupedProduct {
 public:
  void note(const GroupedProduct& product) {
    const std::lock_guard lock{lock_};
    last_ = product;
  }
  [[nodiscard]] GroupedProduct get() {
    const std::lock_guard lock{lock_};
    return last_;
  }

 private:
  SpinLock lock_{};
  GroupedProduct last_{};
};

}  // namespace phantora::rank
