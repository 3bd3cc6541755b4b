// Which connection a descriptor is an end of, so that virtual time finds the way from one end to
// the other.
#include "libc/connections.hpp"

#include "rank/runtime/message_times.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <string_view>

#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace phantora::libc {
namespace {

using rank::key_of;
using rank::KeyKind;

/// All simulated hosts are this machine, so that ports alone tell its TCP connections apart.
std::uint64_t port_of(const sockaddr_storage& address) noexcept {
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  }
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  }
  return 0;
}

/// The inode of the Unix socket that a Unix socket is connected to, as the kernel tells it
/// (sock_diag(7)); 0 where there is none, or the kernel does not tell.
///
/// System calls, since the C library's functions are hooked.
std::uint32_t peer_of(std::uint32_t inode) noexcept {
  const auto diagnosis =
      static_cast<int>(syscall(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (diagnosis < 0) return 0;
  struct {
    nlmsghdr header{};
    unix_diag_req request{};
  } question;
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.request.sdiag_family = AF_UNIX;
  question.request.udiag_states = ~0U;
  question.request.udiag_ino = inode;
  question.request.udiag_show = UDIAG_SHOW_PEER;
  question.request.udiag_cookie[0] = question.request.udiag_cookie[1] = ~0U;  // any
  alignas(nlmsghdr) std::array<std::byte, 512> answer{};
  long length = syscall(SYS_sendto, diagnosis, &question, sizeof question, 0, nullptr, 0);
  if (length > 0)
    length = syscall(SYS_recvfrom, diagnosis, answer.data(), answer.size(), 0, nullptr, nullptr);
  syscall(SYS_close, diagnosis);
  const auto* const header = reinterpret_cast<const nlmsghdr*>(answer.data());
  if (length < static_cast<long>(NLMSG_SPACE(sizeof(unix_diag_msg))) ||
      header->nlmsg_type != SOCK_DIAG_BY_FAMILY)
    return 0;
  const auto end = static_cast<std::size_t>(length);
  std::size_t at = NLMSG_SPACE(sizeof(unix_diag_msg));
  while (at + sizeof(nlattr) <= end) {
    const auto* const attribute = reinterpret_cast<const nlattr*>(answer.data() + at);
    if (attribute->nla_len < sizeof(nlattr) || at + attribute->nla_len > end) return 0;
    if (attribute->nla_type == UNIX_DIAG_PEER &&
        attribute->nla_len >= sizeof(nlattr) + sizeof(std::uint32_t)) {
      std::uint32_t peer = 0;
      __builtin_memcpy(&peer, attribute + 1, sizeof peer);
      return peer;
    }
    at += NLA_ALIGN(attribute->nla_len);
  }
  return 0;
}

Directions directions_of(int descriptor, const struct stat& file) noexcept {
  if (S_ISFIFO(file.st_mode)) {
    const std::uint64_t key = key_of(KeyKind::pipe, file.st_ino);
    return {key, key};
  }
  sockaddr_storage here{}, there{};
  socklen_t here_length = sizeof here, there_length = sizeof there;
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&here), &here_length) != 0) return {};
  if (here.ss_family == AF_UNIX) {
    // A key names the socket that writes: a client's is known before the server accepts it.
    const std::uint32_t peer = peer_of(static_cast<std::uint32_t>(file.st_ino));
    return {key_of(KeyKind::unix_socket, file.st_ino),
            peer == 0 ? 0 : key_of(KeyKind::unix_socket, peer)};
  }
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&there), &there_length) != 0) return {};
  const std::uint64_t mine = port_of(here), theirs = port_of(there);
  if (mine == 0 || theirs == 0) return {};
  return {key_of(KeyKind::connection, mine << 16U | theirs),
          key_of(KeyKind::connection, theirs << 16U | mine)};
}

/// All event counters have one inode: it is told by the link in /proc, and within its process by
/// its number.
bool is_event_counter(int descriptor) noexcept {
  std::array<char, 32> path{}, target{};
  std::snprintf(path.data(), path.size(), "/proc/self/fd/%d", descriptor);
  const long length = syscall(SYS_readlinkat, AT_FDCWD, path.data(), target.data(), target.size());
  return length > 0 && std::string_view{target.data(), static_cast<std::size_t>(length)} ==
                           "anon_inode:[eventfd]";
}

/// What was last found out of some descriptors, told apart by their inodes.
struct Known {
  std::atomic<std::uint64_t> inode{0}, out{0}, in{0};
};
std::array<Known, 1024> known;

}  // namespace

std::optional<Directions> connection(int descriptor) noexcept {
  struct stat file {};
  if (fstat(descriptor, &file) != 0) return std::nullopt;
  if ((file.st_mode & S_IFMT) == 0) {
    if (!is_event_counter(descriptor)) return std::nullopt;
    const std::uint64_t key =
        key_of(KeyKind::event_counter, static_cast<std::uint64_t>(getpid()) << 24U |
                                           static_cast<std::uint64_t>(descriptor));
    return Directions{key, key};
  }
  if (!S_ISFIFO(file.st_mode) && !S_ISSOCK(file.st_mode)) return std::nullopt;
  Known& entry = known[static_cast<std::size_t>(descriptor) % known.size()];
  if (entry.inode.load(std::memory_order_acquire) == file.st_ino) {
    const Directions found{entry.out.load(std::memory_order_relaxed),
                           entry.in.load(std::memory_order_relaxed)};
    if (entry.inode.load(std::memory_order_acquire) == file.st_ino) return found;
  }
  const Directions found = directions_of(descriptor, file);
  // It may still be connected, or accepted.
  if (S_ISSOCK(file.st_mode) && (found.out == 0 || found.in == 0)) return found;
  entry.inode.store(0, std::memory_order_release);
  entry.out.store(found.out, std::memory_order_relaxed);
  entry.in.store(found.in, std::memory_order_relaxed);
  entry.inode.store(file.st_ino, std::memory_order_release);
  return found;
}

}  // namespace phantora::libc
