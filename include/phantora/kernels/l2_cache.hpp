#pragma once

#include <phantora/units.hpp>

#include <cstdint>
#include <memory>

namespace phantora {

/// Which of a GPU's memory its L2 cache holds, after what kernels read and wrote one after the
/// other.
///
/// What was last touched before the cache took in much else is gone. The policy of the real cache
/// is not published; measured on an H200 and an H100 (lib/kernels/README.md), all is there after
/// 0.53 times the size was taken in, nothing after 0.8 times, and a share that falls evenly
/// between.
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

  /// The share of what was touched before the cache took in `since` other bytes, and is missing.
  static double missing_share(double since, Bytes size) noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace phantora
