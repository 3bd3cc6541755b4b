#include "cuda/driver/contexts.hpp"

namespace phantora::driver {
namespace {

/// As the documentation of cudaDeviceSetLimit has them.
std::size_t default_limit(CUlimit which) {
  switch (which) {
    case CU_LIMIT_STACK_SIZE:
      return 1024;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
      return 1024 * 1024 * 7;
    case CU_LIMIT_MALLOC_HEAP_SIZE:
      return 8 * 1024 * 1024;
    case CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH:
      return 2;
    case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
      return 2048;
    case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
      return 128;
    default:
      return 0;
  }
}

}  // namespace

bool Contexts::activate(int device) {
  auto& active = active_.at(static_cast<std::size_t>(device));
  if (active.load(std::memory_order_acquire)) return true;
  const std::scoped_lock lock{mutex_};
  if (active.load(std::memory_order_relaxed)) return true;
  if (!memory_.reserve(device)) return false;
  active.store(true, std::memory_order_release);
  return true;
}

bool Contexts::active(int device) const noexcept {
  return device >= 0 && device < max_devices && active_[static_cast<std::size_t>(device)].load();
}

void Contexts::deactivate(int device) {
  const std::scoped_lock lock{mutex_};
  if (active_.at(static_cast<std::size_t>(device)).exchange(false)) memory_.release(device);
}

Context& Contexts::primary(int device) {
  const std::scoped_lock lock{mutex_};
  return primary_.try_emplace(device, device).first->second;
}

Context& Contexts::create(int device, unsigned flags) {
  const std::scoped_lock lock{mutex_};
  return created_.emplace_back(device, flags);
}

void Contexts::retain(int device) {
  const std::scoped_lock lock{mutex_};
  ++retained_[device];
}

bool Contexts::release(int device) {
  const std::scoped_lock lock{mutex_};
  int& retained = retained_[device];
  if (retained == 0) return false;
  --retained;
  return true;
}

std::size_t Contexts::limit(int device, CUlimit which) const {
  const std::scoped_lock lock{mutex_};
  const auto set = limits_.find({device, which});
  return set != limits_.end() ? set->second : default_limit(which);
}

void Contexts::set_limit(int device, CUlimit which, std::size_t value) {
  const std::scoped_lock lock{mutex_};
  limits_[{device, which}] = value;
}

bool Contexts::enable_peer(int device, int peer) {
  const std::scoped_lock lock{mutex_};
  return peers_.insert({device, peer}).second;
}

bool Contexts::disable_peer(int device, int peer) {
  const std::scoped_lock lock{mutex_};
  return peers_.erase({device, peer}) > 0;
}

}  // namespace phantora::driver
