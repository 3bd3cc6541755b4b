#pragma once

#include "channel/wire.hpp"
#include "run/engine.hpp"

#include <array>
#include <chrono>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace phantora::run {

/// A rank's end of the channel, as adapters/rank/connection.cpp has it, that writes what it is
/// told.
class FakeRank {
 public:
  FakeRank(Engine& engine, const std::string& name, int rank)
      : socket_{socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)} {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path + 1, sizeof address.sun_path - 2);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    const channel::Hello hello{.pid = getpid(), .rank = rank};
    expect(connect(socket_, reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
           send(socket_, &hello, sizeof hello, 0) == sizeof hello);
    for (int i = 0; i < 2; ++i) engine.step(std::chrono::milliseconds{0});
    channel::Welcome welcome;
    std::array<int, 2> descriptors{};
    iovec part{&welcome, sizeof welcome};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof descriptors)> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    expect(recvmsg(socket_, &message, MSG_CMSG_CLOEXEC) == sizeof welcome);
    std::memcpy(descriptors.data(), CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptors);
    void* memory =
        mmap(nullptr, sizeof *shared_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptors[0], 0);
    expect(memory != MAP_FAILED);
    shared_ = static_cast<channel::RankShared*>(memory);
    for (const int descriptor : descriptors) close(descriptor);
  }
  FakeRank(const FakeRank&) = delete;
  FakeRank& operator=(const FakeRank&) = delete;
  ~FakeRank() {
    munmap(shared_, sizeof *shared_);
    close(socket_);
  }

  channel::RankShared& shared() { return *shared_; }

  /// Any bytes, padded as a record is.
  void append(std::span<const std::byte> bytes) {
    constexpr std::size_t unit = sizeof(channel::Record);
    const std::uint64_t at = shared_->written;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      shared_->ring[(at + i) % channel::ring_bytes] = bytes[i];
    shared_->written = at + (bytes.size() + unit - 1) / unit * unit;
  }
  void append(const channel::Record& record) { append(std::as_bytes(std::span{&record, 1})); }

 private:
  static void expect(bool done) {
    if (!done) throw std::runtime_error{"the engine was not reached"};
  }
  int socket_ = -1;
  channel::RankShared* shared_ = nullptr;
};

}  // namespace phantora::run
