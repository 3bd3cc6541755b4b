#include "rank/runtime/legacy_order.hpp"

#include <algorithm>
#include <mutex>

namespace phantora::rank {

void LegacyOrder::add(Stream& stream) {
  if (!takes_part(stream)) return;
  const std::lock_guard lock{lock_};
  Device& device = device_of(stream);
  if (stream.legacy) {
    device.legacy.store(&stream, std::memory_order_release);
  } else {
    device.blocking.push_back(&stream);
    ++blocking_;
  }
}

void LegacyOrder::remove(Stream& stream) {
  if (!takes_part(stream) || stream.legacy) return;
  const std::lock_guard lock{lock_};
  stream.destroyed = true;
  const bool awaited =
      device_of(stream).legacy != nullptr && stream.joined_by_legacy < stream.operations;
  if (!awaited) forget(stream);
}

void LegacyOrder::forget(Stream& stream) {
  blocking_ -= static_cast<int>(std::erase(device_of(stream).blocking, &stream));
}

std::vector<LegacyOrder::Join> LegacyOrder::before(Stream& stream) {
  if (!concerns(stream)) return {};
  const std::lock_guard lock{lock_};
  const Device& device = device_of(stream);
  Stream* const legacy = device.legacy;
  if (legacy == nullptr) return {};
  std::vector<Join> joins;
  if (stream.legacy) {
    for (Stream* const other : device.blocking) {
      const std::uint64_t operations = other->operations;
      if (other->joined_by_legacy < operations) joins.push_back({other, legacy, operations});
    }
  } else if (const std::uint64_t operations = legacy->operations;
             stream.legacy_joined < operations) {
    joins.push_back({legacy, &stream, operations});
  }
  return joins;
}

void LegacyOrder::joined(const Join& join) {
  const std::lock_guard lock{lock_};
  if (join.later->legacy) {
    std::uint64_t& known = join.earlier->joined_by_legacy;
    known = std::max(known, join.operations);
  } else if (std::atomic<std::uint64_t>& known = join.later->legacy_joined;
             known < join.operations) {
    // Who sees this, without the lock, comes after the join.
    known.store(join.operations, std::memory_order_release);
  }
  if (join.earlier->destroyed) forget(*join.earlier);
}

}  // namespace phantora::rank
