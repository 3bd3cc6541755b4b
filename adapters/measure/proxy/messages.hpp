#pragma once

#include "channel/collective_types.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <vector>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/// What a rank on a real GPU asks of its proxy, through a socket for each of its threads. Each
/// request has one reply. Both ends are of one build.
namespace phantora::measure {

/// The abstract name of the proxy's socket.
inline constexpr const char* proxy_variable = "PHANTORA_PROXY";

/// Where the socket of an abstract name is, for bind and connect.
struct ProxyAddress {
  explicit ProxyAddress(std::string_view name)
      : length{static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())} {
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  }
  [[nodiscard]] const sockaddr* get() const noexcept {
    return reinterpret_cast<const sockaddr*>(&address);
  }

  sockaddr_un address{};
  socklen_t length;
};

enum class Ask : std::uint32_t {
  unique_id,  ///< -> 128 bytes
  join,       ///< Join -> Joined
  split,      ///< Split -> Joined
  leave,      ///< the communicator's handle -> nothing
  enqueue,    ///< a number of operations, each with the bytes that it sends, if it carries data
              ///  -> of each that carries data, what of it is received
};

struct Join {
  std::byte unique_id[128];
  std::int32_t ranks, rank;
};
struct Split {
  std::uint64_t parent;
  std::int32_t color, key;
};
struct Joined {
  std::uint64_t communicator;  ///< 0: in none
  std::int32_t ranks, rank;
};

/// One operation of a group, which says what rank::CollectiveCall does.
struct Operation {
  std::uint64_t communicator, count;
  std::uint64_t stream;  ///< the program's handle
  double premul;
  std::int32_t peer;
  channel::Collective op;
  channel::DataType type;
  channel::Reduction reduction;
  bool carries_data;
};

/// Bytes of a request or a reply, in the order in which they are put and taken.
class Message {
 public:
  Message() = default;
  explicit Message(std::vector<std::byte> bytes) : bytes_{std::move(bytes)} {}

  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    put_bytes(std::as_bytes(std::span{&value, 1}));
  }
  /// With their number.
  void put_bytes_counted(std::span<const std::byte> bytes) {
    put(std::uint64_t{bytes.size()});
    put_bytes(bytes);
  }

  template <class T>
  T take() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, take_bytes(sizeof value).data(), sizeof value);
    return value;
  }
  std::span<const std::byte> take_bytes_counted() { return take_bytes(take<std::uint64_t>()); }

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  void put_bytes(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  std::span<const std::byte> take_bytes(std::size_t count) {
    if (bytes_.size() - taken_ < count) throw std::runtime_error{"a message is too short"};
    const std::span<const std::byte> part{bytes_.data() + taken_, count};
    taken_ += count;
    return part;
  }

  std::vector<std::byte> bytes_{};
  std::size_t taken_ = 0;
};

namespace detail {

inline void write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw std::runtime_error{"the other end is gone"};
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}
/// False at the end of what the other side has sent.
inline bool read_all(int descriptor, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t there = read(descriptor, bytes.data(), bytes.size());
    if (there < 0 && errno == EINTR) continue;
    if (there <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(there));
  }
  return true;
}

}  // namespace detail

/// @throws std::runtime_error if the other end is gone.
inline void send_message(int descriptor, const Message& message) {
  const std::uint64_t size = message.bytes().size();
  detail::write_all(descriptor, std::as_bytes(std::span{&size, 1}));
  detail::write_all(descriptor, message.bytes());
}
/// @return whether there was one.
inline bool receive_message(int descriptor, Message& message) {
  std::uint64_t size = 0;
  if (!detail::read_all(descriptor, std::as_writable_bytes(std::span{&size, 1}))) return false;
  std::vector<std::byte> bytes(size);
  if (!detail::read_all(descriptor, bytes)) return false;
  message = Message{std::move(bytes)};
  return true;
}

}  // namespace phantora::measure
