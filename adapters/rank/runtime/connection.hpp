#pragma once

#include "channel/wire.hpp"
#include "rank/runtime/host_thread.hpp"

#include <cstdint>
#include <span>

/// This process's end of the channel to the engine.
namespace phantora::rank {

class Connection {
 public:
  /// The connection; made at first use, which may wait until the engine lets this rank run.
  /// nullptr when the process does not run under `phantora run`.
  static Connection* get();
  /// The connection if there is one already.
  static Connection* established() noexcept;

  [[nodiscard]] const channel::Welcome& welcome() const noexcept { return welcome_; }
  [[nodiscard]] channel::HostShared& host() noexcept { return *host_; }
  [[nodiscard]] channel::RankShared& shared() noexcept { return *shared_; }
  [[nodiscard]] channel::RunShared& run() noexcept { return *run_; }

  /// Appends to the ring, in order of the calls. Never a system call unless the ring is full.
  void append(channel::Record record, std::span<const std::byte> payload = {});
  /// Appends a blocking record and waits for the answer. When it returns, every delivery that the
  /// engine sent before the answer has been handled.
  channel::Reply request(HostThread& thread, channel::Record record,
                         std::span<const std::byte> payload = {});

  /// Makes the engine look at the ring.
  void ring() noexcept;

  static void claim_slot(HostThread& thread) noexcept;
  /// Rings the doorbell if the engine waits for a clock of at most `clock_ps`.
  static void ring_if_awaited(std::int64_t clock_ps) noexcept;

 private:
  Connection() = default;
  bool open();
  void write(std::span<const std::byte> bytes) noexcept;
  void serve_deliveries();

  int socket_ = -1;
  channel::Welcome welcome_{};
  channel::RankShared* shared_ = nullptr;
  channel::HostShared* host_ = nullptr;
  channel::RunShared* run_ = nullptr;
};

/// Called on the service thread for each delivery (data_queue and host functions).
void handle_delivery(const channel::Delivery& delivery, std::span<const std::byte> data);

}  // namespace phantora::rank
