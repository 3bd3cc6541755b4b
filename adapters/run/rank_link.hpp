#pragma once

#include "channel/wire.hpp"
#include "run/shared_memory.hpp"
#include "run/unique_fd.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace phantora::run {

/// Slots of a process's threads. It writes their number, and may have overwritten that.
inline std::span<const channel::ThreadSlot> slots_of(const channel::RankShared& shared) {
  const std::size_t count = shared.thread_count.load(std::memory_order_acquire);
  return std::span{shared.threads}.first(std::min(count, shared.threads.size()));
}

/// The engine's end of the channel to one process: their socket, the memory that they share, and
/// what has not gone out yet. Knows what messages look like, and not what they mean.
class RankLink {
 public:
  explicit RankLink(UniqueFd socket) : socket_{std::move(socket)} {}

  /// Of the socket; -1 once closed.
  [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }
  /// Null before the welcome, and once closed.
  [[nodiscard]] channel::RankShared* shared() const noexcept { return shared_.get(); }

  /// Nothing more is sent or received, and the memory is given back.
  void close() noexcept;

  /// The process's first message; nothing if it has not come, or is none: then the link is closed.
  std::optional<channel::Hello> receive_hello();
  /// Takes the doorbells off the socket. @return false where the process has closed its end.
  bool receive_bells();
  /// Shares memory with the process. @return whether the welcome was sent.
  bool welcome(const channel::Welcome& welcome, int host_memory, int run_memory);

  /// Goes out in parts, as the process reads it (flush).
  void send(const channel::Delivery& delivery, std::span<const std::byte> data);
  void flush();
  [[nodiscard]] bool has_outgoing() const noexcept { return !outgoing_.empty() && is_open(); }
  /// Whether the process's receiver has handled all that was sent, and waits for more. Linux wakes
  /// that thread for nothing whenever the doorbells have been read off the socket.
  [[nodiscard]] bool receiver_waits() const noexcept;

  [[nodiscard]] bool has_records() const noexcept;
  /// Hands over, in order, what the process had appended when this was called.
  /// @throws std::logic_error where it cannot be a process that wrote this; says what is wrong.
  void take(const std::function<void(const channel::Record&, std::span<const std::byte>)>& record);
  /// Lets a thread go on that waits for an answer.
  void reply(std::uint32_t thread, channel::Reply reply);

 private:
  [[nodiscard]] bool is_open() const noexcept { return socket_.get() >= 0; }

  UniqueFd socket_;
  Mapped<channel::RankShared> shared_{};
  std::vector<std::byte> outgoing_{};
  std::uint64_t deliveries_ = 0;
};

}  // namespace phantora::run
