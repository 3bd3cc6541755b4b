#pragma once

#include <cstddef>
#include <cstdint>

/// What libphantora_keys.so does for libphantora_measure.so. It holds the simulation's own entry
/// points over a rank that simulates nothing: called with what the program called, they say which
/// queries the simulation would price, by the very code that says so there. Its entry points have
/// NVIDIA's names, so that it is loaded out of the program's sight.
namespace phantora::measure {

/// What keys ask about the real GPU and its memory.
struct Machine {
  enum class Place : std::uint8_t {
    host,
    pinned,  ///< page-locked or managed: a copy engine reaches it
    device
  };
  Place (*place_of)(const void* address);
  /// The allocation on the device that holds `address`; false if none does.
  bool (*allocation_of)(const void* address, void** base, std::size_t* bytes);
  const char* gpu_name;
  int capability_major, capability_minor, sm_count;
};

/// A query that a call asked for, and the program's own handle of the stream that it went to.
struct Asked {
  std::uint32_t query;
  const void* stream;
};

/// The functions of libphantora_keys.so that are not NVIDIA's.
struct Keys {
  /// Before anything else, once; `machine` is kept.
  void (*begin)(const Machine* machine);
  /// What the calling thread's calls have asked for since it was last taken: up to `most` go to
  /// `taken`. @return how many there were.
  std::size_t (*take)(Asked* taken, std::size_t most);
  /// The query's text (kernels/query_text.hpp). It stays where it is.
  const char* (*text_of)(std::uint32_t query);
};
using KeysFunction = const Keys*();
inline constexpr const char* keys_function = "phantora_keys";

}  // namespace phantora::measure
