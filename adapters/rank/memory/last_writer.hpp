#pragma once

#include "rank/kernels/families/element_type.hpp"
#include "rank/runtime/spin_lock.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace phantora::rank {

/// What made a range of device memory unknown.
struct Writer {
  /// Of a kernel or another operation; lives until the process ends. nullptr: nothing to tell.
  const char* name = nullptr;
  bool unread = false;  ///< a kernel whose meaning is not known
  std::optional<ElementType> type{};
  bool chosen = false;  ///< at places that unknown indices name, or made of such: a one-hot mask
};

/// What made small ranges of device memory unknown, for those who are told that they read them: the
/// latest writes, since a training step of a large model launches some thousand kernels, and a loss
/// is read in the step that computes it. A note costs some 10 ns. Thread-safe.
class WriterLog {
 public:
  static constexpr std::size_t kept = 8192;

  void note(const void* address, std::size_t bytes, const Writer& writer);
  /// What was known or unknown at `source` is at `destination` now.
  void note_copy(const void* destination, const void* source, std::size_t bytes);
  /// The latest writer of the byte at `address`, through copies. Without a name if it is not among
  /// those that are kept.
  Writer last(const void* address);
  /// Whether that was `chosen`. Costs nothing until a first one was.
  bool is_chosen(const void* address);

 private:
  struct Entry {
    std::uint64_t begin = 0, end = 0;
    std::uint64_t source = 0;  ///< of a copy
    Writer writer{};
  };
  void append(const Entry& entry);

  SpinLock lock_{};
  std::array<Entry, kept> ring_{};
  std::uint64_t count_ = 0;
  std::atomic<bool> any_chosen_{false};
};

}  // namespace phantora::rank
