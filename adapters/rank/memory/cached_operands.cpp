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

double CachedOperands::Launch::in_eighths() const {
  constexpr double steps = 8;
  return found_.read * std::round(steps * missing_ / found_.read) / steps;
}

KernelQuery::Operands touch_operands(int device, std::span<const Touched> operands) {
  return small_data().cached.touch(device, operands);
}

}  // namespace phantora::rank
