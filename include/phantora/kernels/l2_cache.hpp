#pragma once

#include <phantora/units.hpp>

#include <cstdint>
#include <memory>

namespace phantora {

/// Which of a GPU's memory its L2 cache holds, after what kernels read and wrote one after the
/// other.
///
/// What was last touched before much else was is gone. The policy of the real cache is not
/// published; measured on an H200 and an H100 (lib/kernels/README.md), all is there after 0.53
/// times the size was touched, nothing after 0.8 times, and a share that falls evenly between. What
/// is touched counts whether it was there or not: the cache has two halves, and an SM that finds
/// something in the other half brings it into its own.
class L2Cache {
 public:
  /// @param size  of the GPU's cache (GpuModel::l2); 0 = it holds nothing
  explicit L2Cache(Bytes size);
  L2Cache(L2Cache&&) noexcept;
  L2Cache& operator=(L2Cache&&) noexcept;
  ~L2Cache();

  /// A kernel reads or writes `bytes` from `address` on, and the cache then holds them.
  /// @return how many of them it did not hold before
  double touch(std::uint64_t address, std::uint64_t bytes);

  /// The share that is missing of what was touched before `since` bytes were.
  static double missing_share(double since, Bytes size) noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace phantora
