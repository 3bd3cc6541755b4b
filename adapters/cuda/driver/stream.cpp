#include "cuda/driver/stream.hpp"

#include "cuda/driver/driver_state.hpp"
#include "rank/runtime/process.hpp"

#include <algorithm>
#include <mutex>

namespace phantora::driver {

rank::Stream& stream_of(const void* handle, DefaultStream null_handle) {
  constexpr std::uintptr_t legacy = 1, per_thread = 2;  // cudaStreamLegacy, cudaStreamPerThread
  const auto value = reinterpret_cast<std::uintptr_t>(handle);
  if (value > per_thread) return *static_cast<rank::Stream*>(const_cast<void*>(handle));
  const bool own =
      value == per_thread || (value != legacy && null_handle == DefaultStream::per_thread);
  const int device = rank::current_device();
  return own ? rank::per_thread_stream(device) : rank::legacy_stream(device);
}

rank::Stream& create_stream(unsigned flags, int priority) {
  rank::Stream& made = rank::create_stream(rank::current_device(), flags,
                                           std::clamp(priority, greatest_priority, 0));
  LiveStreams& live = driver_state().live_streams;
  const std::scoped_lock lock{live.mutex};
  live.handles.insert(&made);
  return made;
}

bool destroy_stream(const void* handle) {
  LiveStreams& live = driver_state().live_streams;
  const std::scoped_lock lock{live.mutex};
  if (!live.handles.erase(handle)) return false;
  rank::destroy_stream(*static_cast<rank::Stream*>(const_cast<void*>(handle)));
  return true;
}

}  // namespace phantora::driver
