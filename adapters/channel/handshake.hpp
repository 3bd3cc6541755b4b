#pragma once

#include "channel/wire.hpp"

#include <array>
#include <string_view>

#include <sys/socket.h>
#include <sys/un.h>

namespace phantora::channel {

/// Of the engine's socket: in the abstract namespace, so that the name dies with the engine.
struct Address {
  sockaddr_un socket{};
  socklen_t length = 0;

  explicit Address(std::string_view name) noexcept;
  [[nodiscard]] const sockaddr* get() const noexcept {
    return reinterpret_cast<const sockaddr*>(&socket);
  }
};

/// What the socket of a run is called that tells whoever connects what the run does: as the
/// engine's, and this.
inline constexpr const char* look_suffix = "-look";

/// Descriptors of RankShared, HostShared and RunShared.
using SharedMemories = std::array<int, 3>;

/// @return whether all of it was sent.
bool send_welcome(int socket, Welcome welcome, const SharedMemories& memories) noexcept;
/// Waits for the engine's answer. @return whether it came whole; the descriptors are then ours.
bool receive_welcome(int socket, Welcome& welcome, SharedMemories& memories) noexcept;

}  // namespace phantora::channel
