#pragma once

#include "channel/wire.hpp"

#include <cstddef>
#include <cstdint>

/// The instants at which what processes read was written, in the memory of the run.
namespace phantora::rank {

/// Kinds of keys, in their upper byte.
enum class KeyKind : std::uint64_t { connection = 1, pipe, unix_socket, event_counter, process };
constexpr std::uint64_t key_of(KeyKind kind, std::uint64_t within) noexcept {
  return static_cast<std::uint64_t>(kind) << 56U | within;
}

/// When something was written, and by whom.
struct MessageTime {
  std::int64_t clock_ps = 0;  ///< of who wrote it; 0: somebody of whom no time is known
  bool by_helper = false;     ///< a process that uses no GPU (rank/runtime/helper.hpp)
};

/// Something is about to be written under `key`.
void leave_message_time(channel::RunShared& run, std::uint64_t key, MessageTime time) noexcept;
/// So many bytes of that were written.
void message_was_written(channel::RunShared& run, std::uint64_t key, std::size_t bytes) noexcept;
/// So many bytes were read. @return of the last of them
MessageTime message_was_read(channel::RunShared& run, std::uint64_t key,
                             std::size_t bytes) noexcept;

}  // namespace phantora::rank
