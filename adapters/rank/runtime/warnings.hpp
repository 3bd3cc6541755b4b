#pragma once

#include "rank/runtime/mutex.hpp"

#include <mutex>
#include <set>
#include <string>

namespace phantora::rank {

/// What this process has warned of. Thread-safe.
class Warnings {
 public:
  /// Whether nothing has been said of `key` so far.
  bool first(const std::string& key) {
    const std::lock_guard lock{mutex_};
    return said_.insert(key).second;
  }

 private:
  Mutex mutex_{};
  std::set<std::string> said_{};
};

}  // namespace phantora::rank
