#include "rank/runtime/rank.hpp"

#include "rank/runtime/connection.hpp"
#include "rank/runtime/process.hpp"

#include <cstdlib>
#include <string>
#include <thread>

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace phantora::rank {
namespace {

Epoch epoch_of_environment() {
  Epoch epoch;
  if (const char* text = std::getenv(channel::epoch_variable)) {
    char* rest = nullptr;
    epoch.realtime_ns = std::strtoll(text, &rest, 10);
    if (*rest == ':') epoch.monotonic_ns = std::strtoll(rest + 1, nullptr, 10);
  }
  return epoch;
}

/// Of clocks that showed real time so far and go on from there: virtual time is `start_ps` now.
Epoch epoch_of_real_time(std::int64_t start_ps) {
  const auto before_start = [&](clockid_t clock) {
    timespec now{};
    // The system call: the hooks on the C library's function come back here.
    syscall(SYS_clock_gettime, clock, &now);
    return now.tv_sec * 1'000'000'000 + now.tv_nsec - start_ps / 1000;
  };
  return {before_start(CLOCK_REALTIME), before_start(CLOCK_MONOTONIC)};
}

Standing first_standing() {
  if (std::getenv(channel::socket_variable) == nullptr) return Standing::outside;
  return rank_number() ? Standing::in_time : Standing::may_join;
}

int own_host() {
  const char* const text = std::getenv(channel::host_variable);
  return text != nullptr ? static_cast<int>(std::strtol(text, nullptr, 10)) : 0;
}

}  // namespace

Rank::Rank()
    : standing{first_standing()},
      epoch{epoch_of_environment()},
      clocks{channel::host_time_of_environment()},
      streams{clocks, data, physical_device},
      communicators{clocks, streams} {
  if (standing == Standing::outside) return;
  // Only the forking thread lives on in a child, and CUDA does not survive a fork.
  pthread_atfork(nullptr, nullptr, [] {
    Rank& rank = this_rank();
    const bool used = rank.clocks.connection() != nullptr;
    rank.standing.store(used ? Standing::outside : Standing::may_join, std::memory_order_relaxed);
  });
}

Connection* Rank::make_connection() {
  const std::lock_guard lock{connecting_};
  if (Connection* const made = clocks.connection()) return made;
  if (standing == Standing::outside) return nullptr;
  Connection* const made = Connection::open(std::getenv(channel::socket_variable),
                                            rank_number().value_or(-1), own_host())
                               .release();
  if (standing == Standing::may_join) {
    epoch = epoch_of_real_time(made->welcome().start_ps);
    standing.store(Standing::in_time, std::memory_order_release);
  }
  clocks.connected(*made);
  setenv(channel::connected_variable, std::to_string(getpid()).c_str(), 1);
  if (this_thread().issues) clocks.become_issuer(this_thread());
  std::thread{[this, made] {
    made->serve_deliveries(
        [this](const channel::Delivery& delivery, std::span<const std::byte> bytes) {
          handle_delivery(delivery, bytes);
        });
  }}.detach();
  return made;
}

void Rank::handle_delivery(const channel::Delivery& delivery, std::span<const std::byte> bytes) {
  switch (delivery.kind) {
    case channel::Delivery::Kind::result:
      data.deliver(delivery.ticket, bytes);
      return;
    case channel::Delivery::Kind::run_host_function: {
      const auto call = host_functions.take(delivery.ticket);
      if (!call) return;
      runs_at(Time{Duration{delivery.clock_ps}});
      call->function(call->argument);
      clocks.connection()->append({.op = channel::Op::host_function_done,
                                   .thread = channel::no_thread,
                                   .a = delivery.ticket});
      clocks.connection()->ring();
      return;
    }
  }
}

namespace detail {

constinit std::atomic<Rank*> the_rank{nullptr};

Rank& make_rank() noexcept {
  static Rank* const made = new Rank;
  the_rank.store(made, std::memory_order_release);
  return *made;
}

}  // namespace detail

}  // namespace phantora::rank
