#pragma once

#include "rank/runtime/timeline.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

/// Executes operations on small data in stream order.
///
/// While no collective's data is outstanding, an operation runs at once, on the thread that issues
/// it. A collective's result depends on other ranks; until the engine delivers it, the operations
/// behind it (in its stream, and in streams that wait for a marker behind it) are held back.
/// Nothing here knows about time: by when data must have arrived is decided by timeline's blocking
/// calls, which deliver arrived results before they return.
namespace phantora::rank::data {

using Operation = std::function<void()>;

/// Whether an operation on `stream` would be held back now, or one is on any stream.
bool pending(Stream& stream);
bool pending() noexcept;
/// Puts `operation` behind what is held back.
void hold_back(Stream& stream, Operation operation);

/// Runs `operation` when everything before it in `stream` has run.
template <class F>
void enqueue(Stream& stream, F&& operation) {
  if (pending()) {
    hold_back(stream, Operation{std::forward<F>(operation)});
  } else {
    operation();
  }
}

/// Mirrors of timeline's record() and wait(); called by them.
void record(const Stream& stream, Marker marker);
void wait(const Stream& stream, Marker marker);

/// Everything behind this point of `stream` waits until deliver(ticket).
/// `send` runs in stream order and must hand the operand's bytes to the engine; it is called when
/// the operations before it have run. `receive` gets the result. The operations of one NCCL group
/// on one stream need one ticket between them: a second ticket's send runs after the first's
/// result.
using Ticket = std::uint64_t;
void collective(Stream& stream, Ticket ticket, Operation send,
                std::function<void(std::span<const std::byte>)> receive);

/// The engine sent the result of `ticket`. Runs what it was holding back.
void deliver(Ticket ticket, std::span<const std::byte> result);

}  // namespace phantora::rank::data
