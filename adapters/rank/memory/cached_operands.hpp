#pragma once

#include "channel/wire.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/runtime/spin_lock.hpp"

#include <phantora/kernels/kernel_cost_model.hpp>
#include <phantora/kernels/l2_cache.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
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
  /// A kernel goes through all of its operands at once: of a product of two large tensors, the
  /// first of the result is older at its end than what was read last. Where all are small that is
  /// as one after the other.
  static constexpr std::size_t together_bytes = std::size_t{16} << 20U, parts_of_large = 8;
  static Touched part_of(Touched operand, std::size_t part, std::size_t parts) {
    const std::size_t begin = operand.bytes * part / parts,
                      end = operand.bytes * (part + 1) / parts;
    operand.address = static_cast<const std::byte*>(operand.address) + begin;
    operand.bytes = end - begin;
    return operand;
  }
  struct Device {
    SpinLock lock{};
    std::unique_ptr<L2Cache> cache{};  ///< from the first launch on
  };

 public:
  /// A launch on `device` touches its operands.
  /// @param as_touched  makes a Touched of each: launches are many, and make no list for it
  /// @return what a query says of that. What is not in the cache is told in eighths of what is
  ///         read, so that launches with about the same are one query.
  template <class Operands, class AsTouched = std::identity>
  KernelQuery::Operands touch(int device, const Operands& operands, AsTouched as_touched = {}) {
    KernelQuery::Operands found;
    Launch launch{devices_.at(static_cast<std::size_t>(device)), found};
    std::size_t bytes = 0;
    for (const auto& operand : operands) bytes += as_touched(operand).bytes;
    const std::size_t parts = bytes > together_bytes ? parts_of_large : 1;
    for (std::size_t part = 0; part < parts; ++part) {
      for (const auto& operand : operands) launch.touch(part_of(as_touched(operand), part, parts));
    }
    launch.ends();
    return found;
  }

 private:
  /// Has a GPU's cache for itself.
  class Launch {
   public:
    Launch(Device& device, KernelQuery::Operands& found)
        : lock_{device.lock}, cache_{device.cache ? *device.cache : made(device)}, found_{found} {}
    void touch(const Touched& operand) {
      if (operand.bytes == 0 || !DeviceMemory::covers(operand.address)) return;
      const double absent =
          cache_.touch(reinterpret_cast<std::uintptr_t>(operand.address), operand.bytes);
      if (operand.read) {
        found_.read += static_cast<double>(operand.bytes);
        missing_ += absent;
      }
      if (operand.written) found_.written += static_cast<double>(operand.bytes);
    }
    /// What is missing is told.
    void ends() const {
      // Mostly nothing is there, or all.
      if (missing_ >= found_.read) {
        found_.cold = found_.read;
      } else if (missing_ > 0.0) {
        found_.cold = in_eighths();
      }
    }

   private:
    [[nodiscard]] double in_eighths() const;
    static L2Cache& made(Device& device);

    std::lock_guard<SpinLock> lock_;
    L2Cache& cache_;
    KernelQuery::Operands& found_;
    double missing_ = 0;
  };

  std::array<Device, channel::max_gpus_per_host> devices_{};
};

/// The same, of this process's.
KernelQuery::Operands touch_operands(int device, std::span<const Touched> operands);

}  // namespace phantora::rank
