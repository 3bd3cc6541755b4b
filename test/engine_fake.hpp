#pragma once

#include "channel/wire.hpp"
#include "rank/runtime/connection.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

namespace phantora::rank {

/// The other end of a connection without a process: it keeps the records that it is sent, and
/// answers those that wait.
class FakeEngine {
 public:
  /// What the next answers say; called on the engine's own thread, for each record that waits.
  std::function<channel::Reply(const channel::Record&)> answer = [](const channel::Record&) {
    return channel::Reply{};
  };

  FakeEngine() {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) std::abort();
    socket_ = ends[1];
    rank_socket_ = ends[0];
    connection =
        std::make_unique<Connection>(ends[0], channel::Welcome{.process = 3},
                                     Connection::Shared{.rank = shared_.get(), .run = run_.get()});
    thread_ = std::thread{[this] { serve(); }};
  }
  FakeEngine(const FakeEngine&) = delete;
  FakeEngine& operator=(const FakeEngine&) = delete;
  ~FakeEngine() {
    shutdown(rank_socket_, SHUT_RDWR);
    thread_.join();
    close(rank_socket_);
    close(socket_);
  }

  channel::RankShared& shared() { return *shared_; }
  channel::RunShared& run() { return *run_; }
  /// What has been appended since the last call.
  std::vector<channel::Record> records() {
    const std::lock_guard lock{mutex_};
    drain();
    return std::exchange(records_, {});
  }

  std::unique_ptr<Connection> connection;

 private:
  void drain() {
    constexpr std::size_t unit = sizeof(channel::Record);
    std::uint64_t at = shared_->consumed;
    while (at != shared_->written) {
      channel::Record record;
      std::memcpy(&record, shared_->ring.data() + at % channel::ring_bytes, unit);
      at += unit;
      at += (record.payload_bytes + unit - 1) / unit * unit;
      records_.push_back(record);
    }
    shared_->consumed = at;
    shared_->space.raise();
  }
  void serve() {
    char bell = 0;
    do {
      run_->engine_sleeps = true;  // and then looks once more
      const std::lock_guard lock{mutex_};
      const std::size_t known = records_.size();
      drain();
      for (std::size_t i = known; i < records_.size(); ++i) {
        if (records_[i].op < channel::Op::synchronize) continue;
        channel::ThreadSlot& slot = shared_->threads[records_[i].thread];
        slot.reply = answer(records_[i]);
        slot.replies.raise();
      }
    } while (read(socket_, &bell, 1) == 1);
  }

  const std::unique_ptr<channel::RankShared> shared_ = std::make_unique<channel::RankShared>();
  const std::unique_ptr<channel::RunShared> run_ = std::make_unique<channel::RunShared>();
  int socket_ = -1, rank_socket_ = -1;
  std::mutex mutex_{};
  std::vector<channel::Record> records_{};
  std::thread thread_;
};

}  // namespace phantora::rank
