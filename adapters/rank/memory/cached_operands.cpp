#include "rank/memory/cached_operands.hpp"

#include "rank/memory/device_memory.hpp"
#include "rank/runtime/process.hpp"
#include "rank/small_data.hpp"

#include <phantora/kernels/gpu_model.hpp>

#include <cmath>
#include <cstdint>
#include <mutex>

namespace phantora::rank {

KernelQuery::Operands CachedOperands::touch(int device, std::span<const Touched> operands) {
  KernelQuery::Operands found;
  double missing = 0;
  Device& touched = devices_.at(static_cast<std::size_t>(device));
  const std::lock_guard lock{touched.lock};
  if (!touched.cache) touched.cache = std::make_unique<L2Cache>(gpu().l2);
  for (const Touched& operand : operands) {
    if (operand.bytes == 0 || !is_device_address(operand.address)) continue;
    const double absent =
        touched.cache->touch(reinterpret_cast<std::uintptr_t>(operand.address), operand.bytes);
    if (operand.read) {
      found.read += static_cast<double>(operand.bytes);
      missing += absent;
    }
    if (operand.written) found.written += static_cast<double>(operand.bytes);
  }
  constexpr double steps = 8;
  if (found.read > 0.0) found.cold = found.read * std::round(steps * missing / found.read) / steps;
  return found;
}

KernelQuery::Operands touch_operands(int device, std::span<const Touched> operands) {
  return small_data().cached.touch(device, operands);
}

}  // namespace phantora::rank
