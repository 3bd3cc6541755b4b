#pragma once

#include "rank/runtime/timeline.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

namespace phantora::rank {

/// Executes operations on small data in stream order.
///
/// While no collective's data is outstanding, an operation runs at once, on the thread that issues
/// it. A collective's result depends on other ranks; until the engine delivers it, the operations
/// behind it (in its stream, and in streams that wait for a marker behind it) are held back.
/// Nothing here knows about time: by when data must have arrived is decided by timeline's blocking
/// calls, which deliver arrived results before they return. Nor about the legacy stream, whose
/// joins are markers and waits like any others. Thread-safe.
class DataQueue {
 public:
  using Operation = std::function<void()>;
  using Ticket = std::uint64_t;
  using Receive = std::function<void(std::span<const std::byte>)>;

  /// Nothing is held back anywhere: an operation may run at once.
  [[nodiscard]] bool idle() const noexcept { return !any_held_.load(std::memory_order_acquire); }
  /// Something is held back in `stream`.
  bool holds(const Stream& stream);
  /// Runs `operation` when everything before it in `stream` has run.
  void append(const Stream& stream, Operation operation);
  /// The end of `stream` now is `marker`, and what comes in `stream` waits for it.
  void record(const Stream& stream, Marker marker);
  void wait(const Stream& stream, Marker marker);
  /// Everything behind this point of `stream` waits until deliver(ticket).
  /// @param send  runs in stream order and must hand the operand's bytes to the engine. The
  ///   operations of one NCCL group on one stream need one ticket between them: a second ticket's
  ///   send runs after the first's result.
  /// @param receive  gets the result.
  void exchange(const Stream& stream, Ticket ticket, Operation send, Receive receive);
  /// The engine sent the result of `ticket`. Runs what it was holding back.
  void deliver(Ticket ticket, std::span<const std::byte> result);

 private:
  struct Passing {
    Marker marker;
  };
  struct Waiting {
    Marker marker;
  };
  struct Exchange {
    Ticket ticket;
    Operation send;
    Receive receive;
    bool sent = false;
  };
  using Item = std::variant<Operation, Passing, Waiting, Exchange>;
  using Items = std::deque<Item>;

  void push(const Stream& stream, Item item);
  bool advance(Items& items);
  void drain();

  // Recursive: an operation may deliver (a communicator of one rank needs no engine).
  std::recursive_mutex mutex_{};
  /// By stream id: only streams with operations that are held back, so that an idle queue costs one
  /// read of an atomic. Operations may add streams while we iterate.
  std::map<std::uint64_t, Items> held_{};
  std::unordered_set<Marker> unreached_{};  ///< recorded, but held back
  std::unordered_map<Ticket, std::vector<std::byte>> results_{};
  bool draining_ = false;
  std::atomic<bool> any_held_{false};
};

/// The data of this process, in the order of its streams and of the legacy stream among them.
namespace data {

using Operation = DataQueue::Operation;

/// Whether an operation on `stream` would be held back now, or one is on any stream.
bool pending(Stream& stream);
bool pending() noexcept;
/// Puts `operation` behind what is held back.
void hold_back(Stream& stream, Operation operation);

/// Whether there is any stream capture, and whether `stream` has one, which takes `operation`.
bool any_capture() noexcept;
bool captured(Stream& stream, Operation operation);

/// Whether operations run at once on all streams: then they need not be kept.
inline bool run_at_once() noexcept { return !any_capture() && !pending(); }

/// Runs `operation` when everything before it in `stream` has run.
template <class F>
void enqueue(Stream& stream, F&& operation) {
  if (any_capture() && captured(stream, operation)) return;
  if (pending()) {
    hold_back(stream, Operation{std::forward<F>(operation)});
  } else {
    operation();
  }
}

}  // namespace data

}  // namespace phantora::rank
