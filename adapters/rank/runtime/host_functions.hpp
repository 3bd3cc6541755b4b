#pragma once

#include "rank/runtime/mutex.hpp"

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace phantora::rank {

/// Functions of the program that streams will come to (cudaLaunchHostFunc), by ticket. Thread-safe.
class HostFunctions {
 public:
  struct Call {
    void (*function)(void*) = nullptr;
    void* argument = nullptr;
  };
  /// @return its ticket.
  std::uint64_t add(const Call& call) {
    const std::lock_guard lock{mutex_};
    calls_.emplace(++last_, call);
    return last_;
  }
  /// The call, which is forgotten; nothing if there is none of that ticket.
  std::optional<Call> take(std::uint64_t ticket) {
    const std::lock_guard lock{mutex_};
    const auto found = calls_.extract(ticket);
    return found.empty() ? std::nullopt : std::optional{found.mapped()};
  }

 private:
  Mutex mutex_{};
  std::unordered_map<std::uint64_t, Call> calls_{};
  std::uint64_t last_ = 0;
};

}  // namespace phantora::rank
