#pragma once

#include "channel/lookout.hpp"
#include "channel/wire.hpp"
#include "rank/runtime/host_thread.hpp"
#include "rank/runtime/spin_lock.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

/// This process's end of the channel to the engine.
namespace phantora::rank {

class Connection {
 public:
  /// The memory that the engine shares with this process: it stays mapped while the process lives.
  struct Shared {
    channel::RankShared* rank = nullptr;
    channel::HostShared* host = nullptr;
    channel::RunShared* run = nullptr;
  };
  /// @param socket  connected to the engine, which has welcomed this process.
  Connection(int socket, const channel::Welcome& welcome, const Shared& shared) noexcept
      : socket_{socket}, welcome_{welcome}, shared_{shared} {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Introduces this process to the engine, which may wait until it lets this rank run. Ends the
  /// process if there is no engine.
  static std::unique_ptr<Connection> open(const std::string& socket_name, int rank, int host);

  [[nodiscard]] const channel::Welcome& welcome() const noexcept { return welcome_; }
  [[nodiscard]] channel::HostShared& host() noexcept { return *shared_.host; }
  [[nodiscard]] channel::RankShared& shared() noexcept { return *shared_.rank; }
  [[nodiscard]] channel::RunShared& run() noexcept { return *shared_.run; }

  /// Appends to the ring, in order of the calls. Never a system call unless the ring is full.
  void append(const channel::Record& record, std::span<const std::byte> payload = {});
  /// Appends a blocking record and waits for the answer. When it returns, every delivery that the
  /// engine sent before the answer has been handled.
  channel::Reply request(HostThread& thread, channel::Record record,
                         std::span<const std::byte> payload = {});

  /// Makes the engine look at the ring. A system call only if it sleeps.
  void ring() noexcept;
  /// The same if it waits for a clock of at most `clock_ps`.
  void ring_if_awaited(std::int64_t clock_ps) noexcept {
    const std::int64_t threshold = shared().doorbell_at.load(std::memory_order_acquire);
    if (threshold != channel::no_time && clock_ps >= threshold) ring_once(threshold);
  }

  /// Gives the calling thread, whose record this is, a slot in the shared memory.
  void claim_slot(HostThread& thread) noexcept;

  /// Hands each delivery to `handle`, until the engine has ended; then ends the process.
  using HandleDelivery =
      std::function<void(const channel::Delivery& delivery, std::span<const std::byte> data)>;
  [[noreturn]] void serve_deliveries(const HandleDelivery& handle);

 private:
  /// For a clock that has passed `threshold`: one bell is enough until the engine has looked.
  [[gnu::cold, gnu::noinline]] void ring_once(std::int64_t threshold) noexcept;
  /// With appending_ held, but while it sleeps. @return where in the ring there is that much room
  [[gnu::cold, gnu::noinline]] std::uint64_t wait_for_room(std::uint64_t needed);

  int socket_;
  channel::Welcome welcome_;
  Shared shared_;
  SpinLock appending_{}, claiming_{};
  std::array<channel::Lookout, channel::max_threads> lookouts_{};  ///< for answers, by slot
  std::uint64_t consumed_ = 0;  ///< of the ring, at least; with appending_ held
};

}  // namespace phantora::rank
