#pragma once

#include "rank/kernels/element_type.hpp"
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
  bool chosen = false;   ///< at places that unknown indices name, or made of such: a one-hot mask
  bool perhaps = false;  ///< it may have written less, or nothing
};

/// What made small ranges of device memory unknown, for those who are told that they read them: the
/// latest writes, since a training step of a large model launches some thousand kernels, and a loss
/// is read in the step that computes it. A note costs some 10 ns. Thread-safe.
class WriterLog {
 public:
  static constexpr std::size_t kept = 8192;

  void note(const void* address, std::size_t bytes, const Writer& writer);
  /// The same of what nobody is told about: kept apart, for written_from() alone.
  void note_untold(const void* address, std::size_t bytes, const Writer& writer);
  /// What was known or unknown at `source` is at `destination` now.
  void note_copy(const void* destination, const void* source, std::size_t bytes);
  /// The latest writer of the byte at `address`, through copies. Without a name if it is not among
  /// those that are kept.
  Writer last(const void* address);
  /// Bytes from `address` to the end of what the latest writer of the byte there wrote; 0 where it
  /// is not kept, or has no name.
  std::size_t written_from(const void* address);
  /// Whether that was `chosen`. Costs nothing until a first one was.
  bool is_chosen(const void* address);

 private:
  struct Entry {
    std::uint64_t begin = 0, end = 0;
    std::uint64_t source = 0;  ///< of a copy
    Writer writer{};
    std::uint64_t order = 0;  ///< among those of both rings
    [[nodiscard]] bool holds(std::uint64_t address) const {
      return begin <= address && address < end;
    }
  };
  struct Ring {
    std::array<Entry, kept> entries{};
    std::uint64_t count = 0;
    /// The latest that holds `address` and was written there for certain; nullptr: none of those
    /// that are kept.
    [[nodiscard]] const Entry* latest(std::uint64_t address) const;
  };
  void append(Ring& ring, Entry entry);

  SpinLock lock_{};
  Ring told_{}, untold_{};
  std::uint64_t order_ = 0;
  std::atomic<bool> any_chosen_{false};
};

}  // namespace phantora::rank
