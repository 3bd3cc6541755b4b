#pragma once

#include "channel/handshake.hpp"
#include "run/engine.hpp"

#include <chrono>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

namespace phantora::run {

/// A rank's end of the channel, as adapters/rank/runtime/connection.cpp has it, that writes what it
/// is told.
class FakeRank {
 public:
  FakeRank(Engine& engine, const std::string& name, int rank, pid_t pid = getpid())
      : socket_{socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)} {
    const channel::Address address{name};
    const channel::Hello hello{.pid = pid, .rank = rank};
    expect(connect(socket_, address.get(), address.length) == 0 &&
           send(socket_, &hello, sizeof hello, 0) == sizeof hello);
    for (int i = 0; i < 2; ++i) engine.step(std::chrono::milliseconds{0});
    channel::Welcome welcome;
    channel::SharedMemories descriptors{};
    expect(channel::receive_welcome(socket_, welcome, descriptors));
    map(shared_, descriptors[0]);
    map(run_, descriptors[2]);
    for (const int descriptor : descriptors) close(descriptor);
  }
  FakeRank(const FakeRank&) = delete;
  FakeRank& operator=(const FakeRank&) = delete;
  ~FakeRank() {
    munmap(shared_, sizeof *shared_);
    munmap(run_, sizeof *run_);
    close(socket_);
  }

  channel::RankShared& shared() { return *shared_; }
  channel::RunShared& run() { return *run_; }

  /// Any bytes, padded as a record is.
  void append(std::span<const std::byte> bytes) {
    constexpr std::size_t unit = sizeof(channel::Record);
    const std::uint64_t at = shared_->written;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      shared_->ring[(at + i) % channel::ring_bytes] = bytes[i];
    shared_->written = at + (bytes.size() + unit - 1) / unit * unit;
  }
  void append(const channel::Record& record) { append(std::as_bytes(std::span{&record, 1})); }

  /// What the engine has sent since, which is one delivery.
  template <class T>
  std::vector<T> delivery() {
    channel::Delivery delivery;
    expect(recv(socket_, &delivery, sizeof delivery, MSG_DONTWAIT) == sizeof delivery);
    std::vector<T> data(delivery.bytes / sizeof(T));
    expect(delivery.bytes == 0 ||
           recv(socket_, data.data(), delivery.bytes, MSG_DONTWAIT) == delivery.bytes);
    return data;
  }

 private:
  template <class T>
  static void map(T*& to, int descriptor) {
    void* memory = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    expect(memory != MAP_FAILED);
    to = static_cast<T*>(memory);
  }
  static void expect(bool done) {
    if (!done) throw std::runtime_error{"the engine was not reached"};
  }
  int socket_ = -1;
  channel::RankShared* shared_ = nullptr;
  channel::RunShared* run_ = nullptr;
};

}  // namespace phantora::run
