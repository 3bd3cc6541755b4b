#pragma once

#include "rank/runtime/mutex.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include <cuda.h>

namespace phantora::driver {

/// A context of a device. All contexts of a device share its one simulated state, so that a second
/// one is a second name for the primary.
struct Context {
  explicit Context(int d, unsigned f = 0) : device{d}, flags{f} {}

  const int device;
  std::atomic<unsigned> flags;
};

/// Takes a primary context's own memory from the ledger, and gives it back.
struct ContextMemory {
  /// False where the GPU has not that much left.
  bool (*reserve)(int device) noexcept;
  void (*release)(int device) noexcept;
};

/// The contexts of a process's devices, and what the program sets of them through either API.
/// Thread-safe.
class Contexts {
 public:
  explicit Contexts(ContextMemory memory) : memory_{memory} {}

  // context.hpp says what these mean.
  bool activate(int device);
  [[nodiscard]] bool active(int device) const noexcept;
  void deactivate(int device);

  Context& primary(int device);
  /// It stays for good, so that a stale handle never dangles.
  Context& create(int device, unsigned flags);
  void retain(int device);
  /// False where it was not retained.
  bool release(int device);

  /// As set, or else what a device begins with. The runtime's numbers of limits are the driver's.
  [[nodiscard]] std::size_t limit(int device, CUlimit which) const;
  void set_limit(int device, CUlimit which, std::size_t value);
  /// False where `device` has access to `peer` already, or not any more.
  bool enable_peer(int device, int peer);
  bool disable_peer(int device, int peer);

 private:
  static constexpr int max_devices = 64;

  const ContextMemory memory_;
  std::array<std::atomic<bool>, max_devices> active_{};
  mutable rank::Mutex mutex_{};
  std::map<int, Context> primary_{};
  std::map<int, int> retained_{};
  std::deque<Context> created_{};
  std::map<std::pair<int, CUlimit>, std::size_t> limits_{};
  std::set<std::pair<int, int>> peers_{};
};

}  // namespace phantora::driver
