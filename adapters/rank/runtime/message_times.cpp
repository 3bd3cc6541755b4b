#include "rank/runtime/message_times.hpp"

#include <algorithm>
#include <atomic>

namespace phantora::rank {
namespace {

/// The entry of `key`, or if `make` the one to use for it: where there is no room another's, as
/// `forget` leaves it.
template <class Entries, class Forget>
auto* entry_of(Entries& entries, std::uint64_t key, bool make, Forget forget) noexcept {
  constexpr std::uint64_t golden = 0x9e3779b97f4a7c15ULL;  // 2^64 / golden ratio: spreads keys
  constexpr std::size_t probes = 8;
  const std::size_t first = ((key * golden) >> 32U) % entries.size();
  for (std::size_t i = 0; i < probes; ++i) {
    auto& entry = entries[(first + i) % entries.size()];
    std::uint64_t found = entry.key.load(std::memory_order_acquire);
    if (found == key) return &entry;
    if (!make || found != 0) continue;
    if (entry.key.compare_exchange_strong(found, key) || found == key) return &entry;
  }
  if (!make) return static_cast<decltype(&entries[0])>(nullptr);
  auto& replaced = entries[first];
  forget(replaced);
  replaced.key.store(key, std::memory_order_release);
  return &replaced;
}

channel::MessageTimes::Entry* connection_of(channel::RunShared& run, std::uint64_t key,
                                            bool make) noexcept {
  return entry_of(run.message_times.entries, key, make,
                  [](auto& entry) { entry.clock_ps.store(0, std::memory_order_relaxed); });
}

channel::PipeTimes::Entry* pipe_of(channel::RunShared& run, std::uint64_t key, bool make) noexcept {
  return entry_of(run.pipe_times.entries, key, make, [](auto& entry) {
    entry.written = 0;
    entry.read = 0;
    entry.messages = 0;
  });
}

bool is_pipe(std::uint64_t key) noexcept {
  return key >> 56U == static_cast<std::uint64_t>(KeyKind::pipe);
}

void set(auto& message, MessageTime time) noexcept {
  message.by_helper.store(time.by_helper, std::memory_order_relaxed);
  message.clock_ps.store(time.clock_ps, std::memory_order_release);
}

MessageTime time_of(const auto& message) noexcept {
  return {.clock_ps = message.clock_ps.load(std::memory_order_acquire),
          .by_helper = message.by_helper.load(std::memory_order_relaxed)};
}

/// Of what holds the byte before `end`: it is in the last message that begins before. Of those that
/// are no longer kept the oldest that is.
MessageTime time_of_byte_before(const channel::PipeTimes::Entry& pipe, std::uint64_t end) noexcept {
  const std::uint64_t messages = pipe.messages.load(std::memory_order_acquire);
  const std::uint64_t kept = std::min<std::uint64_t>(messages, pipe.last.size());
  MessageTime time{};
  for (std::uint64_t back = 1; back <= kept; ++back) {
    const auto& message = pipe.last[(messages - back) % pipe.last.size()];
    time = time_of(message);
    if (message.at.load(std::memory_order_relaxed) < end) break;
  }
  return time;
}

}  // namespace

void leave_message_time(channel::RunShared& run, std::uint64_t key, MessageTime time) noexcept {
  if (is_pipe(key)) {
    // Who writes to a pipe has it for itself meanwhile, or writes so little that it stays together:
    // where two do so at once, their times may be exchanged.
    channel::PipeTimes::Entry* const pipe = pipe_of(run, key, true);
    const std::uint64_t number = pipe->messages.load(std::memory_order_relaxed);
    auto& message = pipe->last[number % pipe->last.size()];
    set(message, time);
    message.at.store(pipe->written.load(std::memory_order_relaxed), std::memory_order_relaxed);
    pipe->messages.store(number + 1, std::memory_order_release);
  } else if (time.clock_ps != 0) {
    set(*connection_of(run, key, true), time);
  }
}

void message_was_written(channel::RunShared& run, std::uint64_t key, std::size_t bytes) noexcept {
  if (!is_pipe(key)) return;
  if (auto* const pipe = pipe_of(run, key, false)) pipe->written.fetch_add(bytes);
}

MessageTime message_was_read(channel::RunShared& run, std::uint64_t key,
                             std::size_t bytes) noexcept {
  if (is_pipe(key)) {
    auto* const pipe = pipe_of(run, key, false);
    return pipe == nullptr ? MessageTime{}
                           : time_of_byte_before(*pipe, pipe->read.fetch_add(bytes) + bytes);
  }
  const auto* const connection = connection_of(run, key, false);
  return connection == nullptr ? MessageTime{} : time_of(*connection);
}

}  // namespace phantora::rank
