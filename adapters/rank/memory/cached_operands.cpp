#include "rank/memory/cached_operands.hpp"

#include "rank/runtime/process.hpp"
#include "rank/small_data.hpp"

#include <phantora/kernels/gpu_model.hpp>

#include <cmath>

namespace phantora::rank {

L2Cache& CachedOperands::Launch::made(Device& device) {
  device.cache = std::make_unique<L2Cache>(gpu().l2);
  return *device.cache;
}

KernelQuery::Operands CachedOperands::Launch::found() const {
  KernelQuery::Operands found = found_;
  // Mostly nothing is there, or all.
  constexpr double steps = 8;
  if (missing_ >= found.read) {
    found.cold = found.read;
  } else if (missing_ > 0.0) {
    found.cold = found.read * std::round(steps * missing_ / found.read) / steps;
  }
  return found;
}

KernelQuery::Operands touch_operands(int device, std::span<const Touched> operands) {
  return small_data().cached.touch(device, operands);
}

}  // namespace phantora::rank
