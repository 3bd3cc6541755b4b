#include "rank/runtime/rank.hpp"

#include "channel/number.hpp"
#include "rank/runtime/connection.hpp"
#include "rank/runtime/process.hpp"
#include "rank/runtime/run_memory.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace phantora::rank {
namespace {

std::optional<channel::Settings> settings_of_environment() {
  const char* const text = std::getenv(channel::settings_variable);
  if (text == nullptr) return std::nullopt;
  auto settings = channel::parse_settings(text);
  if (!settings) {
    std::fprintf(stderr,
                 "phantora: %s is not as expected: this program's hooks and the phantora command "
                 "are of different builds\n",
                 channel::settings_variable);
    std::_Exit(70);
  }
  return settings;
}

std::size_t own_host(const std::optional<channel::Settings>& settings) {
  if (!settings) return 0;
  if (settings->host_by_rank) {
    const auto rank = rank_number();
    const auto seat = rank ? channel::seat_of_rank(*settings, *rank) : std::nullopt;
    if (seat) return seat->host;
  }
  const char* const told = std::getenv(channel::host_variable);
  const auto host = channel::number<std::size_t>(told != nullptr ? told : "").value_or(0);
  return std::min(host, settings->hosts.size() - 1);
}

GpuModel own_gpu(const std::optional<channel::Settings>& settings, std::size_t host) {
  if (!settings) return {};
  const std::string& key = settings->hosts[host].gpu_model;
  const auto own = std::ranges::find(settings->gpus, key, &GpuModel::key);
  GpuModel model = own != settings->gpus.end() ? *own : gpu_model(key);
  model.memory = settings->hosts[host].gpu_memory;
  return model;
}

/// CUDA_VISIBLE_DEVICES as CUDA reads it: indices up to the first that is not valid.
std::vector<int> visible_devices(int gpus) {
  std::vector<int> visible;
  const char* text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (text == nullptr) {
    for (int i = 0; i < gpus; ++i) visible.push_back(i);
    return visible;
  }
  std::istringstream list{text};
  for (std::string item; std::getline(list, item, ',');) {
    char* end = nullptr;
    const long index = std::strtol(item.c_str(), &end, 10);
    if (end == item.c_str() || index < 0 || index >= gpus) break;
    visible.push_back(static_cast<int>(index));
  }
  return visible;
}

std::int64_t real_ns(clockid_t clock) {
  timespec now{};
  // The system call: the hooks on the C library's function come back here.
  syscall(SYS_clock_gettime, clock, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

/// Of clocks that go on from what they show: virtual time is `start_ps` now.
Epoch epoch_from_here(FollowedClock* followed, std::int64_t start_ps) {
  const std::int64_t real = real_ns(CLOCK_MONOTONIC);
  const std::int64_t shown = followed != nullptr ? followed->monotonic_ns(real) : real;
  const std::int64_t start = shown - start_ps / 1000;
  return {real_ns(CLOCK_REALTIME) - real + start, start};
}

std::unique_ptr<FollowedClock> clock_to_follow(const std::optional<channel::Settings>& settings,
                                               Standing standing) {
  if (standing != Standing::may_join || descends_from_rank()) return nullptr;
  return FollowedClock::open(settings->run_memory);
}

Standing first_standing(bool in_run) {
  if (!in_run) return Standing::outside;
  return rank_number() ? Standing::in_time : Standing::may_join;
}

}  // namespace

Rank::Rank()
    : settings{settings_of_environment()},
      host{own_host(settings)},
      gpu{own_gpu(settings, host)},
      standing{first_standing(settings.has_value())},
      followed{clock_to_follow(settings, standing)},
      epoch{settings.value_or(channel::Settings{}).epoch},
      clocks{settings.value_or(channel::Settings{}).host_time},
      streams{clocks, data, activities, physical_device},
      communicators{clocks, streams, activities} {
  if (standing == Standing::outside) return;
  if (descends_from_rank()) {
    if (channel::RunShared* const run = run_memory_at(settings->run_memory))
      helper = new Helper{*run, settings->host_time, Time{}};
  }
  static thread_local constinit Time forking{};
  pthread_atfork(
      [] {
        Helper* const parent = rank::helper();
        forking = in_virtual_time() ? virtual_now() : parent != nullptr ? parent->now() : Time{};
      },
      nullptr, [] { this_rank().was_forked(forking); });
}

// Only the forking thread lives on in a child, and CUDA does not survive a fork.
void Rank::was_forked(Time then) noexcept {
  Connection* const used = clocks.connection();
  const bool by_rank = standing == Standing::in_time || helper != nullptr;
  standing.store(used != nullptr ? Standing::outside : Standing::may_join,
                 std::memory_order_relaxed);
  if (!by_rank) return;
  channel::RunShared* const run =
      used != nullptr ? &used->run() : run_memory_at(settings->run_memory);
  helper = run != nullptr ? new (std::nothrow) Helper{*run, settings->host_time, then} : nullptr;
}

const std::vector<int>& Rank::read_devices() {
  std::call_once(devices_once_, [this] {
    devices_ = visible_devices(physical_device_count());
    devices_read_.store(true, std::memory_order_release);
  });
  return devices_;
}

Connection* Rank::make_connection() {
  const std::lock_guard lock{connecting_};
  if (Connection* const made = clocks.connection()) return made;
  if (standing == Standing::outside) return nullptr;
  Connection* const made =
      Connection::open(settings->socket, rank_number().value_or(-1), static_cast<int>(host))
          .release();
  if (standing == Standing::may_join) {
    epoch = epoch_from_here(followed.get(), made->welcome().start_ps);
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
      host_function_begins(Time{Duration{delivery.clock_ps}});
      call->function(call->argument);
      const Time end = host_function_ends();
      clocks.connection()->append({.op = channel::Op::host_function_done,
                                   .thread = channel::no_thread,
                                   .clock_ps = end.time_since_epoch().count(),
                                   .a = delivery.ticket});
      clocks.connection()->ring();
      return;
    }
    case channel::Delivery::Kind::spans: {
      std::vector<channel::TaggedSpan> spans(bytes.size() / sizeof(channel::TaggedSpan));
      std::memcpy(spans.data(), bytes.data(), spans.size() * sizeof(channel::TaggedSpan));
      activities.finish(spans);
      return;
    }
  }
}

SmallData& small_data() noexcept { return this_rank().small_data; }

namespace detail {

constinit std::atomic<Rank*> the_rank{nullptr};

Rank& make_rank() noexcept {
  static Rank* const made = new Rank;
  the_rank.store(made, std::memory_order_release);
  return *made;
}

}  // namespace detail

}  // namespace phantora::rank
