#pragma once

#include "channel/wire.hpp"
#include "rank/runtime/spin_lock.hpp"

#include <phantora/kernels/kernel_cost_model.hpp>
#include <phantora/kernels/l2_cache.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <span>

/// What launches find of their operands in the L2 caches of the simulated GPUs.
namespace phantora::rank {

/// Device memory that a launch reads, writes, or both.
struct Touched {
  const void* address = nullptr;
  std::size_t bytes = 0;
  bool read = false, written = false;
};

/// The caches of a process's GPUs, in the order in which it gives them work. Thread-safe.
class CachedOperands {
 public:
  /// A launch on `device` touches its operands.
  /// @return what a query says of that. What is not in the cache is told in eighths of what is
  ///         read, so that launches with about the same are one query.
  KernelQuery::Operands touch(int device, std::span<const Touched> operands);

 private:
  struct Device {
    SpinLock lock{};
    std::unique_ptr<L2Cache> cache{};  ///< from the first launch on
  };
  std::array<Device, channel::max_gpus_per_host> devices_{};
};

/// The same, of this process's.
KernelQuery::Operands touch_operands(int device, std::span<const Touched> operands);

}  // namespace phantora::rank
