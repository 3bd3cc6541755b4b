#pragma once

#include "rank/kernels/element_type.hpp"

#include <cstddef>
#include <optional>

/// What made small ranges of device memory unknown, for those who are told that they read them.
namespace phantora::rank {

struct Writer {
  /// Of a kernel or another operation; lives until the process ends. nullptr: nothing to tell.
  const char* name = nullptr;
  bool unread = false;  ///< a kernel whose meaning is not known
  std::optional<ElementType> type{};
};

/// Keeps the latest few thousand; costs some 10 ns.
void note_writer(const void* address, std::size_t bytes, const Writer& writer);
/// What was known or unknown at `source` is at `destination` now.
void note_copy(const void* destination, const void* source, std::size_t bytes);

/// The latest writer of the byte at `address`, through copies. Without a name if it is not among
/// those that are kept.
Writer last_writer(const void* address);

}  // namespace phantora::rank
