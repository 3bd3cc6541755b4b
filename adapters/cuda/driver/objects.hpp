#pragma once

#include "rank/runtime/mutex.hpp"

#include <mutex>
#include <optional>
#include <unordered_map>

namespace phantora::driver {

/// Descriptions of what a program made, by the handle that it got.
template <class Handle, class Description>
class Objects {
 public:
  void add(Handle handle, const Description& description) {
    const std::scoped_lock lock{mutex_};
    live_.insert({handle, description});
  }
  /// False if there is none. Of several of one handle, one is removed.
  bool remove(Handle handle) {
    const std::scoped_lock lock{mutex_};
    const auto found = live_.find(handle);
    if (found == live_.end()) return false;
    live_.erase(found);
    return true;
  }
  std::optional<Description> find(Handle handle) {
    const std::scoped_lock lock{mutex_};
    const auto found = live_.find(handle);
    if (found == live_.end()) return std::nullopt;
    return found->second;
  }

 private:
  rank::Mutex mutex_{};
  std::unordered_multimap<Handle, Description> live_{};
};

/// A number that no other texture object has. It is no address, so that a kernel which is given
/// the object is not taken to write where it points.
unsigned long long next_texture();

}  // namespace phantora::driver
