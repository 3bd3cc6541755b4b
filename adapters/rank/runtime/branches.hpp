#pragma once

#include "rank/runtime/mutex.hpp"
#include "rank/runtime/timeline.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>

namespace phantora::rank {

/// The streams beside a stream that graphs' branches run in. Launches into one stream follow one
/// another, so they can share them; those into others would wait for one another. Thread-safe.
class Branches {
 public:
  Stream& beside(const Stream& stream, int device, std::size_t lane) {
    constexpr unsigned non_blocking = 1;  // cudaStreamNonBlocking
    const std::lock_guard lock{mutex_};
    Stream*& found = made_[{stream.id, device, lane}];
    if (found == nullptr) found = &create_stream(device, non_blocking, stream.priority);
    return *found;
  }

 private:
  Mutex mutex_{};
  std::map<std::tuple<std::uint64_t, int, std::size_t>, Stream*> made_{};
};

}  // namespace phantora::rank
