#include "channel/handshake.hpp"

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace phantora::channel {
namespace {

/// A message that holds a welcome and has room for the descriptors.
struct WelcomeMessage {
  iovec part;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(SharedMemories))> control{};
  msghdr header{};

  explicit WelcomeMessage(Welcome& welcome) noexcept : part{&welcome, sizeof welcome} {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
  WelcomeMessage(const WelcomeMessage&) = delete;
  WelcomeMessage& operator=(const WelcomeMessage&) = delete;
};

}  // namespace

Address::Address(std::string_view name) noexcept {
  socket.sun_family = AF_UNIX;
  // Abstract: the leading byte of sun_path stays zero.
  name.copy(socket.sun_path + 1, sizeof socket.sun_path - 2);
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

bool send_welcome(int socket, Welcome welcome, const SharedMemories& memories) noexcept {
  WelcomeMessage message{welcome};
  cmsghdr* rights = CMSG_FIRSTHDR(&message.header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof memories);
  std::memcpy(CMSG_DATA(rights), memories.data(), sizeof memories);
  return sendmsg(socket, &message.header, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof welcome);
}

bool receive_welcome(int socket, Welcome& welcome, SharedMemories& memories) noexcept {
  WelcomeMessage message{welcome};
  ssize_t got = 0;
  do {
    got = recvmsg(socket, &message.header, MSG_WAITALL | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  const cmsghdr* rights = CMSG_FIRSTHDR(&message.header);
  if (got != static_cast<ssize_t>(sizeof welcome) || rights == nullptr) return false;
  std::memcpy(memories.data(), CMSG_DATA(rights), sizeof memories);
  return true;
}

}  // namespace phantora::channel
