#pragma once

namespace phantora::measure {

/// Calls that the real libraries, or the keys, make among themselves are passed on: how many of
/// ours this thread is in.
inline thread_local int depth = 0;
struct Inside {
  Inside() noexcept { ++depth; }
  ~Inside() { --depth; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

}  // namespace phantora::measure
