#pragma once

#include "rank/runtime/mutex.hpp"

#include <cstddef>
#include <map>

/// Host memory that a device can reach: page-locked, registered, managed. Kernels that are not
/// executed leave it as it is, which the user has to be told.
namespace phantora::rank {

/// Thread-safe.
class HostReach {
 public:
  void add(const void* base, std::size_t bytes);
  void remove(const void* base);
  /// Whether `address` lies in such memory.
  [[nodiscard]] bool holds(const void* address) const;

 private:
  mutable Mutex mutex_{};
  std::map<const std::byte*, std::size_t> ranges_{};  ///< by start address
};

// Of this process.
void device_reaches(const void* base, std::size_t bytes);
void device_leaves(const void* base);
bool reached_by_device(const void* address);

}  // namespace phantora::rank
